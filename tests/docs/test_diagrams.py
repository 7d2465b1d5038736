"""The diagrams are those of their texts, and the files they name exist."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "docs" / "diagrams").glob("*.txt"))


def _drawing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw", ROOT / "docs" / "diagrams" / "draw.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["draw"] = importlib.util.module_from_spec(spec)  # its dataclasses look it up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["draw"]
    return module


draw = _drawing()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_diagram_is_that_of_its_text(source: Path) -> None:
    made = draw.draw(draw.parse(source.read_text()))
    ElementTree.fromstring(made)
    assert source.with_suffix(".svg").read_text() == made, "run python docs/diagrams/draw.py"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_files_of_a_diagram_exist_and_its_page_shows_it(source: Path) -> None:
    named = [name for _, files in draw.parse(source.read_text()).actors.values() for name in files.split(", ") if name]
    package = ROOT / "kapi"
    for name in named:
        path = ROOT / "kapi" / name if "/" in name else package / name
        assert path.exists(), name
        package = path.parent
    pages = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.rst"))
    assert f"diagrams/{source.stem}.svg" in pages


def test_a_line_that_is_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="client => server"):
        draw.parse("title T\nactor client Client\nclient => server: x")
