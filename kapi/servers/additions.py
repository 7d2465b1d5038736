"""What a program adds to its server: filters, hooks, routes, API groups (upstream: apiserver ``server/genericapiserver.go``).

``kapi.embedding`` is where programs import these names from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kapi.filters.chain import Filter
from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor
from kapi.resources.definition import Strategy
from kapi.runtime.interface import Client
from kapi.serving.routing import Routes

#: (object, apiVersion) -> the object in that version; may change and return the object that it gets
Convert = Callable[[Object, str], Object]


@dataclass(frozen=True, slots=True)
class HookContext:
    """The server of a hook (upstream: PostStartHookContext).  Requests of ``client`` stay in the process and have all rights."""

    client: Client
    reactor: Reactor


#: a post-start hook: the server is ready when it has ended, and stops when it raises
StartHook = Callable[[HookContext], Awaitable[None]]
#: a pre-shutdown hook: runs while requests are still served
StopHook = Callable[[HookContext], Awaitable[None] | None]


class Routed(Protocol):
    """An object whose class has collected the routes of its methods in ``app``."""

    app: Routes


@dataclass(frozen=True, slots=True, kw_only=True)
class APIVersion:
    """A version of a resource.

    ``schema`` is a structural OpenAPI schema, ``columns`` are printer columns and ``scale`` has the paths of a scale subresource,
    all as in a version of a CustomResourceDefinition.  ``deprecated`` is the warning of a deprecated version.
    """

    name: str
    schema: Mapping[str, object]
    columns: Sequence[Mapping[str, object]] = ()
    selectable_fields: Sequence[str] = ()
    scale: Mapping[str, str] | None = None
    deprecated: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class APIGroupResource:
    """A resource of a group in its versions, of which the first is stored (upstream: a ``rest.Storage`` for each version).

    ``strategy`` gets objects in the stored version.  It never gets an object in which a required field is missing, or a field
    has another type than in the schema.  With a ``status_strategy`` there is a status subresource,
    and only this writes the status.  Without ``convert`` versions differ only in ``apiVersion``.
    """

    kind: str
    plural: str
    versions: Sequence[APIVersion]
    namespaced: bool = True
    singular: str = ""  # "" becomes the kind in lower case
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    strategy: Strategy = field(default_factory=Strategy)
    status_strategy: Strategy | None = None
    convert: Convert | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class APIGroup:
    """An API group that is served like the built-in ones (upstream: APIGroupInfo)."""

    name: str
    resources: Sequence[APIGroupResource]


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """What a program adds to its server.

    * ``outer_filters`` run before the server's own filters: the user is not authenticated yet.
    * ``filters`` run after them, so that requests are authenticated and authorized (upstream: BuildHandlerChainFunc).
    * ``post_start_hooks`` and ``pre_shutdown_hooks`` by name (AddPostStartHook, AddPreShutdownHook).
    * ``routes`` are paths beside the API (NonGoRestfulMux).
    * ``groups`` (InstallAPIGroup).
    """

    outer_filters: Sequence[Filter] = ()
    filters: Sequence[Filter] = ()
    post_start_hooks: Mapping[str, StartHook] = field(default_factory=dict)
    pre_shutdown_hooks: Mapping[str, StopHook] = field(default_factory=dict)
    routes: Sequence[Routed] = ()
    groups: Sequence[APIGroup] = ()


NOTHING = Additions()
