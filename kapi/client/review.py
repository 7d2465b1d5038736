"""Sends reviews to a webhook: TokenReview, SubjectAccessReview, ImageReview (upstream: apiserver ``util/webhook``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.internet.interfaces import IReactorTime

from kapi.client.answers import check_kind, decoded
from kapi.client.retry import Unavailable, is_passing, with_backoff
from kapi.client.typed import boolean, list_of, string, string_list_map, string_map, struct
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.wire.network_errors import describe_request

if TYPE_CHECKING:
    from kapi.client.endpoint_client import EndpointClient

_SCHEME = "k8s.io/client-go/kubernetes/scheme/register.go:83"
_VERSIONS = ("v1", "v1beta1", "v1alpha1")
_USER = struct("v1.UserInfo", username=string, uid=string, groups=list_of(string), extra=string_list_map)
_FIELDS = {
    kind: struct(f"v1.{kind}", status=struct(f"v1.{kind}Status", **fields))
    for kind, fields in {
        "TokenReview": {"authenticated": boolean, "user": _USER, "audiences": list_of(string), "error": string},
        "SubjectAccessReview": {"allowed": boolean, "denied": boolean, "reason": string, "evaluationError": string},
        "ImageReview": {"allowed": boolean, "reason": string, "auditAnnotations": string_map},
    }.items()
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

    def close(self) -> Deferred[list[None]]:
        """Closes the connections."""
        return self._client.close()

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
            except Exception as error:
                result = "timeout" if isinstance(error, StatusError) and error.code == 504 else "error"
                decided = isinstance(error, StatusError | ValueError)  # by an answer
                text = str(error) if decided else describe_request(error, "POST", self._client.url)
                raise Unavailable(text) if is_passing(error) else ReviewError(text, result) from None
            finally:
                self._observe(result, time.perf_counter() - started)

        try:
            return await with_backoff(self._reactor, attempt, delay=self._first_delay)
        except Unavailable as error:
            raise ReviewError(str(error), result) from None

    async def _ask(self, review: Object) -> Object:
        document = decoded(await self._client.post(orjson.dumps(review)), "POST")
        wanted = review["apiVersion"]
        group = wanted.partition("/")[0]
        known = {(self.kind, f"{group}/{version}"): _FIELDS[self.kind] for version in _VERSIONS}
        check_kind(document, self.kind, wanted, known, _SCHEME)
        answered: Object = document.get("status") or {}
        return answered
