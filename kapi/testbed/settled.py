"""``GET /kapi/settled``: answers when all work is done, so that tests need not sleep.

That is the case when the caches have the requested revision, every watch has been sent its events, no other request is being
answered, and the controllers in the process have nothing to do now or within a second.  It does not wait for work that is due
later (the resync of a quota, the end of a Job's life), or that keeps failing.
"""

from __future__ import annotations

import orjson
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from kapi.filters.shutdown import RequestWaitGroup
from kapi.machinery import status
from kapi.machinery.golang import NumberError, parse_duration, parse_uint, quote
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.runtime import sliced
from kapi.serving.routing import Routes
from kapi.watchcache.split_caches import AnyCaches

PATH = "/kapi/settled"
DEFAULT_TIMEOUT, MAX_TIMEOUT = 10.0, 50.0  # seconds
BUSY_WITHIN_SECONDS = 1.1  # work that is due so soon counts: a deleted namespace is emptied after 1 s
_MARGIN_SECONDS = 0.1  # before the request's own deadline, whose error would not have the unfinished work
_POLL_SECONDS = 0.01  # between two checks


class Settled:
    """Answers when all work is done.  ``requests`` counts the requests under way."""

    app = Routes()

    def __init__(self, caches: AnyCaches, requests: RequestWaitGroup, reactor: IReactorTime) -> None:
        self._caches = caches
        self._requests = requests
        self._reactor = reactor
        self._waiting = 0  # requests to this very path

    @app.route(PATH, methods=("GET",), listed=False)
    async def handle(self, ctx: RequestContext) -> Response:
        """Waits until all work is done.  Raises BadRequest, and Timeout with the unfinished work."""
        revision = _revision(ctx)
        end = self._reactor.seconds() + min(_seconds(ctx), MAX_TIMEOUT) - _MARGIN_SECONDS
        self._waiting += 1
        try:
            waiting = self._caches.wait_fresh()
            if waiting is not None:
                await waiting
            quiet = False
            while True:
                why = self.unfinished(revision)
                if not why and quiet:  # two checks in a row, with a turn of the reactor in between
                    return Response(200, orjson.dumps({"revision": self._caches.revision}))
                quiet = not why
                if why and self._reactor.seconds() >= end:
                    raise status.timeout(f"not settled: {why}")
                await deferLater(self._reactor, 0 if quiet else _POLL_SECONDS)
        finally:
            self._waiting -= 1

    def unfinished(self, revision: int) -> str:
        """The unfinished work; "" when there is none."""
        if self._caches.revision < revision:
            return f"revision {self._caches.revision} is older than {revision}"
        others = self._requests.count - self._waiting
        if others > 0:
            return f"{others} requests are being answered"
        if sliced.busy(self._reactor, BUSY_WITHIN_SECONDS):
            return "controllers are busy"
        return self._caches.behind()


def _revision(ctx: RequestContext) -> int:
    text = ctx.first("revision") or "0"
    try:
        return parse_uint(text)
    except NumberError as error:
        raise status.bad_request(f"revision: {quote(text)}: {error}") from None


def _seconds(ctx: RequestContext) -> float:
    """The time-out in seconds; the deadline filter has refused invalid ones."""
    asked = parse_duration(ctx.first("timeout") or "0")
    return asked if asked > 0 else DEFAULT_TIMEOUT
