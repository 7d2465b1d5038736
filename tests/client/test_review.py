"""After which failures a webhook is asked again to judge a review."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone, ConnectionLost, ConnectionRefusedError, DNSLookupError
from twisted.internet.task import Clock
from twisted.web.http_headers import Headers

from kapi.client.review import ReviewClient, ReviewError
from kapi.machinery.tree import Object
from kapi.wire.transport import Response

REVIEW: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t"}}


class Webhook:
    """Fails once in the way that is given, then answers."""

    url = "https://webhook/?timeout=30s"

    def __init__(self, failure: Response | Exception) -> None:
        self._failure = failure
        self.asked = 0

    async def post(self, body: bytes) -> Response:
        self.asked += 1
        if self.asked > 1:
            return Response(200, Headers(), b'{"status": {"authenticated": true}}')
        if isinstance(self._failure, Exception):
            raise self._failure
        return self._failure


def shown(failure: Response | Exception) -> str:
    return type(failure).__name__ if isinstance(failure, Exception) else str(failure.code)


def answered(status: int, **headers: str) -> Response:
    return Response(status, Headers({name.replace("_", "-"): [value] for name, value in headers.items()}), b"")


def ask(failure: Response | Exception) -> tuple[Webhook, Deferred[Object], Clock]:
    clock, webhook = Clock(), Webhook(failure)
    client = ReviewClient(clock, webhook, "TokenReview", "the webhook")  # type: ignore[arg-type]
    return webhook, Deferred.fromCoroutine(client.status(REVIEW)), clock


@pytest.mark.parametrize(
    "failure",
    [
        *map(answered, (429, 500, 501, 502, 504)),
        answered(503, Retry_After="1"),
        ConnectionLost(),
    ],
    ids=shown,
)
def test_what_may_pass_is_asked_again(failure: Response | Exception) -> None:
    webhook, judged, clock = ask(failure)
    assert not judged.called
    clock.advance(0.5)
    assert webhook.asked == 2
    judged.addCallback(lambda status: status["authenticated"])
    assert judged.result is True


@pytest.mark.parametrize(
    "failure",
    [
        *map(answered, (302, 400, 401, 403, 404, 503)),
        answered(503, Retry_After="soon"),
        ConnectionRefusedError(),
        ConnectionDone(),
        DNSLookupError(),
    ],
    ids=shown,
)
def test_the_rest_is_an_error_at_once(failure: Response | Exception) -> None:
    webhook, judged, clock = ask(failure)
    judged.addErrback(lambda why: why.trap(ReviewError))
    assert judged.called and judged.result is ReviewError
    assert webhook.asked == 1 and not clock.getDelayedCalls()
