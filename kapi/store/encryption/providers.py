"""The ciphers of EncryptionConfiguration: aescbc, aesgcm, secretbox and none (upstream: ``storage/value/encrypt``).

Stored values begin with ``k8s:enc:<provider>:v1:<key name>:``.  AES-GCM also authenticates the store key, so that a value that
was copied to another key cannot be read.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.padding import PKCS7

PREFIX = b"k8s:enc:"
_BLOCK_BYTES = 16
_NONCE_BYTES = 12


class Undecryptable(ValueError):
    """Bytes that a provider cannot read."""


def cut(data: bytes, size: int) -> tuple[bytes, bytes]:
    """The first ``size`` bytes, and the rest.  Raises Undecryptable when there are not so many."""
    if len(data) < size:
        raise Undecryptable("the stored data was shorter than the required size")
    return data[:size], data[size:]


class Provider(Protocol):
    """Encrypts and decrypts values.  ``prefix`` is what its stored values begin with; empty for plain text."""

    prefix: bytes

    @property
    def current(self) -> bytes:
        """Identifies the encryption key that writes use now."""

    def mark(self, data: bytes) -> bytes:
        """Identifies in the same way the encryption key of a stored value that begins with the prefix."""

    def encrypt(self, plain: bytes, key: bytes) -> bytes:
        """The stored value without the prefix; ``key`` is the store key.  Raises NotEncryptable."""

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        """The plain text of a stored value without its prefix.  Raises Undecryptable."""


class _OneKey:
    """A provider whose prefix names its key."""

    prefix: bytes

    @property
    def current(self) -> bytes:
        return self.prefix

    def mark(self, data: bytes) -> bytes:
        return self.prefix


class Identity(_OneKey):
    """Plain text."""

    prefix = b""

    def encrypt(self, plain: bytes, key: bytes) -> bytes:
        return plain

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        return data


class AesGcm(_OneKey):
    """AES-GCM with a random nonce for each value: rotate the key before 2,000,000,000 writes."""

    def __init__(self, name: str, secret: bytes) -> None:
        self.prefix = PREFIX + b"aesgcm:v1:" + name.encode() + b":"
        self._cipher = AESGCM(secret)

    def encrypt(self, plain: bytes, key: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, key)

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        nonce, sealed = cut(data, _NONCE_BYTES)
        try:
            return self._cipher.decrypt(nonce, sealed, key)
        except (InvalidTag, ValueError):
            raise Undecryptable("cipher: message authentication failed") from None


class AesCbc(_OneKey):
    def __init__(self, name: str, secret: bytes) -> None:
        self.prefix = PREFIX + b"aescbc:v1:" + name.encode() + b":"
        self._algorithm = algorithms.AES(secret)

    def encrypt(self, plain: bytes, key: bytes) -> bytes:
        vector = os.urandom(_BLOCK_BYTES)
        padder = PKCS7(8 * _BLOCK_BYTES).padder()
        encryptor = Cipher(self._algorithm, modes.CBC(vector)).encryptor()
        return vector + encryptor.update(padder.update(plain) + padder.finalize()) + encryptor.finalize()

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        vector, sealed = cut(data, _BLOCK_BYTES)
        if len(sealed) % _BLOCK_BYTES:
            raise Undecryptable("the stored data is not a multiple of the block size")
        decryptor = Cipher(self._algorithm, modes.CBC(vector)).decryptor()
        plain = decryptor.update(sealed) + decryptor.finalize()
        padding = plain[-1] if plain else 0
        if not 0 < padding <= len(plain):
            raise Undecryptable("invalid PKCS7 data (empty or not padded)")
        if plain[-padding:] != bytes((padding,)) * padding:
            raise Undecryptable("invalid padding on input")
        return plain[:-padding]


class SecretBox(_OneKey):
    """XSalsa20 and Poly1305, which ``cryptography`` does not have.  Raises ImportError without PyNaCl."""

    def __init__(self, name: str, secret: bytes) -> None:
        from nacl.exceptions import CryptoError
        from nacl.secret import SecretBox as Box

        self.prefix = PREFIX + b"secretbox:v1:" + name.encode() + b":"
        self._box: Any = Box(secret)
        self._error = CryptoError

    def encrypt(self, plain: bytes, key: bytes) -> bytes:
        return bytes(self._box.encrypt(plain))

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        nonce, sealed = cut(data, self._box.NONCE_SIZE)
        cut(sealed, self._box.MACBYTES)
        try:
            return bytes(self._box.decrypt(sealed, nonce))
        except self._error:
            raise Undecryptable("output array was not large enough for encryption") from None
