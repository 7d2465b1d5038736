"""A request to a configured server and its answer, as client-go and Go's http.Client make them: redirects are followed, an answer
that asks for a retry is retried, and the size of answers and the time for all of it are bounded.

Upstream: client-go ``rest/request.go`` and ``rest/with_retry.go``; Go's ``net/http/client.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn
from urllib.parse import urljoin, urlsplit

from hyperlink import EncodedURL
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from kapi.client import metrics
from kapi.client.errors import retry_after
from kapi.process.reactor import Reactor
from kapi.wire.agent import Agent
from kapi.wire.answer import AnswerTooLarge as AnswerTooLarge
from kapi.wire.answer import BadAnswer
from kapi.wire.answer import BrokenBody as BrokenBody
from kapi.wire.collected import Collected
from kapi.wire.transport import Response

_KEEPS_BODY = {301: False, 302: False, 303: False, 307: True, 308: True}  # the redirects
_MAX_REQUESTS = 10  # of a chain of redirects
_MAX_RETRIES = 10


class _BodyCancelled(CancelledError):
    """The request was cancelled after the answer's head had come."""


class Exchange:
    """Sends requests.  ``agent_of`` has the connections for a URL; it raises ValueError for a URL that must not be asked."""

    def __init__(self, reactor: Reactor, agent_of: Callable[[str], Agent], limit: int) -> None:
        """``limit``: of an answer, in bytes."""
        self._reactor, self._agent_of, self._limit = reactor, agent_of, limit

    async def request(
        self,
        method: str,
        url: str | EncodedURL,
        body: bytes | None,
        headers: Headers | Mapping[bytes, list[bytes]],
        timeout: float,
        *,
        retries: bool,
    ) -> Response:
        """The answer.  ``timeout`` in seconds is for all of it; ``retries``: whether an answer with Retry-After is retried.

        Raises the errors of the connection, AnswerTooLarge, BrokenBody and TimeoutError.
        """
        text = url if isinstance(url, str) else url.to_text()
        host = urlsplit(text).netloc.rpartition("@")[2]
        made = headers if isinstance(headers, Headers) else Headers(headers)
        running = Deferred.fromCoroutine(self._retried(method, url, text, host, body, made, retries))
        running.addTimeout(timeout, self._reactor, _timed_out)
        began: float = self._reactor.seconds()
        answer: Response | None = None
        try:
            answer = await running
            return answer
        finally:
            took = self._reactor.seconds() - began
            metrics.finished(method, host, took, None if answer is None else len(answer.body))

    async def _retried(
        self,
        method: str,
        url: str | EncodedURL,
        text: str,
        host: str,
        body: bytes | None,
        headers: Headers,
        retries: bool,
    ) -> Response:
        for retry in range(_MAX_RETRIES + 1):
            code: int | None = None
            try:
                answer = await self._followed(method, url, text, body, headers)
                code = answer.code
            finally:
                metrics.attempted(method, host, code, len(body or b""), retry)
            wait = retry_after(answer) if retries and (code == 429 or code >= 500) else None
            if wait is None or retry == _MAX_RETRIES:
                break
            await deferLater(self._reactor, wait, lambda: None)
        return answer

    async def _followed(
        self, method: str, url: str | EncodedURL, text: str, body: bytes | None, headers: Headers
    ) -> Response:
        for _ in range(_MAX_REQUESTS):
            answer = await self._one(method, url, text, body, headers)
            keeps_body, place = _KEEPS_BODY.get(answer.code), answer.header(b"Location")
            if keeps_body is None or not place:
                return answer
            before, url = text, urljoin(text, place)
            text = url
            headers = headers.copy()
            headers.setRawHeaders("Referer", [before])
            if not keeps_body:
                method, body = "GET", None
                headers.removeHeader("Content-Type")
            if urlsplit(before).hostname != urlsplit(text).hostname:
                headers.removeHeader("Authorization")
        raise BadAnswer(f"stopped after {_MAX_REQUESTS} redirects")

    async def _one(
        self, method: str, url: str | EncodedURL, text: str, body: bytes | None, headers: Headers
    ) -> Response:
        response = await self._agent_of(text).ask(method, url, body, headers)
        collected = Collected(self._limit)
        response.deliverBody(collected)
        try:
            return Response(response.code, response.headers, await collected.done)
        except CancelledError:
            raise _BodyCancelled from None
        except AnswerTooLarge:
            raise
        except Exception as problem:
            raise BrokenBody(problem) from problem


def _timed_out(cancelled: object, timeout: float) -> NoReturn:
    """Replaces the error of the cancelled request."""
    if isinstance(cancelled, Failure) and cancelled.check(_BodyCancelled):
        raise BrokenBody("context deadline exceeded")
    raise TimeoutError(timeout, "Deferred")
