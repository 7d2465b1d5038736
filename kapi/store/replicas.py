"""The replicas that the primary lists: one that disappears may have been promoted without an announcement (docs/adr/0016).

An operator may order a fail-over at a Sentinel that we cannot reach.  The other Sentinels learn of it a second or more after
the promotion.  But the promoted replica disconnects from the primary.  So when a replica disappears from the primary's list,
nothing is confirmed until it tells that it is still a replica, or does not listen, or until the Sentinels would have announced
it.

The promoted replica may also lack a write that another replica has confirmed.  So a write waits for all replicas that keep up.
One that does not is left out after a short time, so that a slow or dead replica does not delay writes for long.
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
from kapi.store.entries import Reply

log = Logger()

Place = tuple[str, int]

MAX_LAG_MS = 100  # milliseconds that a write waits for the other replicas after enough have confirmed it
_SLOW_SECONDS = 10.0  # writes do not wait for a replica that was slower, for so long
_ASK_TIMEOUT = 1.0  # seconds for a server to tell its role
_ASK_AGAIN_SECONDS = 0.2  # until its role is requested again
#: after so long a promotion would have been announced: the leading Sentinel requests the replica's role once a second, then
#: informs the others.  Must be less than the time that a write may wait for its confirmation
_NEWS_SECONDS = 3.0
#: the same for a server that says it is a primary: the Sentinels announce it, or make it a replica again
_PRIMARY_SECONDS = 10.0


class Replicas:
    """``role_of`` requests the role of the server at a place: "master", "slave", or "" when no server listens there."""

    def __init__(self, reactor: IReactorTime, role_of: Callable[[Place], Deferred[str]]) -> None:
        self.expected = 0  # how many keep up, and are waited for
        self._reactor = reactor
        self._role_of = role_of
        self._primary: Place | None = None
        self._listed: set[Place] = set()
        self._gone: dict[Place, float] = {}  # replicas that may have been promoted, and until when (reactor seconds)
        self._asking: dict[Place, Deferred[None]] = {}
        self._slow_until = -math.inf
        self._refusal = ""

    def follow(self, primary: Place) -> None:
        """Sets the primary whose replicas are followed; forgets those of a former one."""
        if primary != self._primary:
            self._primary = primary
            self._listed, self._gone = set(), {}
            self.expected, self._slow_until = 0, -math.inf

    def confirmed(self, count: int) -> None:
        """Called with how many replicas have the writes, after waiting up to ``MAX_LAG_MS`` for the ``expected`` number."""
        now = self._reactor.seconds()
        if count < self.expected:
            self._slow_until = now + _SLOW_SECONDS
            self.expected = count
        elif now >= self._slow_until:
            self.expected = count

    def take(self, reply: object) -> None:
        """Handles the primary's reply to ROLE."""
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
        if len(listed) < len(self._listed):  # it is gone and not slow: wait for it again as soon as it is back
            self._slow_until = -math.inf
        self._listed = listed

    def refused(self, failure: Failure) -> None:
        """Called when ROLE fails."""
        why = failure.getErrorMessage()
        if why != self._refusal and not failure.check(ConnectionGone):
            self._refusal = why
            log.warn(
                "an ordered fail-over may lose writes: the primary does not say which replicas it has: {why}", why=why
            )

    def doubt(self) -> str:
        """Why the primary may have been replaced; "" when there is no sign of that."""
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
        """Requests the role of a replica that is gone until it answers, or its role does not matter any more.

        A server that is promoted ends all its connections, so errors are expected.
        """
        primary, logged = self._primary, ""
        while primary == self._primary and self._gone.get(place, 0.0) > self._reactor.seconds():
            try:
                role = await self._role_of(place).addTimeout(_ASK_TIMEOUT, self._reactor)
            except CancelledError:
                raise
            except Exception as error:
                if place not in self._gone:  # endpoints have errors of their own for a cancelled connection
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
    """The replicas in a reply to ROLE; None when the server is no primary, which the fence, being a write, finds out."""
    try:
        role, _, replicas = reply
        return {(host.decode(), int(port)) for host, port, _ in replicas} if role == b"master" else None
    except (TypeError, ValueError, AttributeError):
        return None


async def role_at(reactor: IReactorTime, address: Address, place: Place) -> str:
    """The role of the server at a place: "master" or "slave"; "" when no server listens there.

    Raises UnsuitableStore, ConnectionGone, txredisapi.ResponseError, and all errors of connecting.
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
