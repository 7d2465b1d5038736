"""``-o name``, and messages such as ``pod/a created`` (upstream: cli-runtime ``printers/name.go``)."""

from __future__ import annotations

from kapi.kubectl.printers.interface import Printer
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object


class NamePrinter(Printer):
    """Prints ``kind.group/name``, and the operation after it unless ``short``."""

    def __init__(self, operation: str = "", short: bool = True) -> None:
        self._operation, self._short = operation, short

    def print(self, obj: Object) -> str:
        if "items" in obj and isinstance(obj["items"], list):
            return "".join(self.print(item) for item in obj["items"])
        name = name_of(obj)
        return f"{name}\n" if self._short or not self._operation else f"{name} {self._operation}\n"

    def print_event(self, event: str, obj: Object) -> str:
        return self.print(obj)


def name_of(obj: Object) -> str:
    kind = str(obj.get("kind") or "<unknown>").lower()
    group = GroupVersion.parse(str(obj.get("apiVersion") or "")).group
    name = (obj.get("metadata") or {}).get("name") or "<unknown>"
    return f"{kind}.{group}/{name}" if group else f"{kind}/{name}"
