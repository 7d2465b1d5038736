"""What a connection knows of the listening port it came from (``kapi.server.http``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kapi.server.connection_errors import ConnectionErrors
from kapi.server.http2_stream import Stream, StreamRequest
from kapi.server.runner import RequestRunner


class Swept(Protocol):
    """A connection on which something has a deadline."""

    def sweep(self, now: float) -> None:
        """Ends what its client has taken too long for; ``now``: reactor seconds."""


class ConnectionOwner(Protocol):
    """``now``: reactor seconds, as of the last sweep over all connections."""

    now: float
    closing: bool
    max_streams: int
    #: connections on which something has a deadline
    watched: set[Swept]
    errors: ConnectionErrors
    runner: RequestRunner
    #: makes the request of an HTTP/2 stream
    stream_request_class: Callable[[Stream], StreamRequest]
