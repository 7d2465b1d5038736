"""The listening socket: bound early, so that a port in use is reported at once; opened when the server is ready."""

from __future__ import annotations

import errno
import ipaddress
import os
import resource
import socket
from contextlib import suppress
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IDelayedCall, IListeningPort

from kapi.request.reactor import Reactor
from kapi.scheduling.thread_scheduler import ThreadScheduler
from kapi.server.http import Connections
from kapi.server.tls import ServerContexts
from kapi.server.tls_connection import TLSConnection

BACKLOG = 4096  # as much as Go asks for: what the system allows by itself
MAX_ACCEPTS = 16  # connections taken in one turn of the reactor: each costs 0.1 ms
#: seconds of silence before a probe, seconds between probes, and how many stay unanswered before the peer is given up:
#: upstream's ``defaultKeepAlivePeriod``, and what Go sets besides
KEEP_ALIVE = (180, 15, 9)


class ListenError(Exception):
    """The address cannot be listened on; ``str(error)`` says why."""


def raise_file_limit() -> None:
    """As many connections as the system allows this process, as Go does at each start: shells often give 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # a system that does not like the number it names
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def bind(address: str, port: int, share: bool) -> socket.socket:
    """A bound socket that does not listen yet.  Raises ListenError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # accepted sockets take these over
        for name, value in zip(("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"), KEEP_ALIVE, strict=True):
            if hasattr(socket, name):
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        listener.bind((address, port))
        if not share:
            listener.listen(BACKLOG)  # two sockets may be bound with SO_REUSEADDR; only one may listen
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ListenError(f"{address}:{port} is in use by another process") from None
        raise ListenError(f"cannot listen on {address}:{port}: {os.strerror(error.errno or 0)}") from None
    return listener


def socket_name(listener: socket.socket) -> str:
    """Address and port of a bound socket."""
    host, port, *_ = listener.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def local_url(address: str, port: int) -> str:
    """Where a client on this machine reaches what listens on an address, a wildcard's by the loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"


def default_address(bind_address: str) -> str:
    """The address to advertise: the bound one, or for a wildcard or loopback that of the default route's interface."""
    bound = ipaddress.ip_address(bind_address)
    if not (bound.is_unspecified or bound.is_loopback):
        return bind_address
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((target, 9))  # a datagram socket only looks up the route
                return str(probe.getsockname()[0])
            except OSError:
                continue
    return "127.0.0.1"


class Port:
    """An open port.

    When other processes take connections from the same socket (``shared``), it takes one and rests for a while: of many that come
    at once the others get their share.  A handshake takes longer than the rest does, so alone it takes no fewer.  One that has no
    place for connections rests longer: what it would refuse others may have a place for.
    """

    rest = 0.001  # seconds
    full_rest = 0.1

    def __init__(
        self,
        reactor: Reactor,
        listener: socket.socket,
        connections: Connections,
        contexts: ServerContexts,
        scheduler: ThreadScheduler | None = None,
        *,
        shared: bool = False,
    ) -> None:
        listener.listen(BACKLOG)
        port: Any = reactor.adoptStreamPort(listener.fileno(), listener.family, connections)
        bound = {"create": staticmethod(contexts.connection), "scheduler": scheduler}
        port.transport = type("BoundConnection", (TLSConnection,), bound)
        self._port: IListeningPort = port
        self._rests: IDelayedCall | None = None
        accept = port.doRead

        def accept_some() -> None:
            # Twisted takes more and more while there are more
            port.numberAccepts = min(port.numberAccepts, MAX_ACCEPTS)
            accept()

        def accept_one() -> None:
            port.numberAccepts = 1
            accept()
            port.stopReading()
            rest = self.full_rest if connections.full else self.rest
            self._rests = reactor.callLater(rest, port.startReading)

        port.doRead = accept_one if shared else accept_some
        listener.close()

    async def stop(self) -> None:
        """Takes no more connections; those that are open stay."""
        if self._rests is not None and self._rests.active():
            self._rests.cancel()
        await maybeDeferred(self._port.stopListening)
