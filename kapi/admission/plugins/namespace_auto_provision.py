"""NamespaceAutoProvision: creates the namespace that something is created in."""

from __future__ import annotations

from collections.abc import Awaitable

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, Attributes, Plugin, denied
from kapi.machinery.status import AlreadyExists, StatusError


class NamespaceAutoProvision(Plugin):
    operations = frozenset({CREATE})

    def __init__(self, initializer: Initializer) -> None:
        self.initializer = initializer

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        if attributes.dry_run or not attributes.namespace or attributes.kind[::2] == ("", "Namespace"):
            return None
        if self.initializer.lister("", "namespaces").get("", attributes.namespace) is not None:
            return None
        return self._create(attributes)

    async def _create(self, attributes: Attributes) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": attributes.namespace}}
        try:
            await self.initializer.resource("", "namespaces").create(namespace)
        except AlreadyExists:
            return
        except StatusError as error:
            raise denied(attributes, error.message) from None


def make(initializer: Initializer, configuration: object) -> Plugin:
    return NamespaceAutoProvision(initializer)
