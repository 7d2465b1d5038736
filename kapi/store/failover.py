"""Following the Sentinels: who is the primary now, and whether we would hear of another one.

A subscription to each Sentinel brings ``+switch-master`` and what is held to be down. A primary that most Sentinels have
been silent about for half the time they take to declare it down may have been replaced behind our back, and one that
they hold to be down, or replace though it is not, is about to be; neither confirms anything (docs/adr/0016).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import hiredis
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.request.repeated import Repeated
from kapi.store.address import Address
from kapi.store.connection import Connection, ConnectionFactory
from kapi.store.sentinel import SENTINEL_TIMEOUT, Primary, ask

log = Logger()

#: seconds before the next attempt to reach a Sentinel: one that has come back may lead a fail-over that an operator orders,
#: for which nobody votes, and it takes little more than this until a replica is promoted
_RETRY_SECONDS = 0.1
_LOOK_SECONDS = 0.25  # seconds between questions whether a Sentinel is there
_MAX_CONTACT = 3.0  # seconds of silence after which a Sentinel does not count
_MAX_MESSAGE = 100_000  # bytes; a Sentinel's are some hundred
_CALM_SECONDS = 5.0  # seconds after "-odown", or a vote, until a fail-over that has begun before it would have shown
#: a fail-over under way, whether the primary is down or an operator wants it; only the leader announces the first
_BEGUN = (b"+try-failover", b"+failover-state-select-slave", b"+selected-slave", b"+promoted-slave")
_GIVEN_UP = (
    b"-failover-abort-not-elected",
    b"-failover-abort-no-good-slave",
    b"-failover-abort-slave-timeout",
    b"-failover-abort-master-timeout",
)
#: who leads has the votes of most, so one of those that can be reached says this, of whichever primary, though it cannot
_VOTED = b"+vote-for-leader"
_CHANNELS = (b"+switch-master", b"+odown", b"-odown", _VOTED, *_BEGUN, *_GIVEN_UP)


class Subscription(Connection):
    """A connection that gets messages it has not asked for."""

    on_message: Callable[[bytes, bytes], None] = staticmethod(lambda channel, text: None)
    on_answer: Callable[[], None] = staticmethod(lambda: None)
    _unread = 0  # bytes since the last message

    def dataReceived(self, data: bytes, unpause: bool = False) -> None:
        try:
            self._read(data)
        except Exception as error:  # no RESP, or a message that cannot be understood; who connects again asks
            log.error("a Sentinel said what it should not: {error}", error=str(error) or type(error).__name__)
            self.abort()

    def _read(self, data: bytes) -> None:
        self._unread += len(data)
        self._reader.feed(data)
        reply = self._reader.gets()
        while reply is not False:
            self._unread = 0
            self.received += 1
            self.on_answer()
            if isinstance(reply, list) and len(reply) == 3 and reply[0] == b"message":
                self.on_message(reply[1], reply[2])
            reply = self._reader.gets()
        if self._unread > _MAX_MESSAGE:
            raise ValueError("a message without end")

    def send_command(self, *words: bytes) -> None:
        if not self.gone:
            self.transport.write(hiredis.pack_command(words))  # type: ignore[arg-type]


class Sentinels:
    """``on_primary`` gets host and port whenever a Sentinel names a primary and its configuration is not an old one."""

    def __init__(self, reactor: IReactorTime, address: Address, on_primary: Callable[[tuple[str, int]], None]) -> None:
        self._reactor = reactor
        self._address = address
        self._on_primary = on_primary
        self._last_contact: dict[tuple[str, int], float] = {}  # Sentinel -> reactor seconds
        #: by Sentinel: the primary that it replaces or holds to be down, and until when at least (reactor seconds)
        self._leaving: dict[tuple[str, int], tuple[tuple[str, int], float]] = {}
        self._voted: dict[tuple[str, int], tuple[tuple[str, int], float]] = {}  # likewise
        self._replacing: set[tuple[str, int]] = set()  # the Sentinels that lead a fail-over
        self._primary: tuple[str, int] | None = None  # the one that was named last
        self._epoch = -1
        self._contact = _MAX_CONTACT
        self._failover_timeout = 0.0
        self._connections: dict[tuple[str, int], Subscription] = {}
        self._following: list[Deferred[None]] = []
        self._stopped = False
        self._loop = Repeated(self._look, reactor, "watching the Sentinels")

    def start(self) -> None:
        self._stopped = False
        self._following = [Deferred.fromCoroutine(self._follow(*sentinel)) for sentinel in self._address.hosts]
        self._loop.start(_LOOK_SECONDS)

    def stop(self) -> None:
        self._stopped = True
        self._loop.stop()
        for each in self._following:
            each.addErrback(lambda failure: failure.trap(CancelledError))
            each.cancel()
        for connection in list(self._connections.values()):
            connection.abort()

    def distrust(self, used: tuple[str, int] | None = None) -> str:
        """Why the primary may have been replaced, or is about to be; "" when it is what it seems.

        ``used`` is the one that the store is connected to, if that is another one than was named here.
        """
        now = self._reactor.seconds()
        signs = (*self._leaving.values(), *self._voted.values())
        if any(until > now and place in (self._primary, used) for place, until in signs):
            return "the Sentinels hold the primary to be down, or replace it"
        late = now - self._contact
        reachable = sum(1 for since in self._last_contact.values() if since > late)
        if reachable * 2 <= len(self._address.hosts):
            return f"{reachable} of {len(self._address.hosts)} Sentinels can be reached"
        return ""

    async def _follow(self, host: str, port: int) -> None:
        """Keeps a subscription to one Sentinel."""
        sentinel, problem = (host, port), ""
        while True:
            try:
                subscription = await self._subscribe(host, port)
            except CancelledError:
                raise
            except Exception as error:
                if self._stopped:  # an endpoint says in words of its own that it was cancelled
                    return
                if problem != (problem := str(error) or type(error).__name__):  # it may be away for days
                    log.info("Sentinel {host}:{port}: {error}", host=host, port=port, error=problem)
            else:
                problem = ""
                await subscription.lost
                self._connections.pop(sentinel, None)
                self._lost(sentinel)
            await deferLater(self._reactor, _RETRY_SECONDS, lambda: None)

    async def _subscribe(self, host: str, port: int) -> Subscription:
        """Subscribes first and asks then, so that nothing is missed in between."""
        sentinel, address, reactor = (host, port), self._address, self._reactor
        before = self._leaving.get(sentinel)
        endpoint = address.endpoint(reactor, host, port)
        subscription: Subscription = await endpoint.connect(Factory.forProtocol(Subscription)).addTimeout(
            SENTINEL_TIMEOUT, reactor
        )
        asking: Connection | None = None
        try:
            if address.sentinel_login:  # refused, and no matter, where there is no password
                subscription.send_command(b"AUTH", *(word.encode() for word in address.sentinel_login))
            subscription.on_answer = lambda: self._answered(sentinel)
            subscription.on_message = lambda channel, text: self._announced(sentinel, channel, text)
            subscription.send_command(b"SUBSCRIBE", *_CHANNELS)
            asking = await endpoint.connect(ConnectionFactory()).addTimeout(SENTINEL_TIMEOUT, reactor)
            primary = await Deferred.fromCoroutine(ask(asking, address)).addTimeout(SENTINEL_TIMEOUT, reactor)
            if primary is None:
                raise ValueError(f"does not know {address.master!r}")
            self._connections[sentinel] = subscription
            if self._leaving.get(sentinel) is before:  # nothing was announced since
                self._stays(sentinel)
            self._take(sentinel, primary)
        except BaseException:
            subscription.abort()
            raise
        finally:
            if asking is not None:
                asking.abort()
        return subscription

    def _take(self, sentinel: tuple[str, int], primary: Primary) -> None:
        self._contact = min(_MAX_CONTACT, primary.down_after / 2)
        self._failover_timeout = primary.failover_timeout
        if primary.down:
            self._leaving[sentinel] = primary.place, math.inf
        if primary.epoch >= self._epoch:
            self._epoch = primary.epoch
            self._primary = primary.place
            self._on_primary(primary.place)

    def _stays(self, sentinel: tuple[str, int]) -> None:
        """As far as this Sentinel knows."""
        self._leaving.pop(sentinel, None)
        self._replacing.discard(sentinel)

    def _lost(self, sentinel: tuple[str, int]) -> None:
        """A fail-over that it leads goes on without our hearing of it; for one that it begins now, others have to vote."""
        if sentinel in self._leaving:
            place, until = self._leaving[sentinel]
            if sentinel not in self._replacing:
                until = min(until, self._reactor.seconds() + _CALM_SECONDS)
            self._leaving[sentinel] = place, until

    def _answered(self, sentinel: tuple[str, int]) -> None:
        self._last_contact[sentinel] = self._reactor.seconds()

    def _announced(self, sentinel: tuple[str, int], channel: bytes, text: bytes) -> None:
        words = text.decode("utf-8", "replace").split()
        if channel == b"+switch-master":
            self._voted.pop(sentinel, None)  # that was about this one, whichever it is
            if len(words) == 5 and words[0] == self._address.master:
                place = words[3], int(words[4])
                self._stays(sentinel)
                if place != self._primary:  # else another Sentinel has said so
                    self._epoch += 1  # at least: who still has the one before is not believed
                    log.info("a Sentinel names another primary: {host}:{port}", host=words[3], port=words[4])
                self._primary = place
                self._on_primary(place)
            return
        if channel == _VOTED:
            if self._primary is not None:
                self._voted[sentinel] = self._primary, self._reactor.seconds() + _CALM_SECONDS
            return
        if words[:1] == ["slave"] and "@" in words:  # what happens to a replica of a primary
            words = ["master", *words[words.index("@") + 1 :]]
        if words[:2] != ["master", self._address.master] or len(words) < 4:
            return
        place = words[2], int(words[3])
        if channel in _BEGUN:
            self._replacing.add(sentinel)
            self._leaving[sentinel] = place, self._reactor.seconds() + 2 * self._failover_timeout
        elif channel == b"+odown":
            self._replacing.discard(sentinel)  # of an earlier one; it says so again
            self._leaving[sentinel] = place, math.inf
        elif channel in _GIVEN_UP:
            self._stays(sentinel)
        elif sentinel not in self._replacing:
            # the primary is back, but a fail-over that began meanwhile, here or at another Sentinel, goes on
            self._leaving[sentinel] = place, self._reactor.seconds() + _CALM_SECONDS

    def _look(self) -> None:
        """Asks the Sentinels for a sign of life; who is silent is asked on a new connection."""
        now = self._reactor.seconds()
        for sentinel, connection in list(self._connections.items()):
            if now - self._last_contact.get(sentinel, now) > 2 * SENTINEL_TIMEOUT:
                connection.abort()
            else:
                connection.send_command(b"PING")
