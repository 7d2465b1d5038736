"""The listening socket: bound early, so that a port in use is reported at once; listens when the server can answer.

Until then connections are refused.  If it listened earlier they would be accepted by the kernel, and wait for as long as the
server waits for its store.
"""

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

from kapi.process.reactor import Reactor, accept_one, accept_some
from kapi.request.departure import keep_alive
from kapi.serving.site import Connections
from kapi.serving.tls_connection import TLSConnection
from kapi.wire.tls.server import ServerContexts

BACKLOG = 4096  # as Go: Linux's default of net.core.somaxconn
#: TCP keep-alive: idle seconds before a probe, seconds between probes, and unanswered probes before the connection is closed:
#: upstream's ``defaultKeepAlivePeriod``, and Go's defaults
KEEP_ALIVE = (180, 15, 9)


class ListenError(Exception):
    """The socket cannot be bound; ``str(error)`` says why."""


def raise_file_limit() -> None:
    """Raises the limit of open files to the hard limit, as Go does at each start: shells often set 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # some systems refuse their own hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def bind(address: str, port: int, share: bool) -> socket.socket:
    """A bound socket that does not listen yet.  Raises ListenError, also when another socket listens there."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setblocking(False)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # inherited by accepted sockets.  As Go does: the last part of a long answer does not wait until the client has
        # confirmed the one before, for which it takes 40 ms
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(listener, *KEEP_ALIVE)
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        raise _listen_error(f"{address}:{port}", error) from None
    return listener


def listen(listener: socket.socket) -> None:
    """Lets a bound socket listen.  Raises ListenError: with SO_REUSEADDR two sockets may be bound, and only one may listen."""
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        raise _listen_error(socket_name(listener), error) from None


def _listen_error(where: str, error: OSError) -> ListenError:
    if error.errno == errno.EADDRINUSE:
        return ListenError(f"{where} is in use by another process")
    return ListenError(f"cannot listen on {where}: {os.strerror(error.errno or 0)}")


def socket_name(listener: socket.socket) -> str:
    """Address and port of a bound socket."""
    host, port, *_ = listener.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def local_url(address: str, port: int) -> str:
    """The URL for clients on this machine; the loopback address for a wildcard."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"


def default_address(bind_address: str) -> str:
    """The address to advertise: the bound one; for a wildcard or loopback the one of the default route's interface."""
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
    """An open port.  Raises ListenError.

    When other processes accept from the same socket (``shared``), it accepts one connection and pauses, so that the others get
    their share.  The pause is shorter than a handshake, so it costs nothing when no other process accepts.  When it has no
    descriptors left it pauses longer, since another process may have some.
    """

    pause = 0.001  # seconds
    full_pause = 0.1

    def __init__(
        self,
        reactor: Reactor,
        listener: socket.socket,
        connections: Connections,
        contexts: ServerContexts,
        *,
        shared: bool = False,
    ) -> None:
        listen(listener)
        factory: Any = connections
        port: Any = reactor.adoptStreamPort(listener.fileno(), listener.family, factory)
        runner = connections.runner
        bound = {"create": staticmethod(contexts.connection), "turn": runner.turn, "pending": runner.pending}
        port.transport = type("BoundConnection", (TLSConnection,), bound)
        self._port: IListeningPort = port
        self._rests: IDelayedCall | None = None

        def rest() -> None:
            pause = self.full_pause if connections.full else self.pause
            self._rests = reactor.callLater(pause, port.startReading)

        if shared:
            accept_one(port, rest)
        else:
            accept_some(port)
        listener.close()

    async def stop(self) -> None:
        """Stops accepting; open connections stay."""
        if self._rests is not None and self._rests.active():
            self._rests.cancel()
        await maybeDeferred(self._port.stopListening)
