"""``-v``: what is sent and answered, on the error stream (upstream: client-go ``transport/round_trippers.go``, ``klog``).

From level 6 on there is a line for each answer, from 7 on one for each request, and with headers; 8 adds the bodies.  The
headers of credentials are not shown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import TextIO

from twisted.internet.defer import Deferred
from twisted.web.http import RESPONSES

from kapi.client.credentials import Header
from kapi.machinery.golang import quote
from kapi.wire.transport import Response, Transport

HEADERS, BODIES = 7, 8
_SECRET = (b"authorization", b"cookie", b"proxy-authorization")


class LoggedTransport:
    """Sends through another transport, and tells of it."""

    def __init__(self, inner: Transport, host: str, level: int, err: TextIO) -> None:
        self._inner, self._host, self._level, self._err = inner, host, level, err

    def request(
        self, method: str, target: str, headers: Sequence[Header], body: bytes | None, *, streaming: bool = False
    ) -> Deferred[Response]:
        begin = time.monotonic()
        url = f'verb="{method}" url={quote(self._host + target)}'
        if self._level >= BODIES:
            self._line("helper.go", f'"Request Body" body={_text(body or b"")}')
        if self._level >= HEADERS:
            self._line("round_trippers.go", f'"Request" {url} {_headers(headers)}')

        def answered(response: Response) -> Response:
            text = f'status="{response.code} {RESPONSES.get(response.code, b"").decode()}"'
            if self._level >= HEADERS:
                pairs = ((name, value) for name, values in response.headers.getAllRawHeaders() for value in values)
                text += f" {_headers(pairs)}"
            taken = int((time.monotonic() - begin) * 1000)
            self._line("round_trippers.go", f'"Response" {url} {text} milliseconds={taken}')
            if self._level >= BODIES and response.stream is None:
                self._line("helper.go", f'"Response Body" body={_text(response.body)}')
            return response

        return self._inner.request(method, target, headers, body, streaming=streaming).addCallback(answered)

    def close(self) -> Deferred[None]:
        return self._inner.close()

    def __getattr__(self, name: str) -> object:
        """What only some transports have: WebSockets, and to forget a connection."""
        return getattr(self._inner, name)

    def _line(self, file: str, text: str) -> None:
        now = time.time()
        micros = int(now % 1 * 1_000_000)
        stamp = time.strftime("%m%d %H:%M:%S", time.localtime(now))
        self._err.write(f"I{stamp}.{micros:06d} {os.getpid():7d} {file}:1] {text}\n")


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> str:
    lines = []
    for name, value in sorted(pairs):
        shown = "<masked>" if name.lower() in _SECRET else value.decode("utf-8", "replace")
        lines.append(f"\t{name.decode()}: {shown}\n")
    return f"headers=<\n{''.join(lines)} >"


def _text(body: bytes) -> str:
    return quote(body.decode("utf-8", "replace"))
