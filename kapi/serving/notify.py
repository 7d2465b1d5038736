"""Announces that the server is ready: to systemd (sd_notify(3), nothing without NOTIFY_SOCKET), and on standard output."""

from __future__ import annotations

import os
import socket

from twisted.internet.interfaces import IReactorTime

from kapi.process.timers import Repeated

_EXTENSION_SECONDS = 10.0  # between two messages of StartExtension


def notify(state: str, address: str | None = None) -> bool:
    """Sends a state such as ``READY=1``.  Returns whether it was sent."""
    path = os.environ.get("NOTIFY_SOCKET", "") if address is None else address
    if not path or path[0] not in "/@":
        return False
    target = "\0" + path[1:] if path[0] == "@" else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect(target)
            channel.sendall(state.encode())
    except OSError:
        return False
    return True


def announcement(url: str, kubeconfig: object, bind_address: str, *, terminal: bool) -> str:
    """The lines that are printed when the server is ready: two for scripts; on a terminal, what may be done next too."""
    text = f"kapi is serving at {url}\nexport KUBECONFIG={kubeconfig}"
    if not terminal:
        return text
    text += "\nPaste the line above into another shell, then type: kapi get namespaces (or kubectl get namespaces)"
    if bind_address in ("0.0.0.0", "::"):
        text += (
            "\nIt listens on all addresses of this machine; --bind-address=127.0.0.1 listens for this machine alone."
        )
    return text


class StartExtension:
    """Extends systemd's timeout of the start again and again.

    A start may wait for longer than ``TimeoutStartSec`` for a store that is away or loads much data; it has its own limits.
    """

    def __init__(self, reactor: IReactorTime) -> None:
        self._repeated = Repeated(_extend, reactor, "telling systemd that the start goes on")

    def begin(self) -> None:
        self._repeated.start(_EXTENSION_SECONDS)

    def end(self) -> None:
        self._repeated.stop()


def _extend() -> None:
    notify(f"EXTEND_TIMEOUT_USEC={3 * _EXTENSION_SECONDS * 1_000_000:.0f}")
