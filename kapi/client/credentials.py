"""Credentials of requests: bearer tokens, tokens in files, names and passwords (upstream: client-go ``transport``)."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from kapi.client.config_error import ConfigError

REREAD_SECONDS = 60.0  # between two reads of a token's file
Header = tuple[bytes, bytes]


class ClientCertificate(NamedTuple):
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


class Authenticator(Protocol):
    """A source of credentials."""

    async def headers(self) -> list[Header]:
        """The headers for the next request.  Raises ConfigError."""

    async def certificate(self) -> ClientCertificate | None:
        """A client certificate for the next connection, in place of the configured one; None: the configured one."""

    def rejected(self) -> bool:
        """Called after a 401.  Returns whether to send the request again, because there may be new credentials."""


class Static:
    """Headers that do not change."""

    def __init__(self, headers: list[Header]) -> None:
        self._headers = headers

    async def headers(self) -> list[Header]:
        return self._headers

    async def certificate(self) -> ClientCertificate | None:
        return None

    def rejected(self) -> bool:
        return False


NO_CREDENTIALS = Static([])


def bearer(token: str) -> Static:
    return Static([(b"Authorization", b"Bearer " + token.encode())])


def basic(username: str, password: str) -> Static:
    return Static([(b"Authorization", b"Basic " + base64.b64encode(f"{username}:{password}".encode()))])


class TokenFile(Static):
    """A token in a file that another program renews, such as the kubelet.  While it cannot be read, the last token is used."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__([])
        self._path = Path(path)
        self._clock = clock
        self._read_at: float | None = None

    async def headers(self) -> list[Header]:
        now = self._clock()
        if self._read_at is None or now - self._read_at >= REREAD_SECONDS:
            try:
                token = self._path.read_text().strip()
            except OSError as error:
                if self._read_at is None:
                    raise ConfigError(error.strerror or str(error), file=str(self._path), field="tokenFile") from None
            else:
                self._headers = [(b"Authorization", b"Bearer " + token.encode())] if token else []
            self._read_at = now
        return self._headers

    def rejected(self) -> bool:
        """Reads the file again for the next request."""
        self._read_at = None if self._read_at is None else float("-inf")
        return False
