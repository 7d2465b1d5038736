"""``-v``: logs requests and answers on the error stream (upstream: client-go ``transport/round_trippers.go``, ``klog``).

From level 6 on there is a line for each answer, from 7 on one for each request with its headers; 8 adds the headers of answers
and the beginning of bodies, 9 shows requests as command lines of curl, 10 whole bodies.  Credentials are not shown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from twisted.internet.defer import Deferred
from twisted.web.http import RESPONSES

from kapi.client.credentials import Header
from kapi.machinery.golang import quote
from kapi.wire.transport import Response, Transport

HEADERS, BODIES, CURL = 7, 8, 9
_MAX_BODY = {8: 1024, 9: 10240}  # characters, by level
_KINDS = ("basic", "bearer", "negotiate")
_SECRET = (b"authorization", b"cookie", b"proxy-authorization")


class LoggedTransport:
    """Sends through another transport, and logs it."""

    def __init__(self, inner: Transport, host: str, level: int, err: TextIO) -> None:
        self._inner, self._host, self._level, self._err = inner, host, level, err

    def request(
        self, method: str, target: str, headers: Sequence[Header], body: bytes | None, *, streaming: bool = False
    ) -> Deferred[Response]:
        begin = time.monotonic()
        url = self._host + target
        what = f' verb="{method}" url={quote(url)}'
        if self._level >= BODIES:
            self._line("helper.go", f'"Request Body" body={self._text(body or b"")}')
        if self._level >= CURL:
            options = "".join(f' -H "{name}: {value}"' for name, value in _shown(headers))
            place = url.replace("'", "%27")
            command = _value(f"curl -v -X{method} {options} '{place}'", lines=True)
            self._line("round_trippers.go", f'"Request" curlCommand={command}')
        elif self._level >= HEADERS:
            self._line("round_trippers.go", f'"Request"{what} {_headers(headers)}')

        def answered(response: Response) -> Response:
            text = "" if HEADERS <= self._level < CURL else what  # it stands with the request
            text += f' status="{response.code} {RESPONSES.get(response.code, b"").decode()}"'
            if self._level >= BODIES:
                pairs = ((name, value) for name, values in response.headers.getAllRawHeaders() for value in values)
                text += f" {_headers(pairs)}"
            taken = int((time.monotonic() - begin) * 1000)
            self._line("round_trippers.go", f'"Response"{text} milliseconds={taken}')
            if self._level >= BODIES and response.stream is None:
                self._line("helper.go", f'"Response Body" body={self._text(response.body)}')
            return response

        return self._inner.request(method, target, headers, body, streaming=streaming).addCallback(answered)

    def close(self) -> Deferred[None]:
        return self._inner.close()

    def __getattr__(self, name: str) -> object:
        """Attributes that only some transports have, for WebSockets and for dropping connections."""
        return getattr(self._inner, name)

    def _line(self, file: str, text: str) -> None:
        now = time.time()
        micros = int(now % 1 * 1_000_000)
        stamp = time.strftime("%m%d %H:%M:%S", time.localtime(now))
        self._err.write(f"I{stamp}.{micros:06d} {os.getpid():7d} {file}:1] {text}\n")

    def _text(self, body: bytes) -> str:
        """What is shown of a body."""
        text, most = body.decode("utf-8", "replace"), _MAX_BODY.get(self._level, len(body))
        more = f" [truncated {len(text) - most} chars]" if len(text) > most else ""
        return _value(text[:most] + more, lines="\n" in text[:most])


def _shown(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(pairs):
        kind, _, secret = value.decode("utf-8", "replace").partition(" ")
        if name.lower() in _SECRET:
            yield name.decode(), f"{kind} <masked>" if secret and kind.lower() in _KINDS else "<masked>"
        else:
            yield name.decode(), value.decode("utf-8", "replace")


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> str:
    return "headers=" + _value("".join(f"{name}: {value}\n" for name, value in _shown(pairs)), lines=True)


def _value(text: str, *, lines: bool) -> str:
    """As klog: in quotes, or line by line."""
    return "<\n" + "".join(f"\t{line}\n" for line in text.splitlines()) + " >" if lines else quote(text)
