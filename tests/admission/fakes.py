"""An in-memory client for plugins under test: objects by resource, compare-and-swap on resourceVersion."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, Attributes
from kapi.machinery import status, tree
from kapi.machinery.gvk import GroupResource, GroupVersionKind, GroupVersionResource
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo


class FakeLister:
    def __init__(self, objects: dict[tuple[str, str], Object]) -> None:
        self.objects = objects

    def get(self, namespace: str, name: str) -> Object | None:
        return self.objects.get((namespace, name))

    def list(self, namespace: str = "") -> list[Object]:
        return [obj for (ns, _), obj in sorted(self.objects.items()) if not namespace or ns == namespace]

    def labelled(self, labels: Mapping[str, str], namespace: str = "") -> list[Object]:
        found = self.list(namespace)
        return [obj for obj in found if labels.items() <= (obj["metadata"].get("labels") or {}).items()]

    @property
    def changes(self) -> object:
        return {key: id(obj) for key, obj in self.objects.items()}


class FakeResource:
    """One resource; ``cached`` is what its lister sees, which may lag behind ``objects``."""

    def __init__(self, resource: GroupResource) -> None:
        self.group_resource = resource
        self.objects: dict[tuple[str, str], Object] = {}
        self.cached = self.objects
        self.revision = 0

    @property
    def lister(self) -> FakeLister:
        return FakeLister(self.cached)

    def put(self, obj: Object) -> Object:
        self.revision += 1
        metadata = obj.setdefault("metadata", {})
        metadata["resourceVersion"] = str(self.revision)
        metadata.setdefault("uid", f"uid-{self.revision}")
        self.objects[(metadata.get("namespace", ""), metadata["name"])] = obj
        return obj

    async def get(self, name: str, namespace: str = "") -> Object:
        found = self.objects.get((namespace, name))
        if found is None:
            raise status.not_found(self.group_resource, name)
        return found

    async def create(self, obj: Object, namespace: str = "") -> Object:
        obj = tree.copy(obj)
        if namespace:
            obj["metadata"]["namespace"] = namespace
        if (namespace, obj["metadata"]["name"]) in self.objects:
            raise status.already_exists(self.group_resource, obj["metadata"]["name"])
        return self.put(obj)

    async def update(self, obj: Object, namespace: str = "", subresource: str = "") -> Object:
        name = obj["metadata"]["name"]
        stored = await self.get(name, namespace)
        if stored["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            raise status.conflict(self.group_resource, name, status.OPTIMISTIC_LOCK)
        return self.put(tree.copy(obj))


class FakeClient:
    def __init__(self) -> None:
        self.made: dict[tuple[str, str], FakeResource] = {}

    def resource(self, group: str, plural: str) -> Any:
        return self.made.setdefault((group, plural), FakeResource(GroupResource(group, plural)))

    def put(self, group: str, plural: str, *objects: Object) -> None:
        for obj in objects:
            self.resource(group, plural).put(obj)


def initializer(client: FakeClient | None = None, **more: Any) -> Initializer:
    return Initializer(client or FakeClient(), **more)  # type: ignore[arg-type]


def attributes(
    obj: Object | None,
    old: Object | None = None,
    *,
    operation: str = CREATE,
    resource: str = "pods",
    group: str = "",
    version: str = "v1",
    kind: str = "Pod",
    namespace: str = "n",
    subresource: str = "",
    **more: Any,
) -> Attributes:
    name = ((obj or old or {}).get("metadata") or {}).get("name", "")
    user = more.pop("user", UserInfo("someone", groups=("system:authenticated",)))
    return Attributes(
        operation,
        GroupVersionKind(group, version, kind),
        GroupVersionResource(group, version, resource),
        namespace,
        name,
        obj,
        old,
        user,
        subresource=subresource,
        **more,
    )


def pod(name: str = "p", **spec: Any) -> Object:
    spec.setdefault("containers", [{"name": "c", "image": "i"}])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n"}, "spec": spec}


def finish(waiting: None | Awaitable[None]) -> None:
    """Runs what a plugin returns, which must not wait for I/O."""
    if not inspect.isawaitable(waiting):
        return

    async def run() -> None:
        await waiting

    results: list[Any] = []
    Deferred.fromCoroutine(run()).addBoth(results.append)
    assert results, "the plugin waits"
    if isinstance(results[0], Failure):
        results[0].raiseException()
