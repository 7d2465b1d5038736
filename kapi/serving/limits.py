"""Limits of a connection, in seconds and in bytes (upstream: apiserver ``server/secure_serving.go``)."""

from __future__ import annotations

import resource
import sys

IDLE_TIMEOUT = 90.0  # seconds a connection may stay open without a request
HEAD_TIMEOUT = 32.0  # seconds from the first byte of a request to the end of its header
BODY_TIMEOUT = 60.0  # seconds for a body
HANDSHAKE_TIMEOUT = 32.0
MAX_HEADER_BYTES = (1 << 20) + 4096  # request line and headers of HTTP/1.1; upstream's default
MAX_EARLY_BYTES = 16 * 1024  # that are read behind a request of HTTP/1.1 before it is answered
_MAX_RESERVED = 128  # descriptors that are not for clients' connections
CLOSE_TIMEOUT = 15.0  # seconds for the last bytes of a connection that the server ends
GOAWAY_TIMEOUT = 2.0  # seconds without a stream after GOAWAY: upstream's 1, and 1 for the sweep
PEER_TIMEOUT = 315.0  # seconds in which an HTTP/2 client has to read some of what is sent
MAX_STREAMS = 100  # concurrent streams of an HTTP/2 connection


def max_connections() -> int:
    """The most client connections at once; the other file descriptors are for the store, files, webhooks and processes.

    Without them a client that opens many connections could keep the server from reconnecting to its store.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return sys.maxsize
    return files - min(_MAX_RESERVED, files // 3)
