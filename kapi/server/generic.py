"""One server of the delegation chain: routes, hooks, health checks, and the delegate for everything else.

Upstream: apiserver ``server/genericapiserver.go`` (DelegationTarget) and ``server/handler.go``.  Each server has a Klein app.
Its routes are what the server serves, and its last branch is the next server; the last server's delegate answers 404.  Resources
are in a table behind one route, so that custom resources come and go without a change of routes.  ``handle`` is a short cut over
the same tables without Klein's URL map (docs/adr/0028).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.server.delegation import Answer, Delegate, Handler, PostStartHook, PreShutdownHook
from kapi.server.health import Check

if TYPE_CHECKING:
    from klein import Klein
    from twisted.web.resource import IResource

_API = frozenset(["/api", "/apis"])
_BELOW_API = ("/api/", "/apis/")


def _group_of(path: str) -> str | None:
    """The API group of a path; "" is the core group, None means that it is no API path."""
    parts = path.split("/", 3)
    if parts[1] == "api":
        return ""
    return parts[2] if parts[1] == "apis" and len(parts) > 2 and parts[2] else None


class GenericServer:
    """A named server; ``delegate`` answers the requests that it does not serve itself."""

    def __init__(self, name: str, delegate: Delegate, table: ResourceTable | None = None) -> None:
        self.name = name
        self.delegate = delegate
        self.table = table if table is not None else ResourceTable()
        #: handlers of a path, and of everything below a path that ends with a slash; used by ``handle`` and by the Klein app
        self.exact: dict[str, Handler] = {}
        self.below: dict[str, Handler] = {}
        self._listed: list[str] = []
        self._post_start: dict[str, PostStartHook] = {}
        self._steps: dict[str, str] = {}
        self._pre_shutdown: dict[str, PreShutdownHook] = {}
        self._closing: dict[str, PreShutdownHook] = {}
        self._checks: dict[str, Check] = {}
        #: discovery: answers /api, /apis and the paths of groups and group versions
        self.discovery: Handler | None = None
        #: groups that only this server serves: an unknown path below them is answered with a Status
        self.fixed_groups: frozenset[str] = frozenset()
        #: further paths to list
        self.more_paths: list[Callable[[], list[str]]] = []

    @functools.cached_property
    def app(self) -> Klein:
        """The Klein app, made on first use; no routes can be added later."""
        from kapi.server.tree import klein_app  # a stand-alone server does not need it, and starts faster without it

        return klein_app(self)

    def route(self, path: str, handler: Handler, *, methods: tuple[str, ...] = (), listed: bool = True) -> None:
        """Serves a fixed path.  A method that is not in ``methods`` is answered 405; without ``methods`` all are allowed.

        A handler that answers None passes the request on.
        """
        allowed = frozenset(methods)

        def checked(ctx: RequestContext) -> Answer:
            if ctx.method not in allowed:
                raise status.method_not_allowed()
            return handler(ctx)

        self._add(self.exact, path, checked if allowed else handler)
        if listed:
            self._listed.append(path)

    def route_below(self, path: str, handler: Handler) -> None:
        """Serves all paths below ``path`` without a route of their own; None passes the request on."""
        self._add(self.below, path + "/", handler)

    def _add(self, table: dict[str, Handler], path: str, handler: Handler) -> None:
        if path in table:
            raise ValueError(f"{path} is served already")
        if "app" in self.__dict__:
            raise ValueError(f"{path} comes too late: the routes are made")
        table[path] = handler

    def resource(self) -> IResource:
        """This server and those after it, for requests that have passed the filters (see ``kapi.server.tree``)."""
        return self._resource

    @functools.cached_property
    def _resource(self) -> IResource:
        return self.app.resource()

    def end(self) -> IResource:
        """The resource after the last server."""
        return self.delegate.end()

    def handle(self, ctx: RequestContext) -> Answer:
        """The answer of this server or its delegates, without filters and without the URL map."""
        info, path = ctx.info, ctx.path
        assert info is not None
        if path.startswith("//"):  # matches no route, as upstream, though it is authorized like a path with one slash
            return self.delegate.handle(ctx)
        if info.is_resource or path in _API or path.startswith(_BELOW_API):
            answer = self.api(ctx)
        else:
            handler = self.exact.get(path) or self._handler_below(path)
            answer = None if handler is None else handler(ctx)
        return self.delegate.handle(ctx) if answer is None else answer

    def _handler_below(self, path: str) -> Handler | None:
        return next((handler for prefix, handler in self.below.items() if path.startswith(prefix)), None)

    def api(self, ctx: RequestContext) -> Answer:
        """Answers paths below /api and /apis: resources and discovery.  Raises NotFound in this server's fixed groups."""
        info = ctx.info
        assert info is not None
        if info.is_resource:
            answer: Answer = self.table.handle(ctx)
            group: str | None = info.group
        else:
            answer = None if self.discovery is None else self.discovery(ctx)
            group = _group_of(ctx.path)
        if answer is None and group in self.fixed_groups:
            raise status.no_such_resource()
        return answer

    def add_post_start_hook(self, name: str, hook: PostStartHook, steps: Iterable[str] = ()) -> None:
        """``steps`` are names of upstream's hooks whose work this hook does too; they become health checks."""
        if name in self._post_start:
            raise ValueError(f"post-start hook {name} is there already")
        self._post_start[name] = hook
        self._steps.update(dict.fromkeys(steps, name))

    def add_pre_shutdown_hook(self, name: str, hook: PreShutdownHook) -> None:
        """Adds a hook that runs first at the stop, while requests are still served."""
        self._pre_shutdown[name] = hook

    def add_closing_hook(self, name: str, hook: PreShutdownHook) -> None:
        """Adds a hook that runs after the port is closed."""
        self._closing[name] = hook

    def add_health_check(self, name: str, check: Check) -> None:
        self._checks[name] = check

    def post_start_hooks(self) -> dict[str, PostStartHook]:
        """The hooks of the delegates, then this server's."""
        return {**self.delegate.post_start_hooks(), **self._post_start}

    def hook_steps(self) -> dict[str, str]:
        """Further names of health checks, each with the hook that does its work."""
        return {**self.delegate.hook_steps(), **self._steps}

    def pre_shutdown_hooks(self) -> dict[str, PreShutdownHook]:
        return {**self.delegate.pre_shutdown_hooks(), **self._pre_shutdown}

    def closing_hooks(self) -> dict[str, PreShutdownHook]:
        return {**self.delegate.closing_hooks(), **self._closing}

    def health_checks(self) -> dict[str, Check]:
        return {**self.delegate.health_checks(), **self._checks}

    def listed_paths(self) -> list[str]:
        """The paths listed at /, with those of the delegates, sorted."""
        own = set(self._listed)
        for more in self.more_paths:
            own.update(more())
        for group in self.table.groups():
            base = f"/apis/{group}" if group else "/api"
            own.update((base, *(f"{base}/{row.version}" for row in self.table.rows(group))))
        return sorted(own | set(self.delegate.listed_paths()))

    def serves_group_version(self, group: str, version: str) -> bool:
        return self.table.serves_group_version(group, version) or self.delegate.serves_group_version(group, version)

    def serves_resource(self, group: str, version: str, plural: str, subresource: str) -> bool:
        return self.table.scope(group, version, plural, subresource) is not None or self.delegate.serves_resource(
            group, version, plural, subresource
        )
