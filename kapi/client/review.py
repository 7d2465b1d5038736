"""Sends reviews to a webhook: TokenReview, SubjectAccessReview (upstream: apiserver ``util/webhook``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson
from twisted.internet.defer import CancelledError, TimeoutError
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.internet.interfaces import IReactorTime

from kapi.client.retry import Unavailable, is_passing, with_backoff
from kapi.client.typed import WrongType, boolean, list_of, string, string_list_map, struct
from kapi.machinery.tree import Object, Tree
from kapi.wire.answer import AnswerTooLarge
from kapi.wire.network_errors import describe_request

if TYPE_CHECKING:
    from kapi.client.endpoint_client import EndpointClient

_HEADERS = {"Content-Type": "application/json"}
_USER = struct("v1.UserInfo", username=string, uid=string, groups=list_of(string), extra=string_list_map)
_STATUS = {
    "TokenReview": struct(
        "v1.TokenReviewStatus", authenticated=boolean, user=_USER, audiences=list_of(string), error=string
    ),
    "SubjectAccessReview": struct(
        "v1.SubjectAccessReviewStatus", allowed=boolean, denied=boolean, reason=string, evaluationError=string
    ),
}
#: called after every attempt with "success", "error", "timeout" or "canceled", and the seconds it took
Observer = Callable[[str, float], None]


class ReviewError(Exception):
    """There is no usable answer.  ``result`` is the text for an Observer; the message contains nothing of the review."""

    def __init__(self, text: str, result: str = "error") -> None:
        super().__init__(text)
        self.result = result


class ReviewClient:
    """``kind`` of the reviews; ``what``: the webhook's name in errors; ``first_delay``: seconds before a second attempt."""

    def __init__(
        self,
        reactor: IReactorTime,
        client: EndpointClient,
        kind: str,
        what: str,
        first_delay: float = 0.5,
        observe: Observer = lambda result, seconds: None,
    ) -> None:
        self._reactor = reactor
        self._client = client
        self.kind, self.what = kind, what
        self._first_delay = first_delay
        self._observe = observe

    async def status(self, review: Object) -> Object:
        """The ``status`` of the answer.  Raises ReviewError when an attempt was not answered in time, or five have failed."""
        result = "error"

        async def attempt() -> Object:
            nonlocal result
            started, result = time.perf_counter(), "canceled"
            try:
                status = await self._ask(review)
                result = "success"
                return status
            except CancelledError:
                raise
            except (TimeoutError, ConnectTimeout):
                result = "timeout"  # not tried again: the request that needs the decision has waited long enough
                raise ReviewError(f"{self.what} did not answer in time", result) from None
            except (Unavailable, ReviewError) as error:
                result = "timeout" if str(error).endswith(" 504") else "error"
                raise
            except AnswerTooLarge:
                result = "error"
                raise ReviewError(f"{self.what}: the answer is too large") from None
            except Exception as error:
                result, text = "error", describe_request(error, "POST", self._client.url)
                raise Unavailable(text) if is_passing(error) else ReviewError(text) from None
            finally:
                self._observe(result, time.perf_counter() - started)

        try:
            return await with_backoff(self._reactor, attempt, delay=self._first_delay)
        except Unavailable as error:
            raise ReviewError(str(error), result) from None

    async def _ask(self, review: Object) -> Object:
        answer = await self._client.request("POST", "", orjson.dumps(review), _HEADERS)
        if not 200 <= answer.status < 300:
            text = f"{self.what} answered {answer.status}"
            raise Unavailable(text) if is_passing(answer) else ReviewError(text)
        try:
            document: Tree = orjson.loads(answer.body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise ReviewError(f"{self.what}: the answer is no {self.kind}")
        for key in ("apiVersion", "kind"):
            if document.get(key) not in (None, "", review[key]):
                text = f"{document[key]!r} where {key} {review[key]!r} was asked for"
                raise ReviewError(f"{self.what}: the answer is no {self.kind}: {text}")
        status = document.get("status")
        if status is None:
            status = {}
        try:
            _STATUS[self.kind](status, f"{self.kind}.status")
        except WrongType as error:
            raise ReviewError(f"{self.what}: the answer is no {self.kind}: {error}") from None
        answered: Object = status
        return answered
