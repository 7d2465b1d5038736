"""``-o json`` and ``-o yaml`` (upstream: cli-runtime ``printers/json.go``, ``yaml.go``)."""

from __future__ import annotations

from kapi.kubectl.printers.interface import Printer, typed, without_managed_fields
from kapi.machinery.go_json import json_text
from kapi.machinery.tree import Object


class JSONPrinter(Printer):
    def __init__(self, managed_fields: bool = False, *, ordered: bool = True) -> None:
        self._managed_fields, self._ordered = managed_fields, ordered

    def print(self, obj: Object) -> str:
        shown = obj if self._managed_fields else without_managed_fields(obj)
        return json_text(shown if self._ordered else typed(shown), 4, ordered=self._ordered) + "\n"

    def print_event(self, event: str, obj: Object) -> str:
        """The event on one line, with managed fields."""
        return f'{{"type":{json_text(event)},"object":{json_text(obj)}}}\n'


class YAMLPrinter(Printer):
    """Documents are separated by ``---``."""

    def __init__(self, managed_fields: bool = False) -> None:
        self._managed_fields = managed_fields
        self._count = 0

    def print(self, obj: Object) -> str:
        from kapi.codecs.yaml_writing import dump_yaml

        self._count += 1
        text = dump_yaml(obj if self._managed_fields else without_managed_fields(obj)).decode()
        return text if self._count == 1 else "---\n" + text
