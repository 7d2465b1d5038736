"""A whole server, put together from flags, on a reactor in memory: nothing is started and nothing listens."""

from __future__ import annotations

from pathlib import Path

from twisted.internet.testing import MemoryReactorClock

from kapi.assembly.config import Config
from kapi.assembly.prepared import PreparedServer
from kapi.assembly.server import assemble
from kapi.extensions import extension_for
from kapi.foundation import Foundation
from kapi.options.options import Options
from kapi.servers.additions import NOTHING, Additions
from tests.certificates import server_files


def assembled(directory: Path, *flags: str, additions: Additions = NOTHING) -> PreparedServer:
    """Raises ConfigError, and ValueError for additions."""
    extension = extension_for(flags)
    options = Options.from_command_line([f"--data-dir={directory}", *flags], extension)
    reactor = MemoryReactorClock()
    foundation = Foundation(options, reactor)
    try:
        store, overrides = foundation.store, foundation.overrides
        egress = foundation.egress
        given = Config(options, reactor, server_files(), store, "192.0.2.1", 6443, overrides, additions, egress)
        return assemble(given, extension)
    finally:
        foundation.abandon()
