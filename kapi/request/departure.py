"""Notices that the peer of a connection has closed it while the connection is not read.

A reactor does not poll a paused socket, so it reports the end of such a connection only after all earlier data was read.  That
may be never, if the reader of the data waits for a third party.
"""

from __future__ import annotations

import select
import socket
from typing import Any

LOOK_SECONDS = 5.0  # between two checks of a paused connection
_ENDED = getattr(select, "POLLRDHUP", 0)  # the peer sends no more; only Linux has it
_GONE = _ENDED | select.POLLHUP | select.POLLERR


def keep_alive(sock: socket.socket, idle: int, interval: int, probes: int) -> None:
    """Makes the system end a connection whose peer has disappeared.

    ``idle``: seconds before the first probe; ``interval``: seconds between probes; ``probes``: the number of unanswered probes.
    Does nothing for a Unix socket, whose peer is on the same machine.
    """
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle_name = "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE"  # the latter is macOS's
    for name, value in ((idle_name, idle), ("TCP_KEEPINTVL", interval), ("TCP_KEEPCNT", probes)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def socket_of(transport: Any) -> socket.socket | None:
    """The socket below a transport and its TLS; None when it has none."""
    while (below := getattr(transport, "transport", None)) is not None:
        transport = below
    found = getattr(transport, "socket", None)
    return found if isinstance(found, socket.socket) and found.fileno() >= 0 else None


def has_left(transport: Any) -> bool:
    """Whether the peer has closed its side, has reset the connection, or answers no keep-alive probes any more."""
    sock = socket_of(transport)
    if sock is None:
        return False
    poll = select.poll()
    poll.register(sock, _ENDED)
    return any(events & _GONE for _, events in poll.poll(0))
