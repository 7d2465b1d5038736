"""The interface of printers."""

from __future__ import annotations

from typing import Protocol

from kapi.machinery.tree import Object


class Printer(Protocol):
    def print(self, obj: Object) -> str:
        """The object as text, with its line end."""

    def print_event(self, event: str, obj: Object) -> str:
        """The object as part of a watch event of this type."""
        return self.print({"type": event, "object": obj})


def without_managed_fields(obj: Object) -> Object:
    """The object, or the items of a list, without ``metadata.managedFields``; copied where necessary."""
    if "items" in obj and isinstance(obj["items"], list):
        return {**obj, "items": [without_managed_fields(item) for item in obj["items"]]}
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        kept = {key: value for key, value in metadata.items() if key != "managedFields"}
        return {**obj, "metadata": kept}
    return obj


def typed(obj: Object) -> Object:
    """The fields in the order of the kind's Go type.  An object that is not of a server is in that order already.

    Raises CommandError.
    """
    if "uid" not in (obj.get("metadata") or {}):
        return obj
    from kapi.kubectl.local_patch import decoded

    return decoded(obj)
