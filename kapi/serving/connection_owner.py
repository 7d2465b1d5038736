"""The interface of the listening port (``kapi.serving.http``) for its connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kapi.serving.connection_errors import ConnectionErrors
from kapi.serving.http2_stream import Stream, StreamRequest
from kapi.serving.runner import RequestRunner


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
