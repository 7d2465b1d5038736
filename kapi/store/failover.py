"""Follows the Sentinels: which server is the primary, and whether a new primary would be announced to this process.

To find the primary all Sentinels are asked, and the answer with the newest configuration counts.  A subscription to each
Sentinel brings ``+switch-master`` and messages about servers that are down.  Nothing may be confirmed (docs/adr/0016) in two
cases.  The primary may have been replaced without our knowledge, when most Sentinels have been silent for half the time after
which they declare a server down.  And it is about to be replaced, when a Sentinel declares it down or has started a fail-over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import hiredis
import txredisapi
from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.process.driver import trap_cancelled
from kapi.process.timers import Repeated
from kapi.store.address import Address
from kapi.store.connection import Connection, ConnectionFactory
from kapi.store.entries import Reply
from kapi.store.errors import StoreUnavailable

SENTINEL_TIMEOUT = 2.0  # seconds for a Sentinel to answer
log = Logger()
#: before the next attempt to reach a Sentinel.  It is short because a Sentinel that is back may be ordered by an operator to
#: start a fail-over; that needs no votes, and promotes a replica after little more time than this
_RETRY_SECONDS = 0.1
_PING_SECONDS = 0.25  # between PINGs to the Sentinels
_MAX_CONTACT = 3.0  # seconds of silence after which a Sentinel counts as unreachable
_MAX_MESSAGE = 100_000  # bytes; Sentinels send some hundred
_CALM_SECONDS = 5.0  # after "-odown" or a vote: by then an earlier fail-over would have been announced
#: announcements of a running fail-over, automatic or ordered by an operator; only the leading Sentinel sends the first one
_BEGUN = (b"+try-failover", b"+failover-state-select-slave", b"+selected-slave", b"+promoted-slave")
_GIVEN_UP = (
    b"-failover-abort-not-elected",
    b"-failover-abort-no-good-slave",
    b"-failover-abort-slave-timeout",
    b"-failover-abort-master-timeout",
)
#: a leader needs the votes of most Sentinels.  So one of the reachable ones announces its vote, even when the leader cannot be
#: reached; the announcement does not name the primary
_VOTED = b"+vote-for-leader"
_CHANNELS = (b"+switch-master", b"+odown", b"-odown", _VOTED, *_BEGUN, *_GIVEN_UP)


class Primary(NamedTuple):
    """A Sentinel's answer; ordered by the epoch of its configuration."""

    epoch: int
    host: str
    port: int
    down: bool  # whether enough Sentinels consider it down, or it is being replaced
    down_after: float  # seconds of silence after which a Sentinel considers it down
    failover_timeout: float = 180.0  # seconds for a step of a fail-over

    @property
    def place(self) -> tuple[str, int]:
        return self.host, self.port


async def find_primary(reactor: IReactorTime, address: Address) -> tuple[str, int]:
    """The host and port of the primary.  Raises StoreUnavailable when no Sentinel knows it."""
    asked = [
        defer.Deferred.fromCoroutine(_ask(reactor, address, host, port)).addTimeout(SENTINEL_TIMEOUT, reactor)
        for host, port in address.hosts
    ]
    found: list[Primary] = []
    problems: list[str] = []
    answers: list[tuple[bool, Reply]] = await defer.DeferredList(asked, consumeErrors=True)
    for (host, port), (fine, result) in zip(address.hosts, answers, strict=True):
        if not fine:
            problems.append(f"{host}:{port}: {_why(result, address.tls)}")
        elif result is None:
            problems.append(f"{host}:{port}: does not know {address.master!r}")
        else:
            found.append(result)
    if not found:
        raise StoreUnavailable(f"{address}: no primary found: {'; '.join(problems)}")
    return max(found).place


def _why(failure: Failure, tls: bool) -> str:
    if failure.check(defer.TimeoutError):
        return f"no answer for {SENTINEL_TIMEOUT:.0f} s" + (
            "; if it does not speak TLS, use redis+sentinel://" if tls else ""
        )
    return failure.getErrorMessage() or type(failure.value).__name__


