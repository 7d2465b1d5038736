"""The resource that an endpoint serves, and its conversions (upstream: ``endpoints/handlers/rest.go`` RequestScope)."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec
import orjson

from kapi.codecs import json_pieces
from kapi.machinery import status, tree
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.tree import Object
from kapi.registry.conversion import Unconverted, converting
from kapi.registry.operation import Operation
from kapi.registry.resource_store import ResourceStore
from kapi.request.context import RequestContext
from kapi.resources.definition import Resource, Subresource
from kapi.schema.types import Type
from kapi.watchcache.entry import Entry


class RequestScope(msgspec.Struct, eq=False):
    """A served resource (of one version) or one of its subresources."""

    resource: Resource
    store: ResourceStore  # None for kinds that are not stored, whose handlers do not use it
    subresource: Subresource | None = None

    @property
    def gvr(self) -> GroupVersionResource:
        return self.resource.group_version_resource

    @property
    def kind(self) -> GroupVersionKind:
        """The kind of the bodies."""
        return self.resource.body_kind(self.subresource)

    @property
    def type(self) -> Type:
        return self.store.type_of(self.resource)

    @property
    def now(self) -> float:
        """The unix seconds at which a table shows the ages of objects."""
        return time.time() if self.store is None else self.store.environment.clock()

    @property
    def same_version(self) -> bool:
        """Whether stored bytes can be sent unchanged."""
        return self.resource.from_storage is None

    def to_storage(self, obj: Object) -> Object:
        convert = self.resource.to_storage
        return obj if convert is None else convert(obj)

    def from_storage(self, obj: Object) -> Object:
        convert = self.resource.from_storage
        return obj if convert is None else convert(obj)

    def unconverted(self, objects: Iterable[Object]) -> list[Object]:
        """The stored objects that the conversion webhook must convert first."""
        found = []
        for obj in objects:
            try:
                self.from_storage(obj)
            except Unconverted as need:
                found.append(need.obj)
        return found

    def current(self, existing: Object) -> Object:
        """A copy, in the version of the request, of the object that the registry passes to a transform."""
        copied: Object = tree.copy(existing)
        return copied if self.resource.typed_items else self.from_storage(copied)

    def may_take_long(self, entry: Entry, plain: bool) -> bool:
        """Whether the object is a custom resource to be converted or shown as a table: its schema or columns may be large."""
        resource = self.resource
        if not resource.typed_items:
            return False
        return not plain or (resource.from_storage is not None and entry.served_as is not resource.identity)

    def served(self, entry: Entry) -> bytes:
        """A cached object's bytes in the requested version.

        After a change of the definition stored objects may need pruning and defaults.  Most do not; the entry notes that, so that
        they are decoded only once.
        """
        resource = self.resource
        if resource.from_storage is None or entry.served_as is resource.identity:
            return entry.data
        stored = entry.object
        obj = resource.from_storage(stored)
        if not resource.storage_version and obj == stored:
            entry.served_as = resource.identity
            return entry.data
        return json_pieces.with_long_numbers(orjson.dumps(obj))

    async def answered(self, obj: Object) -> Object:
        """A written object in the requested version.

        Waits for the conversion webhook here, because the handler of a write must not run again.
        """
        if self.resource.converter is None:
            return self.from_storage(obj)

        async def run() -> Object:
            return self.from_storage(obj)

        return await converting(self.resource.converter, run)

    def operation(
        self, ctx: RequestContext, name: str, options: Object, field_manager: str, dry_run: bool
    ) -> Operation:
        info, user = ctx.info, ctx.user
        assert info is not None and user is not None
        return Operation(
            resource=self.resource,
            namespace=info.namespace if self.resource.namespaced else "",
            name=name,
            subresource=self.subresource,
            user=user,
            field_manager=field_manager,
            dry_run=dry_run,
            options=options,
            warnings=ctx.warnings,
            annotations=ctx.annotations,
            deadline=ctx.deadline,
            request=ctx,
        )


def path_name(ctx: RequestContext) -> str:
    """The name in the URL, "" for a collection.

    ``ctx.info.name`` may also come from a field selector, for authorization.
    """
    assert ctx.info is not None
    parts = ctx.info.parts
    return parts[1] if len(parts) > 1 else ""


def request_name(ctx: RequestContext) -> str:
    """The name in the URL.  Raises BadRequest when there is none."""
    name = path_name(ctx)
    if not name:
        raise status.bad_request("name must be provided")
    return name
