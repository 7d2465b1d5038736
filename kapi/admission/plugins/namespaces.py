"""Plugins of namespaces: no new objects in a missing or terminating namespace; the system's namespaces are not deleted."""

from __future__ import annotations

from collections.abc import Awaitable

from kapi.admission.initializer import InitializedPlugin, Initializer
from kapi.admission.interface import CREATE, DELETE, UPDATE, Attributes, Plugin, denied
from kapi.machinery import tree
from kapi.machinery.status import AlreadyExists, StatusError, forbidden
from kapi.machinery.tree import Object

_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_PRUNE_ABOVE = 100  # with more deleted namespaces the older ones are forgotten
_RECENT_SECONDS = 30.0  # how long a deleted namespace is looked up in the store


class NamespaceLifecycle(Plugin):
    """Refuses new objects in a missing or terminating namespace, and the deletion of the system's namespaces."""

    operations = frozenset({CREATE, UPDATE, DELETE})

    def __init__(self, initializer: Initializer) -> None:
        self.initializer = initializer
        self._deleted: dict[str, float] = {}  # namespace -> monotonic time until which the cache is not trusted
        self._prune_above = _PRUNE_ABOVE

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        kind = attributes.kind
        is_namespace = kind.kind == "Namespace" and not kind.group
        if attributes.operation == DELETE:
            if is_namespace:
                if attributes.name in _IMMORTAL:
                    raise forbidden(
                        attributes.resource.group_resource, attributes.name, "this namespace may not be deleted"
                    )
                self._remember(attributes.name)
            return None
        if is_namespace or not attributes.namespace or attributes.resource.resource == "localsubjectaccessreviews":
            return None
        namespace = self.initializer.lister("", "namespaces").get("", attributes.namespace)
        if namespace is not None:
            active = tree.dig(namespace, "status", "phase") == "Active"
            if not (active and self._deleted and self._recently_deleted(attributes.namespace)):
                self._check(attributes, namespace)
                return None
        return self._check_stored(attributes)

    def _remember(self, name: str) -> None:
        now = self.initializer.monotonic()
        if len(self._deleted) > self._prune_above:
            self._deleted = {key: until for key, until in self._deleted.items() if until > now}
            self._prune_above = max(_PRUNE_ABOVE, 2 * len(self._deleted))
        self._deleted[name] = now + _RECENT_SECONDS

    def _recently_deleted(self, name: str) -> bool:
        until = self._deleted.get(name)
        if until is None:
            return False
        if until < self.initializer.monotonic():
            del self._deleted[name]
            return False
        return True

    async def _check_stored(self, attributes: Attributes) -> None:
        self._check(attributes, await self.initializer.resource("", "namespaces").get(attributes.namespace))

    def _check(self, attributes: Attributes, namespace: Object) -> None:
        if attributes.operation != CREATE or tree.dig(namespace, "status", "phase") != "Terminating":
            return
        name = attributes.namespace
        error = denied(attributes, f"unable to create new content in namespace {name} because it is being terminated")
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        error.details = {**(error.details or {}), "causes": [cause]}
        raise error


class NamespaceAutoProvision(InitializedPlugin):
    """Creates the namespace of a new object."""

    operations = frozenset({CREATE})

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


class NamespaceExists(InitializedPlugin):
    """Refuses objects in a namespace that does not exist."""

    operations = frozenset({CREATE, UPDATE, DELETE})

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        if not attributes.namespace or attributes.kind[::2] == ("", "Namespace"):
            return None
        if self.initializer.lister("", "namespaces").get("", attributes.namespace) is not None:
            return None
        return self._look(attributes.namespace)

    async def _look(self, name: str) -> None:
        await self.initializer.resource("", "namespaces").get(name)  # raises NotFound
