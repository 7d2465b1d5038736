"""Reading the answers of a signer: the keys that verify its tokens, and headers (upstream: ``externaljwt/plugin``, KEP-740)."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_public_key

from kapi.authentication.service_account.issuer import SigningError
from kapi.authentication.service_account.keys import VerificationKey, is_supported
from kapi.machinery.golang import quote
from kapi.wire.plugin_messages import all_bytes, decode, last_bytes, last_number, last_signed, last_text

_MAX_KEY_ID_BYTES = 1024
_ALGORITHMS = ("RS256", "ES256", "ES384", "ES512")
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799  # of the years 1 and 9999


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
    """The id of the key that a header of a JWT names.  Raises SigningError for one that kapi would not make."""
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
