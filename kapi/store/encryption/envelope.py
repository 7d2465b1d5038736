"""The stored form of KMS v2 (upstream: apiserver ``kmsv2/envelope.go``, ``encrypt/aes/aes_extended_nonce.go``).

It consists of the value, encrypted with a key that each write derives from a seed, and of the seed, encrypted by the plugin.
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

from kapi.store.encryption.providers import Undecryptable
from kapi.wire.plugin_messages import (
    WireError,
    decode,
    decode_map,
    encode,
    encode_map,
    last_bytes,
    last_number,
    last_text,
)

SEED_BYTES = 32
_INFO_BYTES = 32  # random bytes that derive a key from a seed
_NONCE_BYTES = 12
_KEY, _SEED_TYPE = 0, 1  # what the plugin has encrypted: the key itself (until 1.28), or a seed
_MAX_KEY_ID_BYTES = 1024
_MAX_SOURCE_BYTES = 1024
_MAX_ANNOTATIONS_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """An encrypted seed (upstream: DEK source), with the key id and annotations that the plugin needs to decrypt it."""

    key_id: str
    ciphertext: bytes
    annotations: tuple[tuple[str, bytes], ...]
    kind: int = _SEED_TYPE

    @classmethod
    def make(cls, key_id: str, ciphertext: bytes, annotations: Mapping[str, bytes], kind: int = _SEED_TYPE) -> Source:
        """Raises ValueError where upstream would refuse to store it."""
        problem = key_id_problem(key_id)
        if problem:
            raise ValueError(f"failed to validate key id: {problem[1]}")
        if kind not in (_KEY, _SEED_TYPE):
            raise ValueError(f"unknown encryptedDEKSourceType: {kind}")
        if not ciphertext:
            raise ValueError("failed to validate encrypted DEK source: encrypted DEK source is empty")
        if len(ciphertext) > _MAX_SOURCE_BYTES:
            raise ValueError(
                f"failed to validate encrypted DEK source: encrypted DEK source is {len(ciphertext)} bytes, which exceeds "
                f"the max size of {_MAX_SOURCE_BYTES}"
            )
        size = sum(len(key) + len(value) for key, value in annotations.items())
        if size > _MAX_ANNOTATIONS_BYTES:
            raise ValueError(
                f"failed to validate annotations: total size of annotations is {size}, which exceeds the max size of "
                f"{_MAX_ANNOTATIONS_BYTES}"
            )
        return cls(key_id, ciphertext, tuple(sorted(annotations.items())), kind)


def key_id_problem(key_id: str) -> tuple[str, str] | None:
    """The error's label in metrics and its text; None for a valid key id."""
    if not key_id:
        return "empty", "keyID is empty"
    if len(key_id.encode()) > _MAX_KEY_ID_BYTES:
        return "too_long", f"keyID is {len(key_id.encode())} bytes, which exceeds the max size of {_MAX_KEY_ID_BYTES}"
    return None


def hashed(key_id: str) -> str:
    """A key id as metrics and errors show it: hashed, because it may be secret."""
    return f"sha256:{hashlib.sha256(key_id.encode()).hexdigest()}" if key_id else ""


def split(data: bytes) -> tuple[Source, bytes]:
    """The source and the ciphertext of a stored value.  Raises Undecryptable."""
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
    """The part of a stored value after the ciphertext."""
    return encode([
        (2, source.key_id.encode()), (3, source.ciphertext), *encode_map(4, dict(source.annotations)), (5, source.kind)
    ])  # fmt: skip


def seal(seed: bytes, tail: bytes, plain: bytes, key: bytes) -> bytes:
    """Encrypts ``plain`` into a stored value; ``key`` is authenticated, ``tail`` (of ``tail_of``) identifies the seed."""
    info, nonce = os.urandom(_INFO_BYTES), os.urandom(_NONCE_BYTES)
    sealed = AESGCM(_derived(seed, info)).encrypt(nonce, plain, key)
    return encode([(1, info + nonce + sealed)]) + tail


def unseal(source: Source, secret: bytes, sealed: bytes, key: bytes) -> bytes:
    """Decrypts the ciphertext ``sealed`` with the decrypted source, ``secret``.  Raises Undecryptable."""
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
