"""The replicas that the primary lists: one that is gone may have been promoted, though no Sentinel has said so (docs/adr/0016).

Of a fail-over that an operator orders at a Sentinel that we cannot hear, nothing shows until the other Sentinels learn of
it, a second or more after the promotion.  But the replica leaves the primary when it is promoted.  So when one that was
listed is not any more, nothing is confirmed until it has said that it is a replica still, or does not listen, or until
Sentinels would have named it the primary.  And as one may leave before it has what another one confirms, all that keep
step are waited for; one that does not is left out after a moment, so that a slow or dead one holds nobody up for long.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.store.address import Address
from kapi.store.connection import Connection, ConnectionFactory, ConnectionGone
from kapi.store.connections import log_in
from kapi.store.reply import Reply

log = Logger()

Place = tuple[str, int]

LAG = 100  # milliseconds that a replica may be behind those that have confirmed
_SLOW_SECONDS = 10.0  # seconds for which one that was further behind is not waited for
_ASK_TIMEOUT = 1.0  # seconds that it may take to say what it is
_ASK_AGAIN_SECONDS = 0.2  # seconds until the next question
#: seconds until a promotion that has happened shows: the Sentinel that leads asks the replica once a second what it is,
#: then informs the others; less than a write may wait for its confirmation
_NEWS_SECONDS = 3.0
#: the same for one that says that it is a primary: the Sentinels name it, or make it a replica again
_PRIMARY_SECONDS = 10.0


class Replicas:
    """``role_of`` asks the server at a place what it is: "master", "slave", or "" when no server listens there."""

    def __init__(self, reactor: IReactorTime, role_of: Callable[[Place], Deferred[str]]) -> None:
        self.expected = 0  # how many keep step
        self._reactor = reactor
        self._role_of = role_of
        self._primary: Place | None = None
        self._listed: set[Place] = set()
        self._gone: dict[Place, float] = {}  # those that may have been promoted, and until when (reactor seconds)
        self._asking: dict[Place, Deferred[None]] = {}
        self._slow_until = -math.inf
        self._refusal = ""

    def follow(self, primary: Place) -> None:
        """What comes from now on is about this primary; what is known of another one does not matter any more."""
        if primary != self._primary:
            self._primary = primary
            self._listed, self._gone = set(), {}
            self.expected, self._slow_until = 0, -math.inf

    def confirmed(self, count: int) -> None:
        """So many have what was written; those that are ``expected`` have been waited for as long as ``LAG``."""
        now = self._reactor.seconds()
        if count < self.expected:
            self._slow_until = now + _SLOW_SECONDS
            self.expected = count
        elif now >= self._slow_until:
            self.expected = count

    def take(self, reply: object) -> None:
        """The primary's answer to ROLE."""
        listed = _listed(reply)
        if listed is None:
            return
        for place in self._listed - listed:
            self._gone[place] = self._reactor.seconds() + _NEWS_SECONDS
            if place not in self._asking:
                self._asking[place] = asking = Deferred.fromCoroutine(self._ask(place))
                asking.addBoth(self._asked, place)
        for place in listed:
            self._gone.pop(place, None)
        if len(listed) < len(self._listed):  # it is not slow, and is waited for again as soon as it is back
            self._slow_until = -math.inf
        self._listed = listed

    def refused(self, failure: Failure) -> None:
        """The primary does not answer ROLE."""
        why = failure.getErrorMessage()
        if why != self._refusal and not failure.check(ConnectionGone):
            self._refusal = why
            log.warn(
                "an ordered fail-over may lose writes: the primary does not say which replicas it has: {why}", why=why
            )

    def doubt(self) -> str:
        """Why the primary may have been replaced; "" when nothing speaks for it."""
        if not self._gone:
            return ""
        now = self._reactor.seconds()
        for place in [place for place, until in self._gone.items() if until <= now]:
            del self._gone[place]
        return "".join(
            f"the replica {host}:{port} is gone, and may have been promoted" for host, port in [*self._gone][:1]
        )

    def stop(self) -> None:
        self._gone.clear()
        for asking in list(self._asking.values()):
            asking.cancel()

    def _asked(self, _: object, place: Place) -> None:
        del self._asking[place]

    async def _ask(self, place: Place) -> None:
        """Until it has said what it is, and as long as that matters; one that is promoted ends all its connections."""
        primary, logged = self._primary, ""
        while primary == self._primary and self._gone.get(place, 0.0) > self._reactor.seconds():
            try:
                role = await self._role_of(place).addTimeout(_ASK_TIMEOUT, self._reactor)
            except CancelledError:
                raise
            except Exception as error:
                if place not in self._gone:  # an endpoint says in words of its own that it was cancelled
                    return
                if logged != (logged := str(error) or type(error).__name__):
                    log.info("the replica {host}:{port} is gone: {why}", host=place[0], port=place[1], why=logged)
            else:
                if role != "master":
                    if primary == self._primary:
                        self._gone.pop(place, None)
                    return
                if logged != (logged := role) and place in self._gone:
                    self._gone[place] = self._reactor.seconds() + _PRIMARY_SECONDS
            await deferLater(self._reactor, _ASK_AGAIN_SECONDS, lambda: None)


def _listed(reply: Reply) -> set[Place] | None:
    """The replicas in an answer to ROLE; None when it is no primary's: then the fence fails, for it is a write."""
    try:
        role, _, replicas = reply
        return {(host.decode(), int(port)) for host, port, _ in replicas} if role == b"master" else None
    except (TypeError, ValueError, AttributeError):
        return None


async def role_at(reactor: IReactorTime, address: Address, place: Place) -> str:
    """What the server at a place says it is: "master", "slave"; "" when nobody listens there.

    Raises UnsuitableStore, ConnectionGone, txredisapi.ResponseError, and what else connecting can fail with.
    """
    try:
        connection: Connection = await address.endpoint(reactor, *place).connect(ConnectionFactory())
    except ConnectionRefusedError:
        return ""
    try:
        await log_in(connection, address)
        role, *_ = await connection.execute_command("ROLE")
        return str(role, "ascii", "replace")
    finally:
        connection.abort()
