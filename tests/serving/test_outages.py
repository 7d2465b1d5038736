"""What a request is answered when the store fails on a way that nobody translated."""

from __future__ import annotations

import json

import pytest
from twisted.internet.task import Clock

from kapi.filters.chain import FilterChain
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.run import RequestRunner
from kapi.store.errors import OutcomeUnknown, StoreUnavailable
from kapi.testing.http import MemoryRequest


@pytest.mark.parametrize(
    ("error", "code", "reason", "retry"),
    [
        (StoreUnavailable("away"), 503, "ServiceUnavailable", ["1"]),
        (OutcomeUnknown("the outcome of the write is unknown"), 504, "Timeout", None),
    ],
)
def test_outages(error: Exception, code: int, reason: str, retry: list[str] | None) -> None:
    async def handler(ctx: RequestContext) -> Response:
        raise error

    request = MemoryRequest("POST", "/")
    RequestRunner(FilterChain([], handler), Clock()).serve(request)
    body = json.loads(b"".join(request.chunks))
    later = request.responseHeaders.getRawHeaders("Retry-After")
    assert (request.code, body["reason"], later) == (code, reason, retry)
