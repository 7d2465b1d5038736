"""One server of the delegation chain: routes, hooks, health checks, and whom to ask next.

Upstream: apiserver ``server/genericapiserver.go`` (DelegationTarget) and ``server/handler.go``.  Each server has a Klein app
for its fixed paths; resources live in a table behind it, looked up by a dict, so that a custom resource comes and goes
without touching routes.  What a server does not know it hands to the next; after the last comes plain "not found".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, cast

from klein import Klein
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.server.health import PLAIN, Check

Answer = Response | Awaitable[Response] | None
Handler = Callable[[RequestContext], Answer]
#: runs once after the server listens; health checks wait for it
PostStartHook = Callable[[], Awaitable[None]]
PreShutdownHook = Callable[[], Awaitable[None] | None]


class Delegate(Protocol):
    """What one server of the chain is to the one before it."""

    name: str

    def handle(self, ctx: RequestContext) -> Answer:
        """The answer, past all filters; None when nobody down the chain knows the path."""

    def post_start_hooks(self) -> dict[str, PostStartHook]: ...

    def hook_steps(self) -> dict[str, str]: ...

    def pre_shutdown_hooks(self) -> dict[str, PreShutdownHook]: ...

    def closing_hooks(self) -> dict[str, PreShutdownHook]: ...

    def health_checks(self) -> dict[str, Check]: ...

    def listed_paths(self) -> list[str]: ...

    def serves_group_version(self, group: str, version: str) -> bool: ...

    def serves_resource(self, group: str, version: str, plural: str, subresource: str) -> bool: ...


class NotFound:
    """The end of the chain."""

    name = "not-found"

    def handle(self, ctx: RequestContext) -> Response:
        return Response(404, b"404 page not found\n", PLAIN, ((b"x-content-type-options", b"nosniff"),))

    def post_start_hooks(self) -> dict[str, PostStartHook]:
        return {}

    def hook_steps(self) -> dict[str, str]:
        return {}

    def pre_shutdown_hooks(self) -> dict[str, PreShutdownHook]:
        return {}

    def closing_hooks(self) -> dict[str, PreShutdownHook]:
        return {}

    def health_checks(self) -> dict[str, Check]:
        return {}

    def listed_paths(self) -> list[str]:
        return []

    def serves_group_version(self, group: str, version: str) -> bool:
        return False

    def serves_resource(self, group: str, version: str, plural: str, subresource: str) -> bool:
        return False


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
        self.app = Klein()
        self._adapter: Any = None
        self._paths: list[str] = []
        self._post_start: dict[str, PostStartHook] = {}
        self._steps: dict[str, str] = {}
        self._pre_shutdown: dict[str, PreShutdownHook] = {}
        self._closing: dict[str, PreShutdownHook] = {}
        self._checks: dict[str, Check] = {}
        #: answers /api, /apis and what lies under them down to a group version: discovery
        self.discovery: Handler | None = None
        #: groups that are this server's for good: under them an unknown path is answered with a Status
        self.fixed_groups: frozenset[str] = frozenset()
        #: asked in order when no fixed path fits
        self.fallbacks: list[Handler] = []
        #: further paths to list
        self.more_paths: list[Callable[[], list[str]]] = []

    def route(self, path: str, handler: Handler, *, methods: tuple[str, ...] = (), listed: bool = True) -> None:
        """Serves a fixed path.  Another method than ``methods`` is 405; without ``methods`` all are taken.

        A handler that answers None passes the request on.
        """
        allowed = frozenset(methods)

        def endpoint(ctx: RequestContext) -> Answer:
            if allowed and ctx.method not in allowed:
                raise status.method_not_allowed()
            return handler(ctx)

        endpoint.__name__ = (
            f"endpoint_{len(self._paths)}_{handler.__name__ if hasattr(handler, '__name__') else 'call'}"
        )
        self.app.route(path, strict_slashes=True, merge_slashes=False, endpoint=f"{len(self._paths)} {path}")(
            cast(Any, endpoint)  # our endpoints take the request's context where Klein's take its request
        )
        self._paths.append(path if listed else "")
        self._adapter = None

    def handle(self, ctx: RequestContext) -> Answer:
        """The unprotected handler: no filter is run here."""
        info = ctx.info
        assert info is not None
        if ctx.path.startswith("//"):  # under no server's root, whatever was authorized
            return self.delegate.handle(ctx)
        if info.is_resource:
            answer = self.table.handle(ctx)
            if answer is not None:
                return answer
            if info.group in self.fixed_groups:
                raise status.no_such_resource()
            return self.delegate.handle(ctx)
        if ctx.path.startswith("/api"):
            found = None if self.discovery is None else self.discovery(ctx)
            if found is not None:
                return found
            if _group_of(ctx.path) in self.fixed_groups:
                raise status.no_such_resource()
        routed = self._routed(ctx)
        return self.delegate.handle(ctx) if routed is None else routed

    def _routed(self, ctx: RequestContext) -> Answer:
        if self._adapter is None:
            self._adapter = self.app.url_map.bind("kapi")
        try:
            endpoint, arguments = self._adapter.match(ctx.path or "/", "GET")
        except (RequestRedirect, HTTPException):
            for fallback in self.fallbacks:
                found = fallback(ctx)
                if found is not None:
                    return found
            return None
        return cast(Answer, self.app.execute_endpoint(endpoint, cast(Any, ctx), **arguments))

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
        own = {path for path in self._paths if path}
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