async def _ask(reactor: IReactorTime, address: Address, host: str, port: int) -> Primary | None:
    connection: Connection = await address.endpoint(reactor, host, port).connect(ConnectionFactory())
    try:
        return await ask(connection, address)
    finally:
        connection.abort()


async def ask(connection: Connection, address: Address) -> Primary | None:
    """The answer of the Sentinel at the other end, after AUTH if that is required; None when it does not know the service.

    Raises ConnectionGone, txredisapi.ResponseError.
    """
    try:
        reply = await connection.execute_command("SENTINEL", "MASTER", address.master)
    except txredisapi.ResponseError as error:
        if str(error).startswith("ERR No such master"):
            return None
        if str(error).startswith("ERR unknown command"):
            raise StoreUnavailable("it is not a Sentinel: redis:// is for the server itself") from None
        login = address.sentinel_login
        if not str(error).startswith("NOAUTH") or not login:
            raise
        await connection.execute_command("AUTH", *login)
        return await ask(connection, Address(hosts=address.hosts, master=address.master))
    fields = dict(zip(reply[::2], reply[1::2], strict=False))
    return Primary(
        int(fields.get(b"config-epoch", 0)),
        fields[b"ip"].decode(),
        int(fields[b"port"]),
        any(flag in fields.get(b"flags", b"") for flag in (b"o_down", b"failover_in_progress")),
        int(fields.get(b"down-after-milliseconds", 30000)) / 1000,
        int(fields.get(b"failover-timeout", 180000)) / 1000,
    )


