"""NamespaceExists: refuses whatever is in a namespace that does not exist."""

from __future__ import annotations

from collections.abc import Awaitable

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, DELETE, UPDATE, Attributes, Plugin


class NamespaceExists(Plugin):
    operations = frozenset({CREATE, UPDATE, DELETE})

    def __init__(self, initializer: Initializer) -> None:
        self.initializer = initializer

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        if not attributes.namespace or attributes.kind[::2] == ("", "Namespace"):
            return None
        if self.initializer.lister("", "namespaces").get("", attributes.namespace) is not None:
            return None
        return self._look(attributes.namespace)

    async def _look(self, name: str) -> None:
        await self.initializer.resource("", "namespaces").get(name)  # raises NotFound


def make(initializer: Initializer, configuration: object) -> Plugin:
    return NamespaceExists(initializer)
