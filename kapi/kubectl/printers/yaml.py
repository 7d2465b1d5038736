"""``-o yaml`` (upstream: cli-runtime ``printers/yaml.go``)."""

from __future__ import annotations

from kapi.kubectl.printers.interface import Printer, without_managed_fields
from kapi.machinery.tree import Object


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
