"""What a client can hold on to of a connection, in time and in bytes (upstream: apiserver ``server/secure_serving.go``)."""

from __future__ import annotations

import resource
import sys

IDLE_TIMEOUT = 90.0  # seconds a connection may stay open without a request
HEAD_TIMEOUT = 32.0  # seconds from the first byte of a request to the end of its header
BODY_TIMEOUT = 60.0  # seconds for a body
HANDSHAKE_TIMEOUT = 32.0
HEADER_BYTES = 1 << 20  # request line and headers; upstream's default
HEADERS = 500
LINE_BYTES = 64 * 1024  # of a request line or one header
_MAX_SPARED = 128  # descriptors, at most, that clients' connections do not get
LEAVE_TIMEOUT = 15.0  # seconds for the last bytes of a connection that the server ends
GOAWAY_TIMEOUT = 2.0  # seconds without a stream after GOAWAY: upstream's one, and that of a sweep
PEER_TIMEOUT = 315.0  # seconds in which the client of HTTP/2 has to take something of what is sent
STREAMS = 100  # concurrent streams of an HTTP/2 connection


def max_connections() -> int:
    """How many clients there may be at once: of the descriptors some are for the store, files, webhooks, processes.

    Else a client that opens connections and leaves them could keep the server from reaching its store again.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return sys.maxsize
    return files - min(_MAX_SPARED, files // 3)
