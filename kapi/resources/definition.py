"""The description of a resource: its catalogue row, strategy, table and subresources.

Upstream: apiserver ``registry/rest`` strategies and ``registry/generic/registry/store.go``.
A strategy is pure: no Twisted, no I/O, plain JSON trees in and out.
"""

from __future__ import annotations

import base64
import builtins
import functools
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from kapi.machinery.field import FieldError
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource
from kapi.machinery.lifecycles import deprecation, stored_version
from kapi.machinery.selectors import selector_text
from kapi.machinery.tree import Object, Tree
from kapi.request.user import UserInfo
from kapi.schema.types import Type


class Lister(Protocol):
    """Decoded objects of one resource, read from the watch cache.  The objects are shared: never change them."""

    def get(self, namespace: str, name: str) -> Object | None: ...
    def list(self, namespace: str = "") -> builtins.list[Object]: ...

    def labelled(self, labels: Mapping[str, str], namespace: str = "") -> builtins.list[Object]:
        """The objects with all of these labels.  Other objects are not decoded."""

    @property
    def changes(self) -> object:
        """A value that changes with every change of the objects."""


#: apiVersion -> its type, the conversion to it, and the conversion from it
OtherVersions = Mapping[str, tuple[Type, Callable[[Object], Object], Callable[[Object], Object]]]


class StrategyContext(msgspec.Struct):
    """The request and the server's settings, for strategies."""

    namespace: str
    name: str
    subresource: str = ""
    user: UserInfo | None = None
    dry_run: bool = False
    now: str = ""  # RFC 3339, whole seconds, UTC
    features: Mapping[str, bool] = msgspec.field(default_factory=dict)  # feature gates
    allow_privileged: bool = False  # privileged containers (--allow-privileged)
    listers: Mapping[GroupResource, Lister] = msgspec.field(default_factory=dict)
    #: seconds after which validation raises TimeExceeded, to run again in a thread; 0: no limit
    validation_seconds: float = 0.0
    verb: str = ""  # the request's verb: "create", "update" or "patch"
    sent: Callable[[], Tree] | None = None  # the object as the client sent it, with empty maps
    guard_errors: list[FieldError] = msgspec.field(
        default_factory=list
    )  # that a guard has found; validation reports them
    stored: bytes = b""  # the stored bytes of the object that an update changes
    warnings: list[str] = msgspec.field(default_factory=list)  # of preparation, and of validation about accepted values


class Converter(Protocol):
    """Converts objects by a webhook and keeps the results."""

    async def fetch(self, objects: Iterable[Object], api_version: str) -> None:
        """Converts all objects in one call.  Raises StatusError, and then keeps no result."""


class Strategy:
    """Defaults, preparation and validation of a resource's objects.  This class is for types without rules.

    Objects are in the storage version.  Methods that prepare change ``obj`` in place; methods that
    validate return field errors in upstream's order; ``old`` is never changed.
    """

    allow_create_on_update = False
    allow_unconditional_update = True
    #: fields (dotted: "status", "metadata.deletionTimestamp") that a write through this endpoint never owns.
    reset_fields: tuple[str, ...] = ()
    #: whether ``validate`` makes all checks of metadata that are common to the types
    covers_metadata = False
    #: whether ``validate_update`` makes all checks of changed metadata that are common to the types
    covers_metadata_changes = False
    #: whether ``begin_deletion`` may change an object
    marks_deletion = False
    #: whether the objects are in namespaces
    namespaced = True

    def default(self, obj: Object) -> None:
        """Sets defaults, as upstream's decoder; runs before admission on every write."""

    def default_changed(self, obj: Object) -> None:
        """Sets defaults of an object that the server has changed after it was decoded, as by apply."""
        self.default(obj)

    def prune(self, obj: Object) -> None:
        """Removes unknown fields that admission has added, in place, before the object is stored."""

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
        """Normalizes a validated object before it is stored."""

    def graceful_delete(self, obj: Object, options: Object, ctx: StrategyContext) -> int | None:
        """The grace period in seconds; None for types that are deleted at once."""
        return None

    def default_garbage_collection(self, obj: Object, ctx: StrategyContext) -> str:
        """The default deletion policy for dependents: "background", "orphan" or "unsupported"."""
        return "background"

    def warnings_on_delete(self, options: Object) -> list[str]:
        """Warnings for a delete request with these DeleteOptions."""
        return []

    def admit_delete(self, obj: Object, ctx: StrategyContext) -> None:
        """Raises a StatusError when the object may not be deleted (e.g. a protected object)."""

    def begin_deletion(self, obj: Object, options: Object, ctx: StrategyContext) -> bool:
        """For types with their own marks of deletion: may change ``obj``.  Returns whether it is stored instead of deleted."""
        return False

    def holds_deletion(self, obj: Object) -> bool:
        """Whether the object must be kept for a reason besides ``metadata.finalizers``, such as a namespace's finalizers."""
        return False


