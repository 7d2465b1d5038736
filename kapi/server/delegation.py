"""The interface of a server for the one before it in the chain (upstream: ``server/genericapiserver.go``, DelegationTarget)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.server.health import Check

if TYPE_CHECKING:
    from twisted.web.resource import IResource

#: None passes the request on
Answer = Response | Awaitable[Response] | None
Handler = Callable[[RequestContext], Answer]
#: runs once after the server listens; health checks wait for it
PostStartHook = Callable[[], Awaitable[None]]
PreShutdownHook = Callable[[], Awaitable[None] | None]


class Delegate(Protocol):
    """The next server of the chain (upstream: DelegationTarget)."""

    name: str

    def handle(self, ctx: RequestContext) -> Answer:
        """The answer, without filters; None when no server of the chain serves the path."""

    def resource(self) -> IResource:
        """This server and those after it as a tree (see ``kapi.server.tree``)."""

    def end(self) -> IResource:
        """The last leaf of that tree."""

    def post_start_hooks(self) -> dict[str, PostStartHook]: ...

    def hook_steps(self) -> dict[str, str]: ...

    def pre_shutdown_hooks(self) -> dict[str, PreShutdownHook]: ...

    def closing_hooks(self) -> dict[str, PreShutdownHook]: ...

    def health_checks(self) -> dict[str, Check]: ...

    def listed_paths(self) -> list[str]: ...

    def serves_group_version(self, group: str, version: str) -> bool: ...

    def serves_resource(self, group: str, version: str, plural: str, subresource: str) -> bool: ...
