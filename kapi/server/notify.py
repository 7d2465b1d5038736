"""Notifies systemd of the service's state (sd_notify(3)); does nothing without NOTIFY_SOCKET."""

from __future__ import annotations

import os
import socket


def notify(state: str, address: str | None = None) -> bool:
    """Sends a state such as ``READY=1``.  Returns whether it was sent."""
    path = os.environ.get("NOTIFY_SOCKET", "") if address is None else address
    if not path or path[0] not in "/@":
        return False
    target = "\0" + path[1:] if path[0] == "@" else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.connect(target)
            channel.sendall(state.encode())
    except OSError:
        return False
    return True