class Lifecycle(Protocol):
    """I/O that belongs to a write, e.g. allocating a Service's addresses.

    The function that ``begin_*`` returns is called exactly once: with True when the write was committed, otherwise (also on a
    dry run) with False, to release the allocations.
    """

    async def begin_create(self, obj: Object, ctx: StrategyContext) -> Callable[[bool], Awaitable[None]] | None: ...
    async def begin_update(
        self, obj: Object, old: Object, ctx: StrategyContext
    ) -> Callable[[bool], Awaitable[None]] | None: ...
    async def after_delete(self, obj: Object, ctx: StrategyContext) -> None: ...


class Guard(Protocol):
    """Checks a user's permission to write this object; called after mutating admission, before comparison and validation.

    ``old`` is None when the write creates; ``ctx.name`` is the name in the URL, "" for a create.  Raises StatusError.
    """

    async def __call__(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None: ...


class FieldText(NamedTuple):
    """The description of a field in the OpenAPI documents; ``definition`` without "io.k8s."."""

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
    #: the object that rows show, when it differs from the served object; ``cells`` gets it too
    view: Callable[[Object], Object] | None = None
    of_stored: bool = False  # rows are made from the object in its storage version
    conditions: Callable[[Object], list[Object]] | None = None  # conditions of a row, e.g. that a pod has completed
    order: Callable[[Object], Tree] | None = None  # the sort key of rows; None: the objects' names


class ScaleMapping(msgspec.Struct, frozen=True):
    """The paths of a Scale's values in the parent object; ``selector`` returns the text of ``status.selector``.

    ``versions`` has the path of the replicas in each version of a custom resource by its apiVersion, () without a scale.
    """

    spec_replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: Callable[[Object], str] = lambda parent: selector_text((parent.get("spec") or {}).get("selector"))
    versions: Mapping[str, tuple[str, ...]] | None = None

    def field_path(self, api_version: str) -> tuple[str, ...] | None:
        """The path of the replicas in the field sets of a version: () without a scale, None when there is no such version."""
        path = self.spec_replicas if self.versions is None else self.versions.get(api_version)
        return None if path is None else tuple(f"f:{part}" for part in path)


class Subresource(msgspec.Struct, frozen=True):
    """A subresource, e.g. ``status`` or ``scale``.

    ``strategy`` serves the kinds that write the parent object (status, approval, resize ...);
    ``handler`` names the endpoint package of the special ones (scale, binding, eviction, token, log, exec, proxy ...).
    """

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    group: str = ""  # the group of its bodies' kind; "" is the parent's group
    version: str = ""
    kind: str = ""
    strategy: Strategy | None = None
    handler: str = ""
    scale: ScaleMapping | None = None  # of the scale subresource; None: the default paths
    tabular: bool = True  # whether it can be answered as a Table


#: the scale subresource with the default paths
SCALE = Subresource("scale", group="autoscaling", version="v1", kind="Scale", handler="scale")
#: the verbs of most resources
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def plural_of(kind: str) -> str:
    """The usual plural of a kind (upstream: ``meta.UnsafeGuessKindToResource``)."""
    name = kind.lower()
    if name.endswith("s"):
        return name + "es"
    return name[:-1] + "ies" if name.endswith("y") else name + "s"


@functools.lru_cache(2048)
def _stored_as(group: str, plural: str) -> GroupResource:
    """The storage resource, one object for all registries of a process."""
    return GroupResource("" if group == "core" else group, plural)


@dataclass(frozen=True, slots=True)
class Resource:
    """One row of the catalogue: the data for discovery, OpenAPI, routing, RBAC, caches and printing."""

    group: str
    version: str
    kind: str
    plural: str = ""  # "" becomes the kind's usual plural
    namespaced: bool = True  # also False where the strategy says so
    singular: str = ""  # "" becomes the kind in lower case
    list_kind: str = ""  # "" becomes the kind with "List"
    verbs: tuple[str, ...] = VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_version_hash: str | None = None  # None becomes the hash of the storage version; "" is not shown
    subresources: tuple[Subresource, ...] = ()
    strategy: Strategy = field(default_factory=Strategy)
    table: TableColumns | None = None  # None: name and age
    #: field selectors besides metadata.name and metadata.namespace: label -> value as text
    selectable_fields: Mapping[str, Callable[[Object], str]] = field(default_factory=dict)
    #: label in a field selector -> label of the same field in the stored version's row
    field_aliases: Mapping[str, str] = field(default_factory=dict)
    storage_group: str = ""  # the group in which the objects are stored, when it differs; "core" is the core group
    storage_version: str = ""  # the version in which the objects are stored, when it differs
    to_storage: Callable[[Object], Object] | None = None  # from this version to the stored one
    #: converts an object of any version to the stored form: custom resources pass the registry in the request's version
    stored_form: Callable[[Object], Object] | None = None
    #: the other versions of a custom resource, with conversions to and from this one
    other_versions: Callable[[], OtherVersions] | None = None
    from_storage: Callable[[Object], Object] | None = None
    converter: Converter | None = None  # converts versions by a webhook
    handler: str = ""  # endpoint package of kinds that are not stored: tokenreviews, subjectaccessreviews ...
    ttl: bool = False  # objects expire (events)
    graceful: bool = False  # deletion may leave the object running for a while (pods)
    returns_deleted: bool = False  # DELETE answers the object instead of a Status
    lifecycle: Lifecycle | None = None  # I/O around writes: allocators
    guard: Guard | None = None  # a user's permission to write this object, such as the check of RBAC escalation
    schema: Callable[[], Type] | None = None  # None: the built-in definition of the kind
    schema_digest: str = ""  # changes with the schema, so that caches can compare it without making the schema
    # of a custom resource, as its definition has it; it is not kept
    published_schema: Callable[[], Object] | None = None
    gates: tuple[str, ...] = ()  # feature gates that must be enabled for it to be served
    deprecated: str = ""  # warning text of a deprecated version; for built-in kinds the lifecycle has it
    removed_in: str = ""  # the release that does not serve it any more, as in "1.39"
    unsupported_field: str = (
        ""  # message with {} for the field and {version}, where upstream's differs from the usual message
    )
    typed_items: bool = False  # items of a list carry kind and apiVersion (custom resources)
    #: makes the strategy of a status subresource from the resource's strategy
    status: InitVar[Callable[..., Strategy] | None] = None
    #: stands for this resource in cache entries, which must not keep it alive
    identity: object = field(default_factory=object, init=False, compare=False, repr=False)
    # names of the resource, made once, since every request needs them
    group_version: GroupVersion = field(init=False, compare=False, repr=False)
    group_resource: GroupResource = field(init=False, compare=False, repr=False)
    group_kind: GroupKind = field(init=False, compare=False, repr=False)
    group_version_resource: GroupVersionResource = field(init=False, compare=False, repr=False)
    group_version_kind: GroupVersionKind = field(init=False, compare=False, repr=False)
    storage_resource: GroupResource = field(init=False, compare=False, repr=False)  # under which the objects are stored

    def __post_init__(self, status: Callable[..., Strategy] | None) -> None:
        if status is not None:
            subresource = Subresource("status", strategy=status(self.strategy))
            object.__setattr__(self, "subresources", (*self.subresources, subresource))
        if not self.strategy.namespaced:
            object.__setattr__(self, "namespaced", False)
        if not self.plural:
            object.__setattr__(self, "plural", plural_of(self.kind))
        if not self.singular:
            object.__setattr__(self, "singular", self.kind.lower())
        if not self.list_kind:
            object.__setattr__(self, "list_kind", self.kind + "List")
        group, version = self.group, self.version
        object.__setattr__(self, "group_version", GroupVersion(group, version))
        object.__setattr__(self, "group_resource", GroupResource(group, self.plural))
        object.__setattr__(self, "group_kind", GroupKind(group, self.kind))
        object.__setattr__(self, "group_version_resource", GroupVersionResource(group, version, self.plural))
        object.__setattr__(self, "group_version_kind", GroupVersionKind(group, version, self.kind))
        object.__setattr__(self, "storage_resource", _stored_as(self.storage_group or group, self.plural))
        if self.storage_version_hash is None:
            kept = stored_version(group, self.storage_version or version, self.kind)
            stored = f"{self.storage_resource.group}/{kept}/{self.kind}"
            digest = base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()
            object.__setattr__(self, "storage_version_hash", "" if self.handler else digest)
        if self.schema is None:  # it is a built-in kind
            deprecated, removed_in = deprecation(self.group, self.version, self.kind)
            object.__setattr__(self, "deprecated", deprecated)
            object.__setattr__(self, "removed_in", removed_in)

    def body_kind(self, sub: Subresource | None) -> GroupVersionKind:
        """The kind of the bodies of requests and answers: the subresource's own, if it has one."""
        if sub is not None and sub.kind and sub.kind != self.kind:
            return GroupVersionKind(sub.group or self.group, sub.version or self.version, sub.kind)
        return self.group_version_kind

    @property
    def selects_namespaces(self) -> bool:
        """Whether field selectors may name ``metadata.namespace``: it is empty where there are none, but known to types
        without selectable fields of their own (upstream: DefaultMetaV1FieldSelectorConversion)."""
        return self.namespaced or not (self.typed_items or self.selectable_fields)

    def field_label_error(self, field: str) -> str:
        """The error for a field selector that the type does not support."""
        if self.unsupported_field:
            return self.unsupported_field.format(field, version=self.version)
        if self.typed_items or self.selectable_fields:
            return f"field label not supported: {field}"
        return f'{quote(field)} is not a known field selector: only "metadata.name", "metadata.namespace"'

    def subresource(self, name: str) -> Subresource | None:
        for sub in self.subresources:
            if sub.name == name:
                return sub
        return None


def type_meta(api_version: str, kind: str) -> tuple[str, str, str]:
    """Group, version and kind, as ``Resource`` takes them, of what manifests begin with."""
    return *GroupVersion.parse(api_version), kind


def review(group: str, kind: str, *, namespaced: bool = False) -> Resource:
    """A resource that is created only, and answered instead of stored (upstream: ``pkg/registry/authorization``)."""
    return Resource(group, "v1", kind, namespaced=namespaced, verbs=("create",), handler=plural_of(kind))


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
