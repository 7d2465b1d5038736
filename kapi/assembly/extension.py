"""The extension point by which a launcher adds parts to a server (upstream: none; see ``kapi.testbed``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kapi.assembly.chain import Outgoing
from kapi.assembly.config import CompletedConfig
from kapi.assembly.policy import Policy
from kapi.assembly.storage import Storage
from kapi.filters.chain import Filter, Handler
from kapi.options.flags import FlagSet
from kapi.options.global_flags import ProcessOptions
from kapi.servers.chain import ServerChain
from kapi.serving.site import Connections


@dataclass(frozen=True, slots=True)
class Parts:
    """The stages before PrepareRun."""

    config: CompletedConfig
    storage: Storage
    policy: Policy
    chain: ServerChain
    outgoing: Outgoing
    site: Connections
    flow: Filter | None


class Extension(Protocol):
    """Adds flags, routes, hooks and steps around the handlers to one server."""

    def flags(self, processes: ProcessOptions) -> FlagSet:
        """Its flags, which are parsed with the server's flags."""

    def install(self, parts: Parts) -> None:
        """Adds routes and hooks to the servers.  Raises ConfigError."""

    def behind_filters(self, handler: Handler) -> Handler:
        """Wraps ``handler``, which answers requests that have passed the filters."""

    def before_filters(self, handler: Handler, behind: Sequence[Filter]) -> Handler:
        """Wraps ``handler``, which begins with the filters; ``behind`` are filters that come last."""
