"""What KMS v2 stores: the value, encrypted with a key that is derived anew for each write from a seed, and the seed, encrypted by
the plugin (upstream: apiserver ``kmsv2/envelope.go``, ``encrypt/aes/aes_extended_nonce.go``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from kapi.plugins.wire import (
    WireError,
    decode,
    decode_map,
    encode,
    encode_map,
    last_bytes,
    last_number,
    last_text,
)
from kapi.store.encryption.providers import Undecryptable

SEED = 32  # bytes
_INFO_BYTES = 32  # bytes that make a key out of a seed
_NONCE_BYTES = 12  # bytes
_KEY, _SEED_TYPE = 0, 1  # what the plugin has encrypted: the key itself (until 1.28), or a seed
_MAX_KEY_ID = 1024  # bytes
_MAX_SOURCE = 1024  # bytes
_MAX_ANNOTATIONS = 32 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class Source:
    """An encrypted seed as the plugin gave it, and what it needs to decrypt it."""

    key_id: str
    ciphertext: bytes
    annotations: tuple[tuple[str, bytes], ...]
    kind: int = _SEED_TYPE

    @classmethod
    def make(cls, key_id: str, ciphertext: bytes, annotations: Mapping[str, bytes], kind: int = _SEED_TYPE) -> Source:
        """Raises ValueError for what upstream would not store."""
        problem = key_id_problem(key_id)
        if problem:
            raise ValueError(f"failed to validate key id: {problem[1]}")
        if kind not in (_KEY, _SEED_TYPE):
            raise ValueError(f"unknown encryptedDEKSourceType: {kind}")
        if not ciphertext:
            raise ValueError("failed to validate encrypted DEK source: encrypted DEK source is empty")
        if len(ciphertext) > _MAX_SOURCE:
            raise ValueError(
                f"failed to validate encrypted DEK source: encrypted DEK source is {len(ciphertext)} bytes, which exceeds "
                f"the max size of {_MAX_SOURCE}"
            )
        size = sum(len(key) + len(value) for key, value in annotations.items())
        if size > _MAX_ANNOTATIONS:
            raise ValueError(
                f"failed to validate annotations: total size of annotations is {size}, which exceeds the max size of "
                f"{_MAX_ANNOTATIONS}"
            )
        return cls(key_id, ciphertext, tuple(sorted(annotations.items())), kind)


def key_id_problem(key_id: str) -> tuple[str, str] | None:
    """What metrics call it, and what is wrong; None when nothing is."""
    if not key_id:
        return "empty", "keyID is empty"
    if len(key_id.encode()) > _MAX_KEY_ID:
        return "too_long", f"keyID is {len(key_id.encode())} bytes, which exceeds the max size of {_MAX_KEY_ID}"
    return None


def hashed(key_id: str) -> str:
    """As metrics and errors show a key id, which may be a secret of its own."""
    return f"sha256:{hashlib.sha256(key_id.encode()).hexdigest()}" if key_id else ""


def split(data: bytes) -> tuple[Source, bytes]:
    """The source of the key and the ciphertext of a stored value.  Raises Undecryptable."""
    try:
        fields = decode(data)
        source = Source.make(last_text(fields, 2), last_bytes(fields, 3), decode_map(fields, 4), last_number(fields, 5))
        sealed = last_bytes(fields, 1)
    except (WireError, ValueError) as error:
        raise Undecryptable(str(error)) from None
    if not sealed:
        raise Undecryptable("encrypted data is empty")
    return source, sealed


def tail_of(source: Source) -> bytes:
    """What stands behind the ciphertext in a stored value."""
    return encode([
        (2, source.key_id.encode()), (3, source.ciphertext), *encode_map(4, dict(source.annotations)), (5, source.kind)
    ])  # fmt: skip


def seal(seed: bytes, tail: bytes, plain: bytes, key: bytes) -> bytes:
    """The stored value; ``key`` is authenticated, ``tail`` names the seed."""
    info, nonce = os.urandom(_INFO_BYTES), os.urandom(_NONCE_BYTES)
    sealed = AESGCM(_derived(seed, info)).encrypt(nonce, plain, key)
    return encode([(1, info + nonce + sealed)]) + tail


def unseal(source: Source, secret: bytes, sealed: bytes, key: bytes) -> bytes:
    """Raises Undecryptable."""
    if source.kind == _SEED_TYPE:
        if len(sealed) < _INFO_BYTES:
            raise Undecryptable("the stored data was shorter than the required size")
        secret, sealed = _derived(secret, sealed[:_INFO_BYTES]), sealed[_INFO_BYTES:]
    try:
        return AESGCM(secret).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], key)
    except (InvalidTag, ValueError):
        raise Undecryptable("cipher: message authentication failed") from None


def _derived(seed: bytes, info: bytes) -> bytes:
    return HKDFExpand(SHA256(), 32, info).derive(seed)
