"""The interface of a server for the one before it in the chain (upstream: ``server/genericapiserver.go``, DelegationTarget)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from twisted.web.resource import IResource

from kapi.serving.health import Check
from kapi.serving.routing import Leaf, Routes

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
