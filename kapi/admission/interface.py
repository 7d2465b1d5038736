"""The admission interface: the attributes of an operation, and the plugin (upstream: apiserver ``pkg/admission``)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

import msgspec

from kapi.machinery import warnings as texts
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.names import qualified_name
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.user import UserInfo
from kapi.resources.definition import Resource

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


class Reinvocation:
    """State that mutating plugins share to ask for a second pass and to see that it runs."""

    __slots__ = ("again", "requested", "seen")

    def __init__(self) -> None:
        self.again = False  # this is the second pass
        self.requested = False  # a plugin has changed the object after other plugins had run
        self.seen: dict[str, object] = {}  # plugin -> its state between the passes

    def request(self) -> None:
        self.requested = True


class Attributes(msgspec.Struct, eq=False):
    """One operation on one object, as plugins see it.

    ``obj`` is changed in place (or replaced) by mutating plugins and is None on DELETE;
    ``old`` is the object as stored (None on CREATE) and is never changed.
    """

    operation: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    namespace: str
    name: str
    obj: Object | None
    old: Object | None
    user: UserInfo
    subresource: str = ""
    options: Object | None = None
    dry_run: bool = False
    warnings: list[str] = []  # texts for Warning headers
    annotations: dict[str, str] = {}  # audit annotations
    #: quotas that the object was charged to, with the revisions that the charges gave them
    charges: dict[str, int] = {}
    reinvocation: Reinvocation | None = None
    deadline: float = 0.0  # absolute, in reactor seconds; 0 = none
    request: RequestContext | None = None  # None for the server's own operations
    custom_resource: Resource | None = None  # the row of a custom resource
    unpruned: bool = False  # whether a webhook or a policy has changed a custom resource after it was decoded

    @property
    def namespace_of_request(self) -> str:
        """The namespace as webhooks and expressions get it: of a Namespace, its own name."""
        if not self.namespace and self.resource.resource == "namespaces" and not self.resource.group:
            return self.name
        return self.namespace

    def warn(self, text: str) -> None:
        """Adds a text for the client, once."""
        texts.add(self.warnings, text)

    def annotate(self, key: str, value: str) -> None:
        """Adds an audit annotation.  The first value of a key stays; a key that is no ``domain/name`` is dropped."""
        if key not in self.annotations and key.count("/") == 1 and not qualified_name(key):
            self.annotations[key] = value


class Plugin:
    """An admission plugin.  A plugin defines ``admit``, ``validate`` or both; each may return an awaitable."""

    name = ""
    configured = False  # whether it is made with its configuration (a parsed document or None) too
    gate = ""  # the feature without which it does nothing
    operations: frozenset[str] = frozenset({CREATE, UPDATE, DELETE, CONNECT})
    #: plurals of the resources for which the plugin is called, in any group; None: all
    resources: frozenset[str] | None = None

    def __init__(self, *_: object) -> None:
        """Made with the initializer, and the configuration of a plugin that is ``configured``."""

    def reload(self) -> None:
        """Reads the files of its configuration again."""

    def reloaded_files(self) -> Sequence[str]:
        """The files and directories that ``reload`` reads."""
        return ()

    def handles(self, operation: str) -> bool:
        return operation in self.operations

    def admit(self, attributes: Attributes) -> None | Awaitable[None]:
        """Changes ``attributes.obj`` or raises a StatusError."""
        return None

    def validate(self, attributes: Attributes) -> None | Awaitable[None]:
        """Raises a StatusError to refuse."""
        return None


class Tally:
    """Counts passes without a refusal that have the same labels; it outlives the plugins of a logical cluster."""

    __slots__ = ("passed",)

    def __init__(self) -> None:
        self.passed = 0


class Pass:
    """The plugins of one pass of a chain, for one operation on one resource; ``kind`` is admit or validate."""

    __slots__ = ("called", "kind", "labels", "operation", "plugins", "spans", "tally")

    def __init__(self, kind: str, operation: str, plugins: list[Plugin], plural: str) -> None:
        self.kind = kind
        self.operation = operation
        self.plugins = plugins
        #: without the plugins that do not apply to the resource
        self.called = [plugin for plugin in plugins if plugin.resources is None or plural in plugin.resources]
        #: for metrics: the labels of the plugins that are called
        self.labels: list[tuple[str, ...]] = [(plugin.name, operation, "false", kind) for plugin in self.called]
        self.tally: Tally | None = None
        self.spans: list[list[float]] = []  # see Histogram.observe_spans

    def not_called(self, until: Plugin | None = None) -> tuple[tuple[str, ...], ...]:
        """The labels of the plugins that do not apply to the resource; those before ``until``, if given."""
        plugins = self.plugins if until is None else self.plugins[: self.plugins.index(until)]
        left_out = (plugin for plugin in plugins if plugin not in self.called)
        return tuple((plugin.name, self.operation, "false", self.kind) for plugin in left_out)


class AdmissionChain:
    """All enabled plugins: every ``admit`` in order, later every ``validate`` in order."""

    def __init__(self, plugins: list[Plugin] | None = None) -> None:
        self.plugins = plugins or []
        self._named = frozenset[str]().union(*(plugin.resources or () for plugin in self.plugins))
        self._passes: dict[tuple[str, str, str], Pass] = {}

    def pass_of(self, kind: str, attributes: Attributes) -> Pass:
        """The plugins that an operation passes.  All resources that no plugin names share one pass."""
        plural = attributes.resource.resource
        key = (kind, attributes.operation, plural if plural in self._named else "")
        found = self._passes.get(key)
        if found is None:
            able = [plugin for plugin in self.plugins if plugin.handles(key[1]) and _defines(plugin, kind)]
            found = self._passes[key] = Pass(*key[:2], able, key[2])
        return found

    async def admit(self, attributes: Attributes) -> None:
        for plugin in self.pass_of("admit", attributes).called:
            waiting = plugin.admit(attributes)
            if waiting is not None:
                await waiting

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self.pass_of("validate", attributes).called:
            waiting = plugin.validate(attributes)
            if waiting is not None:
                await waiting


def _defines(plugin: Plugin, kind: str) -> bool:
    return getattr(type(plugin), kind) is not getattr(Plugin, kind)


def denied(attributes: Attributes, why: str) -> StatusError:
    """The usual refusal: ``pods "x" is forbidden: why``."""
    from kapi.machinery.status import forbidden

    name = attributes.name
    if not name and attributes.obj is not None:
        metadata = attributes.obj.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or ""
    return forbidden(attributes.resource.group_resource, name or "Unknown", why)
