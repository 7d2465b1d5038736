"""Templates give what kubectl gives: ``go_templates.jsonl`` holds what kubectl 1.37 printed of ``template_object.json``.

A line is the template, whether keys may be missing, what was printed, and the error.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kapi.kubectl.go_template.execution import Template
from kapi.kubectl.go_template.lexer import TemplateError

HERE = Path(__file__).parent
RECORDED = [json.loads(line) for line in (HERE / "go_templates.jsonl").read_text().splitlines()]
OBJECT = json.loads((HERE / "files" / "template_object.json").read_text())


@pytest.mark.parametrize(("text", "allow_missing", "printed", "error"), RECORDED)
def test_a_template_prints_what_kubectl_prints(text: str, allow_missing: bool, printed: str, error: str) -> None:
    pieces: list[str] = []
    said = ""
    try:
        Template(text, allow_missing=allow_missing).execute(OBJECT, pieces.append)
    except TemplateError as problem:
        said = str(problem)
    assert ("".join(pieces), said) == (printed, error)


def test_a_template_that_calls_itself_ends() -> None:
    with pytest.raises(TemplateError, match="exceeded maximum template depth"):
        Template('{{define "x"}}{{template "x"}}{{end}}{{template "x"}}').execute({}, lambda text: None)
