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
        try:
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], key)
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
        try:
            decryptor = Cipher(self._algorithm, modes.CBC(data[:_BLOCK_BYTES])).decryptor()
            unpadder = PKCS7(8 * _BLOCK_BYTES).unpadder()
            plain = decryptor.update(data[_BLOCK_BYTES:]) + decryptor.finalize()
            return unpadder.update(plain) + unpadder.finalize()
        except ValueError:
            raise Undecryptable("invalid padding on input") from None


class SecretBox(_OneKey):
    """XSalsa20 and Poly1305, which ``cryptography`` does not have.  Raises ImportError without PyNaCl."""

    def __init__(self, name: str, secret: bytes) -> None:
        from nacl.exceptions import CryptoError
        from nacl.secret import SecretBox as Box

        self.prefix = PREFIX + b"secretbox:v1:" + name.encode() + b":"
        self._box: Any = Box(secret)
        self._errors = (CryptoError, ValueError)

    def encrypt(self, plain: bytes, key: bytes) -> bytes:
        return bytes(self._box.encrypt(plain))

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        try:
            return bytes(self._box.decrypt(data))
        except self._errors:
            raise Undecryptable("output array was not large enough for encryption") from None
