"""A clock that tests can advance: time of day and timers of one logical cluster.

Upstream: none in a server; its unit tests have ``k8s.io/utils/clock/testing``.  Advancing it makes every timer fire earlier by
the same time, so that due timers fire in the next turns of the reactor.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from kapi.authorization.forbidden import require_masters
from kapi.endpoints.body import raw_body
from kapi.machinery import status
from kapi.machinery.golang import parse_duration
from kapi.machinery.time import stamp
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.routing import Routes

PATH = "/kapi/clock"
MAX_SECONDS = 10 * 365 * 86400.0  # ahead of the process's clock; longer than any expiry


@implementer(IDelayedCall)
class MovedCall:
    """A delayed call that fires earlier when its clock is advanced (IDelayedCall)."""

    def __init__(self, clock: MovedClock, delay: float, function: Callable[[], object]) -> None:
        self._clock = clock
        self._function = function
        self.call = clock.reactor.callLater(delay, self._run)
        clock.calls.add(self)

    def _run(self) -> None:
        self._clock.calls.discard(self)
        self._function()

    def active(self) -> bool:
        return bool(self.call.active())

    def cancel(self) -> None:
        self._clock.calls.discard(self)
        self.call.cancel()

    def getTime(self) -> float:
        return float(self.call.getTime()) + self._clock.ahead

    def reset(self, seconds: float) -> None:
        self.call.reset(seconds)

    def delay(self, seconds: float) -> None:
        self.call.delay(seconds)


@implementer(IReactorTime)
class MovedClock:
    """Replaces the reactor for code with timers; everything else is delegated to it.  ``clock`` gives unix seconds."""

    def __init__(self, reactor: IReactorTime, clock: Callable[[], float]) -> None:
        self.reactor = reactor
        self.ahead = 0.0  # seconds
        self.calls: set[MovedCall] = set()
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reactor, name)

    def time(self) -> float:
        """Unix seconds."""
        return self._clock() + self.ahead

    def seconds(self) -> float:
        return float(self.reactor.seconds()) + self.ahead

    def callLater(self, delay: float, callable: Callable[..., object], *args: object, **kwargs: object) -> MovedCall:
        return MovedCall(self, delay, lambda: callable(*args, **kwargs))

    def getDelayedCalls(self) -> list[IDelayedCall]:
        return list(self.calls)

    def advance(self, seconds: float) -> None:
        """Advances the clock.  Raises ValueError for a negative step, and beyond MAX_SECONDS."""
        if seconds < 0 or self.ahead + seconds > MAX_SECONDS:
            raise ValueError(f"{seconds:g} seconds: the clock goes ahead, and at most {MAX_SECONDS:g} seconds")
        self.ahead += seconds
        now = self.reactor.seconds()
        for moved in list(self.calls):
            moved.call.reset(max(0.0, moved.call.getTime() - now - seconds))


class ClockEndpoint:
    """GET answers the time; POST with ``{"advance": "90s"}`` advances it.  ``sweep`` deletes expired objects."""

    app = Routes()

    def __init__(self, clock: MovedClock, sweep: Callable[[], Awaitable[object]]) -> None:
        self._clock = clock
        self._sweep = sweep

    @app.route(PATH, methods=("GET", "POST"), listed=False)
    async def answer(self, ctx: RequestContext) -> Response:
        """Raises StatusError."""
        require_masters(ctx.user, "the clock is for members of system:masters")
        if ctx.method == "POST":
            try:
                self._clock.advance(parse_duration(str(orjson.loads(raw_body(ctx))["advance"])))
            except (ValueError, KeyError, TypeError) as error:
                raise status.bad_request(f'expected {{"advance": "90s"}}: {error}') from None
            await self._sweep()
        return Response(200, orjson.dumps({"now": stamp(int(self._clock.time())), "ahead": self._clock.ahead}))
