"""What all connections of a port share: their limits in seconds and bytes, the count of faults, the interface of the port.

Upstream: apiserver ``server/secure_serving.go``.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from typing import Protocol

import msgspec
from twisted.logger import Logger

from kapi.machinery.meters import counter
from kapi.serving.http2_stream import Stream, StreamRequest
from kapi.serving.run import RequestRunner

IDLE_TIMEOUT = 90.0  # seconds a connection may stay open without a request
HEAD_TIMEOUT = 32.0  # seconds from the first byte of a request to the end of its header
BODY_TIMEOUT = 60.0  # seconds for a body
HANDSHAKE_TIMEOUT = 32.0
MAX_HEADER_BYTES = (1 << 20) + 4096  # request line and headers of HTTP/1.1; upstream's default
MAX_EARLY_BYTES = 16 * 1024  # read after a request of HTTP/1.1, before it is answered
_MAX_RESERVED = 128  # file descriptors that are kept for other uses than client connections
CLOSE_TIMEOUT = 15.0  # seconds to send the last bytes of a connection that the server ends
GOAWAY_TIMEOUT = 2.0  # seconds without a stream after GOAWAY: upstream's 1, and 1 for the sweep
PEER_TIMEOUT = 315.0  # seconds after which an HTTP/2 client that reads nothing is disconnected
MAX_STREAMS = 100  # concurrent streams of an HTTP/2 connection


def max_connections() -> int:
    """The most client connections at once; the other file descriptors are for the store, files, webhooks and processes.

    Without them a client that opens many connections could keep the server from reconnecting to its store.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return sys.maxsize
    return files - min(_MAX_RESERVED, files // 3)


log = Logger()
_PERIOD_SECONDS = 10.0  # between two log lines
FULL = "full"  # a reason that is not the client's fault: the server's limit has to be raised


class _Burst(msgspec.Struct):
    since: float
    count: int = 0
    peer: object = None
    error: object = None


class ConnectionErrors:
    """Counts connections that end by their client's fault, and logs one line for several seconds.

    A scan or an attack makes thousands of such connections, which must not fill the log.  ``sweep`` is called about every second.
    """

    def __init__(self) -> None:
        self.counter = counter("kapi_connection_errors_total")
        self._bursts: dict[str, _Burst] = {}

    def add(self, reason: str, peer: object, error: object, now: float) -> None:
        """Adds an error.  ``reason`` is one of a few words, for the metric; ``error`` is for the log."""
        self.counter.add(reason)
        burst = self._bursts.get(reason)
        if burst is None:
            burst = self._bursts[reason] = _Burst(now)
        burst.count += 1
        burst.peer, burst.error = peer, str(error)

    def sweep(self, now: float) -> None:
        """Logs the errors of a period that has ended."""
        for reason, burst in list(self._bursts.items()):
            if now - burst.since >= _PERIOD_SECONDS:
                del self._bursts[reason]
                self._log(reason, burst)

    def flush(self) -> None:
        """Logs the rest when the server stops."""
        self.sweep(float("inf"))

    @staticmethod
    def _log(reason: str, burst: _Burst) -> None:
        peer = getattr(burst.peer, "host", burst.peer)
        if reason == FULL:
            log.warn(
                "{count} connections refused; the last from {peer}: {error}",
                count=burst.count,
                peer=peer,
                error=burst.error,
            )
            return
        log.info(
            "{count} connections ended by their clients' faults ({reason}); the last from {peer}: {error}",
            count=burst.count,
            reason=reason,
            peer=peer,
            error=burst.error,
        )


class Swept(Protocol):
    """A connection with a deadline."""

    def sweep(self, now: float) -> None:
        """Ends the connection, or a stream, whose client has taken too long; ``now`` is in reactor seconds."""


class ConnectionOwner(Protocol):
    """``now``: reactor seconds, as of the last sweep over all connections."""

    now: float
    closing: bool
    max_streams: int
    #: connections with a deadline
    watched: set[Swept]
    errors: ConnectionErrors
    runner: RequestRunner
    #: makes the request of an HTTP/2 stream
    stream_request_class: Callable[[Stream], StreamRequest]
