"""``-o go-template=...`` (upstream: cli-runtime ``printers/template.go``)."""

from __future__ import annotations

from kapi.kubectl.go_template.execution import Template
from kapi.kubectl.go_template.lexer import TemplateError
from kapi.kubectl.messages import CommandError
from kapi.kubectl.printers.interface import Printer
from kapi.machinery.go_json import json_text
from kapi.machinery.golang import quote, value_text
from kapi.machinery.tree import Object


class TemplatePrinter(Printer):
    """After an error, the output so far is printed, followed by the data that was given to the template."""

    def __init__(self, text: str, *, allow_missing: bool = True, ordered: bool = True) -> None:
        self._ordered = ordered
        try:
            self._template = Template(text, allow_missing=allow_missing)
        except TemplateError as error:
            raise CommandError(f"error parsing template {text}, {error}") from None

    def print(self, obj: Object) -> str:
        pieces: list[str] = []
        try:
            self._template.execute(obj, pieces.append)
        except TemplateError as error:
            text = self._template.text
            pieces.append(
                f"Error executing template: {error}. Printing more information for debugging the template:\n"
                f"\ttemplate was:\n\t\t{text}\n\traw data was:\n\t\t{json_text(obj, ordered=self._ordered)}\n"
                f"\tobject given to template engine was:\n\t\t{value_text(obj)}\n\n"
            )
            raise CommandError(f"error executing template {quote(text)}: {error}", output="".join(pieces)) from None
        return "".join(pieces)
