"""The generic store, which serves a resource of any type (upstream: apiserver ``registry/generic``).

A ResourceStore ties a stored resource (its strategy, lifecycle and types) to its watch cache, the store and
admission.  The verbs are in files of their own next to this one; objects here are in the storage version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, cached_property

from kapi.admission.interface import CREATE, UPDATE, AdmissionChain, Attributes
from kapi.codecs.split import encode_halves
from kapi.machinery import status
from kapi.machinery.checkpoint import LARGE, engage
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupResource, GroupVersionKind
from kapi.machinery.names import path_segment
from kapi.machinery.tree import Object
from kapi.registry.contention import Contention
from kapi.registry.conversion import converting
from kapi.registry.environment import Environment
from kapi.registry.operation import Operation, Stored
from kapi.request.user import UserInfo
from kapi.resources.definition import Resource, StrategyContext, Subresource
from kapi.schema import builtin
from kapi.schema.decode import RAW_MEMBERS, decode_tree
from kapi.schema.empty_lists import nil_empty_lists
from kapi.schema.managedfields import FieldManager
from kapi.schema.types import Type
from kapi.store.interface import Store
from kapi.watchcache.cache import Cache
from kapi.watchcache.entry import Entry, Fields
from kapi.watchcache.unreadable import Unreadable

_VERBS = {"CreateOptions": "create", "UpdateOptions": "update", "PatchOptions": "patch"}
#: the options of a write for admission, made by POST, PUT or PATCH
_OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions"}
Convert = Callable[[Object], Object]


def _options_of(operation: str, options: Object) -> Object:
    """The options of a request as those of an operation: a patch may create an object, and so may an update."""
    kind = _OPTIONS.get(operation)
    if kind is None or options.get("kind") == kind or options.get("kind") not in _VERBS:
        return options
    return {name: kind if name == "kind" else value for name, value in options.items() if name != "force"}


@cache
def _built_in(group: str, version: str, kind: str) -> Type:
    return builtin.type_of(GroupVersionKind(group, version, kind))


def _between(one: Resource, other: Resource, type_: Type) -> Convert:
    """Converts from one served version, with the type ``type_``, to another, through the stored version.

    The result of an apply is not decoded yet: it may have null where Go has a struct.  Raises ValueError.
    """

    def convert(obj: Object) -> Object:
        obj, _ = decode_tree(obj, type_, strict=False)
        stored = obj if one.to_storage is None else one.to_storage(obj)
        return stored if other.from_storage is None else other.from_storage(stored)

    return convert


def check_name(name: str) -> None:
    """Raises BadRequest for a name that cannot be a path segment (``..``, ``a/b``, ``a%2Fb``)."""
    if "/" in name or "%" in name or name in (".", ".."):
        raise status.bad_request(f"Name parameter invalid: {quote(name)}: {';'.join(path_segment(name))}")


class ResourceStore:
    """One stored resource.  ``row`` is the catalogue row of the storage version; ``cache`` is its cache or makes it."""

    def __init__(
        self,
        row: Resource,
        cache: Cache | Callable[[GroupResource, Fields, bool], Cache],
        store: Store,
        admission: AdmissionChain,
        environment: Environment,
    ) -> None:
        self.row = row
        if isinstance(cache, Cache):
            self.cache = cache
        else:
            self._make_cache = cache
        self.store = store
        self.admission = admission
        self.environment = environment
        self.group_resource = row.storage_resource
        self._prefix = f"{self.group_resource.group or 'core'}/{row.plural}/"
        self.contention = Contention(environment.timers)
        self._field_managers: dict[tuple[GroupVersionKind, str], FieldManager] = {}

    @cached_property
    def cache(self) -> Cache:
        """The watch cache; made on first use when the constructor got a function."""
        return self._make_cache(self.group_resource, self.row.selectable_fields, self.row.namespaced)

    def key(self, namespace: str, name: str) -> str:
        """The store's key.  Raises BadRequest for a name that could make the key of another object."""
        check_name(name)
        return f"{self._prefix}{namespace}/{name}"

    def place(self, namespace: str, name: str) -> str:
        """As ``key``, without the check of the name."""
        return f"{self._prefix}{namespace}/{name}"

    def context(self, op: Operation) -> StrategyContext:
        """The facts about an operation that a strategy gets."""
        env = self.environment
        return StrategyContext(
            namespace=op.namespace,
            name=op.name,
            subresource=op.subresource.name if op.subresource else "",
            user=op.user,
            dry_run=op.dry_run,
            guard_errors=op.guard_errors,
            now=env.now(),
            features=env.features,
            allow_privileged=env.allow_privileged,
            listers=env.listers,
            verb=_VERBS.get(op.options.get("kind", ""), ""),
            sent=op.sent,
        )

    def attributes(self, op: Operation, operation: str, obj: Object | None, old: Object | None) -> Attributes:
        attributes = Attributes(
            operation,
            op.kind,
            op.gvr,
            op.namespace,
            "" if op.collection else op.name,
            obj,
            old,
            op.user,
            subresource=op.subresource.name if op.subresource else "",
            options=_options_of(operation, op.options),
            dry_run=op.dry_run,
            warnings=op.warnings,
            annotations=op.annotations,
        )
        attributes.deadline = op.deadline
        attributes.request = op.request
        if op.resource.typed_items:
            attributes.custom_resource = op.resource
        return attributes

    def field_manager(self, resource: Resource, subresource: Subresource | None) -> FieldManager:
        """The field manager of a served version and subresource; cached."""
        name = subresource.name if subresource else ""
        gvk = resource.group_version_kind
        manager = self._field_managers.get((gvk, name))
        if manager is None:
            strategy = resource.strategy
            if subresource is not None and subresource.strategy is not None:
                strategy = subresource.strategy
            manager = FieldManager(
                self.type_of(resource),
                gvk,
                strategy.reset_fields,
                name,
                versions=self._other_versions(resource),
                strict=resource.other_versions is not None,
            )
            self._field_managers[(gvk, name)] = manager
        return manager

    def _other_versions(self, resource: Resource) -> Mapping[str, tuple[Type, Convert, Convert]]:
        """The other versions of a kind, served or not: apiVersion -> (type, conversion to it, conversion back)."""
        if resource.schema is not None:
            return {} if resource.other_versions is None else resource.other_versions()
        from kapi.resources.catalogue import BUILT_IN
        from kapi.resources.previews import PREVIEWS

        found: dict[str, tuple[Type, Convert, Convert]] = {}
        for other in (*BUILT_IN, *PREVIEWS):
            if other.group_kind == resource.group_kind and other.version != resource.version:
                mine, theirs = self.type_of(resource), self.type_of(other)
                there, back = _between(resource, other, mine), _between(other, resource, theirs)
                found[str(other.group_version)] = (theirs, there, back)
        return found

    def type_of(self, resource: Resource) -> Type:
        """The type of a served version."""
        if resource.schema is not None:
            return resource.schema()
        return _built_in(resource.group, resource.version, resource.kind)

    def track_update(self, op: Operation, live: Object | None, obj: Object) -> None:
        """Brings ``metadata.managedFields`` of ``obj`` up to date for a create or update by ``op``'s manager."""
        manager = self.field_manager(op.resource, op.subresource)
        now = self.environment.now()
        view = op.resource.from_storage
        if view is None or op.resource.typed_items:
            manager.update(live, obj, op.field_manager, now)
            return
        versioned = view(obj)
        manager.update(None if live is None else view(live), versioned, op.field_manager, now)
        fields = versioned["metadata"].get("managedFields")
        if fields:
            obj["metadata"]["managedFields"] = fields
        else:
            obj["metadata"].pop("managedFields", None)

    def read(self, resource: Resource, entry: Entry) -> Object:
        """A stored object for the registry.  It may be shared: never change it.

        A custom resource is in the version of the request, any other object in the storage version.
        """
        if len(entry.data) >= LARGE:
            engage()
        if resource.typed_items and resource.from_storage is not None and entry.served_as is not resource.identity:
            return resource.from_storage(entry.object)
        return entry.object

    def keep_decoded(self, stored: Stored, namespace: str, name: str) -> None:
        """Puts the tree that was just written into the cache, so that the next read need not decode it.

        ``stored`` must not be changed afterwards.  Custom resources and objects with raw members are left out: their decoded
        tree may differ from the written one.
        """
        if self.row.typed_items or (self.row.group, self.row.kind) in RAW_MEMBERS:
            return
        try:
            entry = self.cache.get(namespace, name)
        except Unreadable:
            return
        if entry is not None and entry.revision == stored.revision:
            entry.adopt(stored.obj)

    async def stored_form(self, obj: Object) -> Object:
        """The form in which an object is stored, after the registry has processed it."""
        convert = self.row.stored_form
        if convert is None:
            return obj
        if self.row.converter is None:
            return convert(obj)

        async def run() -> Object:
            return convert(obj)

        return await converting(self.row.converter, run)

    def drop_empty_lists(self, obj: Object) -> None:
        """Sets empty lists of fields that Go always writes to null, in place: so they come back from upstream's storage."""
        if self.row.schema is None:
            nil_empty_lists(obj, self.type_of(self.row))

    def encode(self, obj: Object) -> tuple[bytes, bytes]:
        """The stored bytes before and after the resourceVersion."""
        return encode_halves(obj)

    def written(self, user: UserInfo, obj: Object, halves: tuple[bytes, bytes], revision: int, **how: bool) -> Stored:
        """The result of a user's write that the store has acknowledged with ``revision``; notes its author."""
        authors = self.environment.authors
        if authors is not None:
            authors.note(self.group_resource, revision, user.name)
        return self.stored(obj, halves, revision, **how)

    def stored(self, obj: Object, halves: tuple[bytes, bytes], revision: int, **how: bool) -> Stored:
        """The result of a write at ``revision``, or of a dry run.  Sets the object's resourceVersion."""
        text = str(revision)
        obj["metadata"]["resourceVersion"] = text
        return Stored(obj, halves[0] + text.encode() + halves[1], revision, **how)

    def expires(self) -> float | None:
        """When the store deletes an object that is written now (unix seconds), or None."""
        return self.environment.clock() + self.environment.event_ttl if self.row.ttl else None
