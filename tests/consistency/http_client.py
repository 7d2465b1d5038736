"""A lean HTTP/1.1 client: a kept TLS connection, one request at a time; much cheaper than the libraries'."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator

TOKEN = "consistency"


class NoAnswer(Exception):
    """The connection was refused, cut or silent: whether the request was carried out is unknown."""


def context() -> ssl.SSLContext:
    """Verifies nothing: who answers is not what is tested here."""
    made = ssl.create_default_context()
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


class Connection:
    """To one server; is made when it is needed and again after a failure."""

    def __init__(self, port: int, tls: ssl.SSLContext, timeout: float) -> None:
        self.port = port
        self.timeout = timeout  # seconds for a request and its answer
        self._tls = tls
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._last = False  # the server said that it closes the connection after this answer

    def close(self) -> None:
        """At once: what is on its way is lost."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None
        self._last = False

    async def ask(
        self, method: str, target: str, body: bytes = b"", kind: str = "application/json"
    ) -> tuple[int, bytes]:
        """Status and body.  Raises NoAnswer."""
        try:
            async with asyncio.timeout(self.timeout):
                status, length = await self._begin(method, target, body, kind)
                reader = self._reader
                assert reader is not None
                if length >= 0:
                    return status, await reader.readexactly(length)
                return status, b"".join([chunk async for chunk in self._chunks(reader)])
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, TimeoutError) as error:
            self.close()
            raise NoAnswer(f"{type(error).__name__}: {error}") from None

    async def stream(self, target: str) -> tuple[int, AsyncIterator[bytes]]:
        """Status, and what comes in chunks until the server ends it (NoAnswer when it breaks off)."""
        try:
            async with asyncio.timeout(self.timeout):
                status, length = await self._begin("GET", target, b"", "application/json")
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, TimeoutError) as error:
            self.close()
            raise NoAnswer(f"{type(error).__name__}: {error}") from None
        return status, self._streamed(length)

    async def _streamed(self, length: int) -> AsyncIterator[bytes]:
        reader = self._reader
        assert reader is not None
        try:
            if length >= 0:
                yield await reader.readexactly(length)
                return
            async for chunk in self._chunks(reader):
                yield chunk
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            self.close()
            raise NoAnswer(f"{type(error).__name__}: {error}") from None

    async def _begin(self, method: str, target: str, body: bytes, kind: str) -> tuple[int, int]:
        """Sends the request and reads the head of the answer: status and length, -1 for chunks."""
        if self._last:
            self.close()
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                "127.0.0.1", self.port, ssl=self._tls, ssl_handshake_timeout=self.timeout, limit=1 << 20
            )
        head = (
            f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"User-Agent: consistency\r\nAccept: application/json\r\n"
        )
        if body:
            head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        self._writer.write(f"{head}\r\n".encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        length, closes = -1, False
        for line in lines[1:]:
            name, _, text = line.partition(":")
            name = name.lower()
            if name == "content-length":
                length = int(text)
            elif name == "connection":
                closes = "close" in text.lower()
        self._last = closes
        return int(lines[0].split(" ", 2)[1]), length

    @staticmethod
    async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            data = await reader.readexactly(size + 2)
            if not size:
                return
            yield data[:-2]
