"""The webhook back end: posts EventLists to a server named in a kubeconfig (upstream: ``plugin/pkg/audit/webhook``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime

from kapi.audit.record import Record, event_list
from kapi.client.retry import Unavailable, with_backoff

if TYPE_CHECKING:
    from kapi.client.https import HTTPSClient


class Webhook:
    """Posts events, and retries after every error; ``initial_backoff`` is the seconds before the first retry."""

    name = "webhook"
    immediate = False

    def __init__(self, client: HTTPSClient, reactor: IReactorTime, *, initial_backoff: float = 10.0) -> None:
        self._client = client
        self._reactor = reactor
        self._backoff = initial_backoff

    async def send(self, records: Sequence[Record]) -> None:
        """Posts the records.  Raises Unavailable when five attempts failed."""
        body = event_list(records)
        await with_backoff(self._reactor, lambda: self._post(body), delay=self._backoff)

    async def _post(self, body: bytes) -> None:
        try:
            answer = await self._client.request("POST", "", body, {"Content-Type": "application/json"})
        except CancelledError:
            raise
        except Exception as error:
            raise Unavailable(str(error) or type(error).__name__) from error
        if not 200 <= answer.status < 300:
            raise Unavailable(f"the server answered {answer.status}")

    def close(self) -> None:
        self._client.close().addErrback(lambda _: None)
