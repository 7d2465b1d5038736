"""One server of the delegation chain: routes, hooks, health checks, and whom to ask next.

Upstream: apiserver ``server/genericapiserver.go`` (DelegationTarget) and ``server/handler.go``.  Each server has a Klein app
whose routes are what it serves and whose last branch is the next server; after the last comes plain "not found".  The
resources stand in a table behind one route, looked up by a dict, so that a custom resource comes and goes without touching
routes.  ``handle`` is the short cut over the same tables, which walks no URL map (docs/adr/0028).
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
    """The API group a path lies under; "" is the core group, None says that it is no API path."""
    parts = path.split("/", 3)
    if parts[1] == "api":
        return ""
    return parts[2] if parts[1] == "apis" and len(parts) > 2 and parts[2] else None


class GenericServer:
    """A named server; ``delegate`` is asked for what it does not serve itself."""

    def __init__(self, name: str, delegate: Delegate, table: ResourceTable | None = None) -> None:
        self.name = name
        self.delegate = delegate
        self.table = table if table is not None else ResourceTable()
        #: what is served at a path, and below a path that ends with a slash: both ways to an endpoint look it up here
        self.exact: dict[str, Handler] = {}
        self.below: dict[str, Handler] = {}
        self._listed: list[str] = []
        self._post_start: dict[str, PostStartHook] = {}
        self._steps: dict[str, str] = {}
        self._pre_shutdown: dict[str, PreShutdownHook] = {}
        self._closing: dict[str, PreShutdownHook] = {}
        self._checks: dict[str, Check] = {}
        #: answers /api, /apis and what lies under them down to a group version: discovery
        self.discovery: Handler | None = None
        #: groups that are this server's for good: under them an unknown path is answered with a Status
        self.fixed_groups: frozenset[str] = frozenset()
        #: further paths to list
        self.more_paths: list[Callable[[], list[str]]] = []

    @functools.cached_property
    def app(self) -> Klein:
        """Its routes are what this server serves now; the last is the next server."""
        from kapi.server.tree import klein_app  # a server of its own needs no URL maps to start

        return klein_app(self)

    def route(self, path: str, handler: Handler, *, methods: tuple[str, ...] = (), listed: bool = True) -> None:
        """Serves a fixed path.  Another method than ``methods`` is 405; without ``methods`` all are taken.

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
        """Serves all that lies below a path and is not served by ``route``; None passes the request on."""
        self._add(self.below, path + "/", handler)

    def _add(self, table: dict[str, Handler], path: str, handler: Handler) -> None:
        if path in table:
            raise ValueError(f"{path} is served already")
        if "app" in self.__dict__:
            raise ValueError(f"{path} comes too late: the routes are made")
        table[path] = handler

    def resource(self) -> IResource:
        """This server and those behind it, for requests whose filters have run (see ``kapi.server.tree``)."""
        return self._resource

    @functools.cached_property
    def _resource(self) -> IResource:
        return self.app.resource()

    def end(self) -> IResource:
        """What stands behind all servers."""
        return self.delegate.end()

    def handle(self, ctx: RequestContext) -> Answer:
        """The unprotected handler: no filter is run here, and no URL map is walked."""
        info, path = ctx.info, ctx.path
        assert info is not None
        if path.startswith("//"):  # no route begins so, though it is authorized as if it had one slash, as upstream
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
        """What lies under /api and /apis: resources, and discovery.  Raises NotFound in groups that are this server's."""
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
        """``steps`` are hooks of upstream that this one does too; health checks carry their names."""
        if name in self._post_start:
            raise ValueError(f"post-start hook {name} is there already")
        self._post_start[name] = hook
        self._steps.update(dict.fromkeys(steps, name))

    def add_pre_shutdown_hook(self, name: str, hook: PreShutdownHook) -> None:
        """Runs as soon as the server is to stop, while everything is still served."""
        self._pre_shutdown[name] = hook

    def add_closing_hook(self, name: str, hook: PreShutdownHook) -> None:
        """Runs when no more connections are taken."""
        self._closing[name] = hook

    def add_health_check(self, name: str, check: Check) -> None:
        self._checks[name] = check

    def post_start_hooks(self) -> dict[str, PostStartHook]:
        """This server's and those of all it delegates to; theirs first."""
        return {**self.delegate.post_start_hooks(), **self._post_start}

    def hook_steps(self) -> dict[str, str]:
        """Further names of hooks, and which hook does them."""
        return {**self.delegate.hook_steps(), **self._steps}

    def pre_shutdown_hooks(self) -> dict[str, PreShutdownHook]:
        return {**self.delegate.pre_shutdown_hooks(), **self._pre_shutdown}

    def closing_hooks(self) -> dict[str, PreShutdownHook]:
        return {**self.delegate.closing_hooks(), **self._closing}

    def health_checks(self) -> dict[str, Check]:
        return {**self.delegate.health_checks(), **self._checks}

    def listed_paths(self) -> list[str]:
        """Sorted, those of the delegates included."""
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
