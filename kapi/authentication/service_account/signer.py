"""Tokens that a program at a unix socket signs (KEP-740; upstream: ``pkg/serviceaccount/externaljwt/plugin``).

The program provides the keys that verify its tokens, and the time after which to fetch them again.  They are also fetched for a
token with an unknown key.  While the program does not answer, the last fetched keys are used.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_public_key
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.authentication.service_account.issuer import Issuer, SigningError
from kapi.authentication.service_account.keys import KeySet, VerificationKey, is_supported
from kapi.authentication.service_account.metrics import SignerMeter
from kapi.machinery.golang import quote
from kapi.process.reactor import Reactor
from kapi.wire.plugin_calls import Calls, PluginError
from kapi.wire.plugin_messages import (
    WireError,
    all_bytes,
    decode,
    encode,
    last_bytes,
    last_number,
    last_signed,
    last_text,
)

_MAX_KEY_ID_BYTES = 1024
_ALGORITHMS = ("RS256", "ES256", "ES384", "ES512")
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799  # unix seconds in the years 1 and 9999
log = Logger()
_SERVICE = "v1.ExternalJWTSigner"
_MAX_ANSWER_BYTES = 1 << 20
_FIRST_TIMEOUT_SECONDS = 60.0  # the signer may be starting
_TIMEOUT_SECONDS = 10.0
_RETRY_SECONDS = 10.0  # after a failed fetch of the keys
_MAX_INTERVAL_SECONDS = 30 * 24 * 3600.0  # between two fetches, even if the hint is longer
_MIN_TOKEN_SECONDS = 600


class Fetched(NamedTuple):
    keys: list[VerificationKey]
    data_timestamp: float  # unix seconds
    refresh_seconds: int


def read_keys(message: bytes) -> Fetched:
    """A FetchKeysResponse.  Raises SigningError, WireError."""
    fields = decode(message)
    hint = last_signed(fields, 3)
    if hint <= 0:
        raise SigningError(f"found invalid refresh hint ({hint}s)")
    entries = all_bytes(fields, 1)
    if not entries:
        raise SigningError("found no keys")
    return Fetched([_key(entry) for entry in entries], _timestamp(all_bytes(fields, 2)), hint)


def _timestamp(messages: list[bytes]) -> float:
    if not messages:
        raise SigningError("invalid data timestamp: there is none")
    fields = decode(messages[-1])
    seconds, nanoseconds = last_signed(fields, 1), last_signed(fields, 2)
    if not (_FIRST_SECOND <= seconds <= _LAST_SECOND and 0 <= nanoseconds < 1_000_000_000):
        raise SigningError(f"invalid data timestamp: {seconds}s and {nanoseconds}ns")
    return seconds + nanoseconds / 1e9


def _key(message: bytes) -> VerificationKey:
    fields = decode(message)
    key_id, der = last_text(fields, 1), last_bytes(fields, 2)
    if not 0 < len(key_id.encode()) <= _MAX_KEY_ID_BYTES:
        raise SigningError(f"found invalid public key id {quote(key_id)}")
    if not der:
        raise SigningError("found empty public key")
    try:
        key = load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SigningError(f"while parsing external public keys: {error}") from None
    if not is_supported(key):
        raise SigningError(f"while parsing external public keys: {quote(key_id)} is no RSA or ECDSA key")
    return VerificationKey(key, key_id, bool(last_number(fields, 3)))


def key_id_of(header: str) -> str:
    """The id of the key in the header of a JWT.  Raises SigningError for a header that kapi would not make."""
    try:
        found = orjson.loads(_decoded(header))
    except (binascii.Error, ValueError) as error:
        raise SigningError(f"while parsing header JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise SigningError("while parsing header JSON: it has to be an object of strings")
    unknown = sorted(found.keys() - {"alg", "kid", "typ"})
    if unknown:
        raise SigningError(f"while parsing header JSON: json: unknown field {quote(unknown[0])}")
    if found.get("typ") != "JWT":
        raise SigningError("bad type")
    key_id: str = found.get("kid", "")
    if not key_id:
        raise SigningError("key id missing")
    if len(key_id.encode()) > _MAX_KEY_ID_BYTES:
        raise SigningError("key id longer than 1 kb")
    if found.get("alg") not in _ALGORITHMS:
        raise SigningError(f"bad signing algorithm {quote(found.get('alg', ''))}")
    return key_id


def _decoded(text: str) -> bytes:
    """Base64url without padding.  Raises ValueError."""
    if "=" in text:
        raise ValueError("illegal base64 data")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


class FetchedKeys(KeySet):
    """The signer's keys.  ``refresh`` fetches them."""

    def __init__(self, reactor: Reactor, meter: SignerMeter) -> None:
        super().__init__(())
        self._reactor, self._meter = reactor, meter
        self._calls: Calls
        self._until = 0.0  # reactor seconds
        self._waiting: list[Deferred[None]] = []  # callers of the running fetch, at most one for each request
        self._fetching: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None

    @property
    def max_age(self) -> int:
        return max(0, int(self._until - self._reactor.seconds()))

    def begin(self, calls: Calls) -> None:
        self._calls = calls

    def end(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def refresh(self, timeout: float = _TIMEOUT_SECONDS) -> Deferred[None]:
        """Fetches the keys, with one call for all waiting callers.  Fails with SigningError."""
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        if self._fetching is None:
            self._fetching = fetching = Deferred.fromCoroutine(self._fetch(timeout))
            fetching.addBoth(self._fetched)
        return waiting

    async def _fetch(self, timeout: float) -> None:
        try:
            found = read_keys(await self._calls.call("FetchKeys", b"", timeout))
        except (PluginError, WireError, SigningError) as error:
            self._meter.fetches.add(code_of(error))
            raise SigningError(f"while fetching token verification keys: {error}") from None
        self._meter.fetches.add("OK")
        self._meter.fetched_at.set(time.time())
        self._meter.data_at.set(found.data_timestamp)
        self._until = self._reactor.seconds() + min(found.refresh_seconds, _MAX_INTERVAL_SECONDS)
        if found.keys != list(self.keys):
            self.replace(found.keys)

    def _fetched(self, result: object) -> None:
        self._fetching = None
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each.called:
                continue
            if isinstance(result, Failure):
                each.errback(result.value)
            else:
                each.callback(None)

    def schedule(self, seconds: float | None = None) -> None:
        """Fetches the keys after ``seconds``, or when the signer's hint says so, and then repeatedly."""
        wait = max(self._until - self._reactor.seconds(), 0.0) if seconds is None else seconds
        self._timer = self._reactor.callLater(wait, self._refresh_again)

    def _refresh_again(self) -> None:
        self.refresh().addCallbacks(lambda _: self._renewed(), self._refresh_failed)

    def _renewed(self) -> None:
        if self._timer is not None:
            self.schedule()

    def _refresh_failed(self, failure: Failure) -> None:
        log.error("Tokens are verified by the keys known before: {error}", error=str(failure.value))
        if not failure.check(SigningError):
            log.failure("looking for the keys of tokens", failure)
        if self._timer is not None:
            self.schedule(_RETRY_SECONDS)


class ExternalSigner:
    """One signer.  ``path`` names its socket."""

    def __init__(self, reactor: Reactor, path: str, meter: SignerMeter) -> None:
        self._reactor, self._path, self._meter = reactor, path, meter
        self._calls: Calls | None = None
        self.keys = FetchedKeys(reactor, meter)
        self.max_seconds = 0  # the longest lifetime of a token; known after ``start``

    async def start(self, max_seconds: int, timeout: float = _FIRST_TIMEOUT_SECONDS) -> None:
        """Waits for the signer.  Raises SigningError.

        ``max_seconds``: the longest lifetime of tokens by the flags, 0 for no limit.
        """
        self._calls = calls = Calls(self._reactor, self._path, _SERVICE, _MAX_ANSWER_BYTES, self._meter.called)
        self.keys.begin(calls)
        try:
            await self.keys.refresh(timeout)
            longest = last_signed(decode(await calls.call("Metadata", b"", _TIMEOUT_SECONDS)), 1)
        except (PluginError, WireError) as error:
            raise SigningError(str(error)) from None
        if longest < _MIN_TOKEN_SECONDS:
            raise SigningError(
                f"max token life supported by external-jwt-signer ({longest}s) is less than acceptable "
                f"(min {_MIN_TOKEN_SECONDS}s)"
            )
        if max_seconds > longest:
            raise SigningError(
                "service-account-max-token-expiration cannot be set longer than the token expiration supported by "
                f"service-account-signing-endpoint: {max_seconds}s > {longest}s"
            )
        self.max_seconds = longest
        self.keys.schedule()

    def stop(self) -> None:
        self.keys.end()
        if self._calls is not None:
            self._calls.close()

    async def sign(self, payload: bytes) -> str:
        """The token.  Raises SigningError."""
        try:
            token = await self._sign(payload)
        except SigningError as error:
            self._meter.signatures.add(error.code)
            raise
        self._meter.signatures.add("OK")
        return token

    async def _sign(self, payload: bytes) -> str:
        if self._calls is None:
            raise SigningError("the signer is not known yet")
        claims = base64.urlsafe_b64encode(payload).rstrip(b"=")
        try:
            fields = decode(await self._calls.call("Sign", encode([(1, claims)]), _TIMEOUT_SECONDS))
            header, signature = last_text(fields, 1), last_text(fields, 2)
        except (PluginError, WireError) as error:
            raise SigningError(f"while signing jwt: {error}", code_of(error)) from None
        try:
            await self._check(key_id_of(header))
        except SigningError as error:
            raise SigningError(f"while validating header: {error}", error.code) from None
        if not signature:
            raise SigningError("empty signature returned")
        return f"{header}.{claims.decode()}.{signature}"

    async def _check(self, key_id: str) -> None:
        """A key that discovery excludes may only verify old tokens.  If the key is unknown, keys are fetched again."""
        if not self.keys.candidates(key_id):
            try:
                await self.keys.refresh()
            except SigningError as error:
                log.error("Looking for the key {key_id}: {error}", key_id=key_id, error=str(error))
        if any(key.excluded for key in self.keys.candidates(key_id)):
            raise SigningError(f"key used for signing JWT (kid: {key_id}) is excluded from OIDC discovery docs")


def code_of(error: Exception) -> str:
    return getattr(error, "code", "") or SigningError.code


class ExternalIssuer(Issuer[Awaitable[str]]):
    """Makes tokens of one issuer, signed by the external signer."""

    def __init__(self, issuer: str, signer: ExternalSigner, clock: Callable[[], float] = time.time) -> None:
        super().__init__(issuer, clock)
        self._signer = signer

    @property
    def max_seconds(self) -> int:
        return self._signer.max_seconds

    def sign(self, payload: bytes) -> Awaitable[str]:
        return self._signer.sign(payload)
