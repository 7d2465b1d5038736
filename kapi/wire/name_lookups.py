"""Name lookups in threads of their own, so that a name server which does not answer blocks nothing else.

The system's resolver blocks for 10 to 40 seconds when name servers do not answer.  In the reactor's own pool of ten threads, ten
such names would block all other lookups, the compression of lists, and the end of the process.  Go has a goroutine for each
lookup, or up to 500 threads.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IAddress, IHostnameResolver, IHostResolution, IResolutionReceiver
from twisted.logger import Logger
from zope.interface import implementer

from kapi.process.reactor import Reactor

log = Logger()
MAX_LOOKUPS = 256  # threads
MAX_SLOW_LOOKUPS = 128  # threads for names whose last lookup took long: the other threads are for all other names
MAX_WAITING = 1000  # lookups that wait for a thread; further ones fail
_SLOW_SECONDS = 1.0
_MAX_REMEMBERED = 1000  # names that took long

_FAMILIES = {frozenset([IPv4Address]): socket.AF_INET, frozenset([IPv6Address]): socket.AF_INET6}
Found = Sequence[Any]  # what getaddrinfo answers
GetAddrInfo = Callable[..., Found]


def in_daemon_thread(work: Callable[[], None]) -> None:
    """Runs ``work`` in a thread for which the process does not wait at its end."""
    Thread(target=work, name="name lookup", daemon=True).start()


@implementer(IHostnameResolver)
class NameLookups:
    """The resolver of a process.  Requests for a name that is being looked up share the one lookup."""

    def __init__(
        self,
        reactor: Reactor,
        getaddrinfo: GetAddrInfo = socket.getaddrinfo,
        start: Callable[[Callable[[], None]], None] = in_daemon_thread,
    ) -> None:
        self._reactor = reactor
        self._getaddrinfo = getaddrinfo
        self._start = start
        self._known: dict[tuple[str, int], _Lookup] = {}  # lookups that run or wait
        self._waiting: dict[_Lookup, None] = {}
        self._slow: dict[str, None] = {}
        self._running = self._running_slow = 0

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[type[IAddress]] | None = None,
        transportSemantics: str = "TCP",
    ) -> IHostResolution:
        family = _FAMILIES.get(frozenset(addressTypes or ()), socket.AF_UNSPEC)
        lookup = self._known.get((hostName, family))
        if lookup is None and len(self._waiting) < MAX_WAITING:
            lookup = self._known[hostName, family] = _Lookup(self, hostName, family)
            self._waiting[lookup] = None
        resolution = _Resolution(hostName, lookup, resolutionReceiver, portNumber, transportSemantics)
        resolutionReceiver.resolutionBegan(resolution)
        if lookup is None:
            log.error("too many names are being looked up; {name} is not", name=hostName)
            resolution.complete(())
        else:
            lookup.resolutions[resolution] = None
            self._go_on()
        return resolution

    def _go_on(self) -> None:
        """Starts waiting lookups while there are threads."""
        for lookup in list(self._waiting):
            if self._running >= MAX_LOOKUPS:
                return
            lookup.is_slow = lookup.name in self._slow
            if lookup.is_slow and self._running_slow >= MAX_SLOW_LOOKUPS:
                continue
            del self._waiting[lookup]
            self._begin(lookup)

    def _begin(self, lookup: _Lookup) -> None:
        self._running += 1
        self._running_slow += lookup.is_slow
        begun = self._reactor.seconds()

        def work() -> None:
            found: Found = ()
            try:
                found = self._getaddrinfo(lookup.name, 0, lookup.family, socket.SOCK_STREAM)
            except (OSError, UnicodeError):  # OSError includes gaierror
                pass
            finally:
                self._reactor.callFromThread(self._found, lookup, found, begun)

        try:
            self._start(work)
        except RuntimeError as error:  # the system allows no further thread
            log.error("{name} is not looked up: {error}", name=lookup.name, error=str(error))
            self._reactor.callLater(0, self._found, lookup, (), begun)  # not now: it starts waiting lookups

    def _found(self, lookup: _Lookup, found: Found, begun: float) -> None:
        self._running -= 1
        self._running_slow -= lookup.is_slow
        self._slow.pop(lookup.name, None)
        if self._reactor.seconds() - begun >= _SLOW_SECONDS:
            self._slow[lookup.name] = None
            if len(self._slow) > _MAX_REMEMBERED:
                del self._slow[next(iter(self._slow))]
        self._known.pop((lookup.name, lookup.family), None)
        try:
            for resolution in list(lookup.resolutions):
                resolution.complete(found)
        finally:
            self._go_on()

    def leave(self, lookup: _Lookup) -> None:
        """Drops a lookup whose last request was cancelled.  A lookup that runs cannot be stopped."""
        if lookup in self._waiting:
            del self._waiting[lookup]
            self._known.pop((lookup.name, lookup.family), None)


class _Lookup:
    """The lookup of one name, for all requests that wait for it."""

    __slots__ = ("_lookups", "name", "family", "resolutions", "is_slow")

    def __init__(self, lookups: NameLookups, name: str, family: int) -> None:
        self._lookups = lookups
        self.name = name
        self.family = family
        self.resolutions: dict[_Resolution, None] = {}
        self.is_slow = False

    def forget(self, resolution: _Resolution) -> None:
        self.resolutions.pop(resolution, None)
        if not self.resolutions:
            self._lookups.leave(self)


@implementer(IHostResolution)
class _Resolution:
    """The request of one caller."""

    def __init__(
        self, name: str, lookup: _Lookup | None, receiver: IResolutionReceiver, port: int, transport: str
    ) -> None:
        self.name = name
        self._lookup = lookup
        self._receiver = receiver
        self._port = port
        self._transport = transport

    def cancel(self) -> None:
        """The receiver is not called any more."""
        if self._lookup is not None:
            self._lookup.forget(self)

    def complete(self, found: Found) -> None:
        for family, _, _, _, address in found:
            kind: Any = IPv6Address if family == socket.AF_INET6 else IPv4Address
            self._receiver.addressResolved(kind(self._transport, address[0], self._port, *address[2:]))
        self._receiver.resolutionComplete()
