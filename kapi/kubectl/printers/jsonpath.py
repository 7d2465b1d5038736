"""``-o jsonpath=...`` (upstream: cli-runtime ``printers/jsonpath.go``)."""

from __future__ import annotations

from kapi.kubectl.jsonpath import Template
from kapi.kubectl.messages import CommandError
from kapi.kubectl.printers.interface import Printer
from kapi.machinery.golang import quote, syntax
from kapi.machinery.jsonpath import JSONPathError
from kapi.machinery.tree import Object


class JSONPathPrinter(Printer):
    """``as_json``: the values of each part as a JSON list."""

    def __init__(self, text: str, *, as_json: bool = False, allow_missing: bool = True) -> None:
        try:
            self._template = Template(text, allow_missing=allow_missing)
        except JSONPathError as error:
            raise CommandError(f"error parsing jsonpath {text}, {error}") from None
        self._as_json = as_json

    def print(self, obj: Object) -> str:
        try:
            return self._template.as_json(obj) if self._as_json else self._template.expand(obj)
        except JSONPathError as error:
            text = self._template.text
            raise CommandError(
                f'error executing jsonpath "{quote(text)[1:-1]}": Error executing template: {error}. Printing more information '
                f"for debugging the template:\n\ttemplate was:\n\t\t{text}\n\tobject given to jsonpath engine was:\n\t\t"
                f"{syntax(obj)}\n\n\n"
            ) from None
