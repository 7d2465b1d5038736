"""What a resource is made of: the catalogue row, its strategy, its table and its subresources.

Upstream: apiserver ``registry/rest`` strategies and ``registry/generic/registry/store.go``.
A strategy is pure: no Twisted, no I/O, plain JSON trees in and out.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from kapi.machinery.field import FieldError, quote
from kapi.machinery.gvk import GroupKind, GroupResource, GroupVersion
from kapi.machinery.selectors import selector_text
from kapi.machinery.tree import Object, Tree
from kapi.request.user import UserInfo
from kapi.schema.types import Type


class Lister(Protocol):
    """Decoded objects of one resource, read from the watch cache.  What it returns is shared: never change it."""

    def get(self, namespace: str, name: str) -> Object | None: ...
    def list(self, namespace: str = "") -> list[Object]: ...

    @property
    def changes(self) -> object:
        """Another one when anything has changed."""


#: apiVersion -> its type, the way there and the way back
OtherVersions = Mapping[str, tuple[Type, Callable[[Object], Object], Callable[[Object], Object]]]


class StrategyContext(msgspec.Struct):
    """What a strategy may know besides the objects."""

    namespace: str
    name: str
    subresource: str = ""
    user: UserInfo | None = None
    dry_run: bool = False
    now: str = ""  # RFC 3339, whole seconds, UTC
    features: Mapping[str, bool] = msgspec.field(default_factory=dict)  # feature gates
    allow_privileged: bool = False  # containers (--allow-privileged)
    listers: Mapping[GroupResource, Lister] = msgspec.field(default_factory=dict)
    #: how long validation may take (seconds) before it raises TimeExceeded, to be run again in a thread; 0: as long as it takes
    patience: float = 0.0
    verb: str = ""  # of the request: "create", "update" or "patch"
    refused: list[FieldError] = msgspec.field(default_factory=list)  # what a guard leaves to validation to report
    stored: bytes = b""  # the object that an update changes, as it is stored
    warnings: list[str] = msgspec.field(default_factory=list)  # what validation lets through but wants said


class Converter(Protocol):
    """Asks a webhook and remembers what it said."""

    async def fetch(self, objects: Iterable[Object], api_version: str) -> None:
        """Converts all objects in one call.  Raises StatusError; nothing is remembered then."""


class Strategy:
    """How a resource's objects are created and updated.  The defaults are those of a type without rules.

    Objects are in the storage version.  Methods that prepare change ``obj`` in place; methods that
    validate return field errors in upstream's order; ``old`` is never changed.
    """

    allow_create_on_update = False
    allow_unconditional_update = True
    #: fields (dotted: "status", "metadata.deletionTimestamp") that a write through this endpoint never owns.
    reset_fields: tuple[str, ...] = ()
    #: whether ``validate`` looks for all that may be wrong with any type's metadata
    covers_metadata = False
    #: whether ``validate_update`` looks for all that may be wrong with a change of any type's metadata
    covers_metadata_changes = False
    #: whether ``begin_deletion`` may change an object
    marks_deletion = False

    def default(self, obj: Object) -> None:
        """Sets defaults, as the decoder upstream does; runs before admission on every write."""

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None: ...

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return []

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return []

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None: ...

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return []

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return []

    def canonicalize(self, obj: Object) -> None:
        """Brings a validated object into the form that is stored."""

    def graceful_delete(self, obj: Object, options: Object, ctx: StrategyContext) -> int | None:
        """Seconds the object may live on after a delete request; None = not a gracefully deleted type."""
        return None

    def default_garbage_collection(self, obj: Object, ctx: StrategyContext) -> str:
        """What happens to dependents when the request does not say: "background", "orphan" or "unsupported"."""
        return "background"

    def warnings_on_delete(self, options: Object) -> list[str]:
        """What to say about a delete request with these DeleteOptions."""
        return []

    def admit_delete(self, obj: Object, ctx: StrategyContext) -> None:
        """Raises a StatusError when the object may not be deleted (e.g. a protected object)."""

    def begin_deletion(self, obj: Object, options: Object, ctx: StrategyContext) -> bool:
        """For types that mark their objects themselves: True when ``obj``, as left, is what a delete request stores."""
        return False

    def holds_deletion(self, obj: Object) -> bool:
        """Whether something besides ``metadata.finalizers`` keeps an object that is to go (a namespace's finalizers)."""
        return False


class Lifecycle(Protocol):
    """I/O that belongs to a write, e.g. allocating a Service's addresses.

    What ``begin_*`` returns is awaited exactly once with True when the write was committed and False when it was not (also
    on a dry run): it keeps or gives back what was taken.
    """

    async def begin_create(self, obj: Object, ctx: StrategyContext) -> Callable[[bool], Awaitable[None]] | None: ...
    async def begin_update(
        self, obj: Object, old: Object, ctx: StrategyContext
    ) -> Callable[[bool], Awaitable[None]] | None: ...
    async def after_delete(self, obj: Object, ctx: StrategyContext) -> None: ...


class Guard(Protocol):
    """Who may write what: asked after mutating admission, before the registry compares, prepares and validates.

    ``old`` is None when the write creates; ``ctx.name`` is the name in the URL, "" for a create.  Raises StatusError.
    """

    async def __call__(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None: ...


class FieldText(NamedTuple):
    """The description that a field has in the OpenAPI documents; ``definition`` without "io.k8s."."""

    definition: str
    field: str


class Column(msgspec.Struct, frozen=True):
    """A column of a server-side table."""

    name: str
    type: str = "string"  # string | integer | number | boolean | date
    description: str | FieldText = ""
    format: str = ""  # "name" for the first column
    priority: int = 0  # 0 always, 1 wide


class TableColumns(msgspec.Struct, frozen=True):
    """Columns and the function that makes a row's cells from an object and the time (unix seconds)."""

    columns: Sequence[Column]
    cells: Callable[[Object, float], list[Tree]]
    #: the object as rows show it, where that is not the one that is served; ``cells`` gets it too
    view: Callable[[Object], Object] | None = None
    of_stored: bool = False  # rows are made of the object in its storage version
    conditions: Callable[[Object], list[Object]] | None = None  # of a row, e.g. that a pod has completed
    order: Callable[[Object], Tree] | None = None  # what rows are sorted by, where not by the objects' names


def _label_selector_text(parent: Object) -> str:
    return selector_text((parent.get("spec") or {}).get("selector"))


class ScaleMapping(msgspec.Struct, frozen=True):
    """Where a Scale's values are in its parent; ``selector`` gives the text of ``status.selector``."""

    spec_replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: Callable[[Object], str] = _label_selector_text


class Subresource(msgspec.Struct, frozen=True):
    """A subresource, e.g. ``status`` or ``scale``.

    ``strategy`` serves the kinds that write the parent object (status, approval, resize ...);
    ``handler`` names the endpoint package of the special ones (scale, binding, eviction, token, log, exec, proxy ...).
    """

    name: str
    verbs: tuple[str, ...]
    group: str = ""  # of the kind it speaks
    version: str = ""
    kind: str = ""
    strategy: Strategy | None = None
    handler: str = ""
    scale: ScaleMapping | None = None  # of the scale subresource; None: the usual paths
    tabular: bool = True  # whether it can be answered as a Table


@functools.lru_cache(2048)
def _stored_as(group: str, plural: str) -> GroupResource:
    """One for all registries of a process."""
    return GroupResource("" if group == "core" else group, plural)


@dataclass(frozen=True, slots=True)
class Resource:
    """One row of the catalogue: everything discovery, OpenAPI, routing, RBAC, caches and printing need to know."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_version_hash: str = ""
    subresources: tuple[Subresource, ...] = ()
    strategy: Strategy = field(default_factory=Strategy)
    table: TableColumns | None = None  # None: name and age
    #: field selectors besides metadata.name and metadata.namespace: label -> value as text
    selectable_fields: Mapping[str, Callable[[Object], str]] = field(default_factory=dict)
    #: label in a field selector -> label under which the stored version's row knows the field
    field_aliases: Mapping[str, str] = field(default_factory=dict)
    storage_group: str = ""  # where the objects are kept, if not under this row's own group; "core" is the core group
    storage_version: str = ""  # version they are kept in, if not this row's own
    to_storage: Callable[[Object], Object] | None = None  # from this version to the stored one
    #: what is written of an object of any version: custom resources pass through the registry in the request's version
    stored_form: Callable[[Object], Object] | None = None
    #: other versions of a custom resource: apiVersion -> its type, the way there from this one and back
    other_versions: Callable[[], OtherVersions] | None = None
    from_storage: Callable[[Object], Object] | None = None
    converter: Converter | None = None  # of versions that a webhook converts
    handler: str = ""  # endpoint package of kinds that are not stored: tokenreviews, subjectaccessreviews ...
    ttl: bool = False  # objects expire (events)
    graceful: bool = False  # deletion may leave the object running for a while (pods)
    returns_deleted: bool = False  # DELETE answers the object instead of a Status
    lifecycle: Lifecycle | None = None  # I/O around writes: allocators
    guard: Guard | None = None  # what a user may write into these objects: RBAC escalation
    schema: Callable[[], Type] | None = None  # None: the built-in definition of the kind
    schema_digest: str = ""  # changes with what ``schema`` gives, so that nobody needs to make it to know
    gates: tuple[str, ...] = ()  # feature gates that must be on for it to be served
    deprecated: str = ""  # warning text of a deprecated version
    removed_in: str = ""  # the release that serves it no more, as in "1.39"
    unsupported_field: str = ""  # message with {} for the field, where upstream's differs from the usual
    typed_items: bool = False  # items of a list carry kind and apiVersion (custom resources)
    #: stands for it where nothing may lead to it
    identity: object = field(default_factory=object, init=False, compare=False, repr=False)

    @property
    def group_version(self) -> GroupVersion:
        return GroupVersion(self.group, self.version)

    @property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group, self.plural)

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    @property
    def storage_resource(self) -> GroupResource:
        """Under which name the objects are kept."""
        return _stored_as(self.storage_group or self.group, self.plural)

    @property
    def list_kind(self) -> str:
        return self.kind + "List"

    @property
    def selects_namespaces(self) -> bool:
        """Whether field selectors may name ``metadata.namespace``: it is empty where there are none, but known to types
        without selectable fields of their own (upstream: DefaultMetaV1FieldSelectorConversion)."""
        return self.namespaced or not (self.unsupported_field or self.typed_items or self.selectable_fields)

    def field_label_error(self, field: str) -> str:
        """The error for a field selector that the type does not support."""
        if self.unsupported_field:
            return self.unsupported_field.format(field)
        if self.typed_items or self.selectable_fields:
            return f"field label not supported: {field}"
        return f'{quote(field)} is not a known field selector: only "metadata.name", "metadata.namespace"'

    def subresource(self, name: str) -> Subresource | None:
        for sub in self.subresources:
            if sub.name == name:
                return sub
        return None


def selectable(path: str) -> Callable[[Object], str]:
    """The text of a dotted field, as field selectors compare it; "" when absent."""
    parts = path.split(".")

    def read(obj: Object) -> str:
        node: Tree = obj
        for part in parts:
            if not isinstance(node, dict):
                return ""
            node = node.get(part)
        if node is None:
            return ""
        if isinstance(node, bool):
            return "true" if node else "false"
        return str(node)

    return read