class Subscription(Connection):
    """A connection that receives published messages."""

    on_message: Callable[[bytes, bytes], None] = staticmethod(lambda channel, text: None)
    on_answer: Callable[[], None] = staticmethod(lambda: None)
    _unread = 0  # bytes since the last message

    def dataReceived(self, data: bytes, unpause: bool = False) -> None:
        try:
            self._read(data)
        except Exception as error:  # not RESP, or an invalid message; a new connection asks for the present state
            if self.received:  # else it is no Sentinel: the failed attempt to subscribe logs that once
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
    """``on_primary`` gets host and port whenever a Sentinel names a primary, unless its configuration is outdated."""

    def __init__(self, reactor: IReactorTime, address: Address, on_primary: Callable[[tuple[str, int]], None]) -> None:
        self._reactor = reactor
        self._address = address
        self._on_primary = on_primary
        self._last_contact: dict[tuple[str, int], float] = {}  # Sentinel -> reactor seconds
        #: by Sentinel: the primary that it replaces or holds to be down, and until when at least (reactor seconds)
        self._leaving: dict[tuple[str, int], tuple[tuple[str, int], float]] = {}
        #: by Sentinel that has voted for a leader: the primary then, and until when that matters (reactor seconds)
        self._voted: dict[tuple[str, int], tuple[tuple[str, int], float]] = {}
        self._replacing: set[tuple[str, int]] = set()  # the Sentinels that lead a fail-over
        self._primary: tuple[str, int] | None = None  # the one that was named last
        self._epoch = -1
        self._contact = _MAX_CONTACT
        self._failover_timeout = 0.0
        self._connections: dict[tuple[str, int], Subscription] = {}
        self._following: list[Deferred[None]] = []
        self._stopped = False
        self._loop = Repeated(self._ping, reactor, "watching the Sentinels")

    def start(self) -> None:
        self._stopped = False
        self._following = [Deferred.fromCoroutine(self._follow(*sentinel)) for sentinel in self._address.hosts]
        self._loop.start(_PING_SECONDS)

    def stop(self) -> None:
        self._stopped = True
        self._loop.stop()
        for each in self._following:
            each.addErrback(trap_cancelled)
            each.cancel()
        for connection in list(self._connections.values()):
            connection.abort()

    def distrust(self, used: tuple[str, int] | None = None) -> str:
        """Why the primary may have been replaced, or is about to be; "" when there is no sign of that.

        ``used`` is the server that the store is connected to, which may be another one than the Sentinels named last.
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
        """Keeps a subscription to one Sentinel, connecting again whenever it is lost."""
        sentinel, problem = (host, port), ""
        while True:
            try:
                subscription = await self._subscribe(host, port)
            except CancelledError:
                raise
            except Exception as error:
                if self._stopped:  # endpoints have errors of their own for a cancelled connection
                    return
                if problem != (problem := str(error) or type(error).__name__):  # logged once: it may be away for days
                    log.info("Sentinel {host}:{port}: {error}", host=host, port=port, error=problem)
            else:
                problem = ""
                await subscription.lost
                self._connections.pop(sentinel, None)
                self._lost(sentinel)
            await deferLater(self._reactor, _RETRY_SECONDS, lambda: None)

    async def _subscribe(self, host: str, port: int) -> Subscription:
        """Subscribes, then requests the present primary: in this order no change is missed."""
        sentinel, address, reactor = (host, port), self._address, self._reactor
        before = self._leaving.get(sentinel)
        endpoint = address.endpoint(reactor, host, port)
        subscription: Subscription = await endpoint.connect(Factory.forProtocol(Subscription)).addTimeout(
            SENTINEL_TIMEOUT, reactor
        )
        asking: Connection | None = None
        try:
            if address.sentinel_login:  # a Sentinel without a password refuses AUTH, which does no harm
                subscription.send_command(b"AUTH", *(word.encode() for word in address.sentinel_login))
            subscription.on_answer = lambda: self._answered(sentinel)
            subscription.on_message = lambda channel, text: self._announced(sentinel, channel, text)
            subscription.send_command(b"SUBSCRIBE", *_CHANNELS)
            asking = await endpoint.connect(ConnectionFactory()).addTimeout(SENTINEL_TIMEOUT, reactor)
            primary = await Deferred.fromCoroutine(ask(asking, address)).addTimeout(SENTINEL_TIMEOUT, reactor)
            if primary is None:
                raise ValueError(f"does not know {address.master!r}")
            self._connections[sentinel] = subscription
            if self._leaving.get(sentinel) is before:  # nothing has been announced meanwhile
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
        """Notes that, as far as this Sentinel knows, the primary is not being replaced."""
        self._leaving.pop(sentinel, None)
        self._replacing.discard(sentinel)

    def _lost(self, sentinel: tuple[str, int]) -> None:
        """Called when a subscription is lost.  A fail-over led by this Sentinel goes on; a new one needs votes of the others."""
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
            self._voted.pop(sentinel, None)  # the fail-over that the vote was about has ended
            if len(words) == 5 and words[0] == self._address.master:
                place = words[3], int(words[4])
                self._stays(sentinel)
                if place != self._primary:  # else another Sentinel has announced it already
                    self._epoch += 1  # at least by one: Sentinels that still have the former epoch are ignored
                    log.info("a Sentinel names another primary: {host}:{port}", host=words[3], port=words[4])
                self._primary = place
                self._on_primary(place)
            return
        if channel == _VOTED:
            if self._primary is not None:
                self._voted[sentinel] = self._primary, self._reactor.seconds() + _CALM_SECONDS
            return
        if words[:1] == ["slave"] and "@" in words:  # about a replica, followed by its primary
            words = ["master", *words[words.index("@") + 1 :]]
        if words[:2] != ["master", self._address.master] or len(words) < 4:
            return
        place = words[2], int(words[3])
        if channel in _BEGUN:
            self._replacing.add(sentinel)
            self._leaving[sentinel] = place, self._reactor.seconds() + 2 * self._failover_timeout
        elif channel == b"+odown":
            self._replacing.discard(sentinel)  # an earlier fail-over has ended; a new one is announced again
            self._leaving[sentinel] = place, math.inf
        elif channel in _GIVEN_UP:
            self._stays(sentinel)
        elif sentinel not in self._replacing:
            # the primary is up again, but a fail-over may have begun meanwhile at this or another Sentinel
            self._leaving[sentinel] = place, self._reactor.seconds() + _CALM_SECONDS

    def _ping(self) -> None:
        """Sends PING to each Sentinel; ends silent connections, which are then made again."""
        now = self._reactor.seconds()
        for sentinel, connection in list(self._connections.items()):
            if now - self._last_contact.get(sentinel, now) > 2 * SENTINEL_TIMEOUT:
                connection.abort()
            else:
                connection.send_command(b"PING")
