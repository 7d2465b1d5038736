"""One server of the delegation chain: routes, hooks, health checks, and the delegate for everything else.

Each server has a Klein app.  Its routes are what the server serves, and its last branch is the next server; the last server's
delegate answers 404.  Resources are in a table behind one branch, so that custom resources come and go while the routes stay.

Upstream: apiserver ``server/genericapiserver.go`` (DelegationTarget).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Protocol

from twisted.web.resource import IResource

from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.health import PLAIN, Check
from kapi.serving.routing import Answer, Handler, Leaf, Routes

#: runs once after the server listens; health checks wait for it
PostStartHook = Callable[[], Awaitable[None]]
PreShutdownHook = Callable[[], Awaitable[None] | None]


class Delegate(Protocol):
    """The next server of the chain (upstream: DelegationTarget)."""

    name: str

    def resource(self) -> IResource:
        """This server, with the servers after it, as a tree."""

    def apps(self) -> Sequence[Routes]:
        """The Klein apps of this server and of the servers after it."""

    def end(self) -> Leaf:
        """The resource after the last server."""

    def post_start_hooks(self) -> dict[str, PostStartHook]: ...

    def hook_steps(self) -> dict[str, str]: ...

    def pre_shutdown_hooks(self) -> dict[str, PreShutdownHook]: ...

    def closing_hooks(self) -> dict[str, PreShutdownHook]: ...

    def health_checks(self) -> dict[str, Check]: ...

    def seal(self) -> None: ...

    def listed_paths(self) -> list[str]: ...

    def serves_group_version(self, group: str, version: str) -> bool: ...

    def serves_resource(self, group: str, version: str, plural: str, subresource: str) -> bool: ...


class NotFound:
    """The end of the chain: answers 404 (upstream: emptyDelegate)."""

    name = "not-found"

    def resource(self) -> Leaf:
        return self.end()

    def apps(self) -> Sequence[Routes]:
        return ()

    def end(self) -> Leaf:
        return Leaf(self.handle)

    def handle(self, ctx: RequestContext) -> Answer:
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

    def seal(self) -> None:
        """Does nothing: it has no hooks."""

    def listed_paths(self) -> list[str]:
        return []

    def serves_group_version(self, group: str, version: str) -> bool:
        return False

    def serves_resource(self, group: str, version: str, plural: str, subresource: str) -> bool:
        return False


def _group_of(path: str) -> str | None:
    """The API group of a path; "" is the core group, None means that it is no API path."""
    parts = path.split("/", 3)
    if parts[1] == "api":
        return ""
    return parts[2] if parts[1] == "apis" and len(parts) > 2 and parts[2] else None


class GenericServer:
    """A named server; ``delegate`` answers the requests that it does not serve itself."""

    app = Routes()

    def __init__(self, name: str, delegate: Delegate, table: ResourceTable | None = None) -> None:
        self.name = name
        self.delegate = delegate
        self.table = table if table is not None else ResourceTable()
        self.app = Routes(mounted=delegate.resource)
        self.app.include(self)
        self._post_start: dict[str, PostStartHook] = {}
        self._steps: dict[str, str] = {}
        self._pre_shutdown: dict[str, PreShutdownHook] = {}
        self._closing: dict[str, PreShutdownHook] = {}
        self._checks: dict[str, Check] = {}
        self._sealed = False
        #: discovery: answers /api, /apis and the paths of groups and group versions
        self.discovery: Handler | None = None
        #: groups that only this server serves: an unknown path below them is answered with a Status
        self.fixed_groups: frozenset[str] = frozenset()
        #: further paths to list
        self.more_paths: list[Callable[[], list[str]]] = []

    def resource(self) -> IResource:
        """This server as a tree, for requests that have passed the filters; the servers after it are mounted."""
        return self.app.resource()

    def apps(self) -> Sequence[Routes]:
        return self.app, *self.delegate.apps()

    def end(self) -> Leaf:
        return self.delegate.end()

    @app.route("/api", branch=True, listed=False)
    @app.route("/apis", branch=True, listed=False)
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
        """Adds a hook that runs once the server listens.  Raises ValueError.

        ``steps`` are names of upstream's hooks whose work this hook does too; they become health checks.
        """
        self._check_hook("post-start hook", name, {**self.post_start_hooks(), **self.hook_steps()})
        self._post_start[name] = hook
        self._steps.update(dict.fromkeys(steps, name))

    def add_pre_shutdown_hook(self, name: str, hook: PreShutdownHook) -> None:
        """Adds a hook that runs first at the stop, while requests are still served.  Raises ValueError."""
        self._check_hook("pre-shutdown hook", name, self.pre_shutdown_hooks())
        self._pre_shutdown[name] = hook

    def _check_hook(self, what: str, name: str, known: Collection[str]) -> None:
        if self._sealed:
            raise ValueError(f"{what} {name} comes too late: the server is prepared")
        if not name:
            raise ValueError(f"a {what} has no name")
        if name in known:
            raise ValueError(f"{what} {name} is there already")

    def seal(self) -> None:
        """Refuses further hooks, also for the servers after it."""
        self._sealed = True
        self.delegate.seal()

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
        own = set(self.app.listed)
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
