"""Keys that sign and verify ServiceAccount tokens (upstream: ``pkg/serviceaccount/jwt.go``, client-go ``keyutil``)."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple, TypeGuard, Union

from cryptography import x509
from cryptography.exceptions import InternalError, InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from kapi.machinery.tree import Object

PublicKey = Union[rsa.RSAPublicKey, ec.EllipticCurvePublicKey]
PrivateKey = Union[rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey]
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----\s*", re.DOTALL)
_CURVES = {"secp256r1": ("ES256", "P-256"), "secp384r1": ("ES384", "P-384"), "secp521r1": ("ES512", "P-521")}
_RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


def _number(value: int, size: int = 0) -> str:
    data = value.to_bytes(size or (value.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class VerificationKey(NamedTuple):
    """A public key with its id: the base64url SHA-256 of its DER form, unless an id is given."""

    key: PublicKey
    key_id: str
    excluded: bool = False  # from discovery

    @classmethod
    def of(cls, key: PublicKey) -> VerificationKey:
        der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return cls(key, base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode())

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The signature algorithms of this kind of key."""
        if isinstance(self.key, rsa.RSAPublicKey):
            return _RSA_ALGORITHMS
        return (_CURVES[self.key.curve.name][0],)

    @property
    def signing_algorithm(self) -> str:
        return self.algorithms[0]

    def jwk(self) -> Object:
        """The key as a JSON Web Key (RFC 7517)."""
        head = {"use": "sig"}
        if isinstance(self.key, rsa.RSAPublicKey):
            numbers = self.key.public_numbers()
            return {
                **head,
                "kty": "RSA",
                "kid": self.key_id,
                "alg": "RS256",
                "n": _number(numbers.n),
                "e": _number(numbers.e),
            }
        algorithm, curve = _CURVES[self.key.curve.name]
        point, size = self.key.public_numbers(), (self.key.curve.key_size + 7) // 8
        return {
            **head,
            "kty": "EC",
            "kid": self.key_id,
            "crv": curve,
            "alg": algorithm,
            "x": _number(point.x, size),
            "y": _number(point.y, size),
        }


def _public(block: bytes, kind: str) -> object:
    if "PRIVATE KEY" in kind:
        return load_pem_private_key(block, None).public_key()
    if kind == "CERTIFICATE":
        return x509.load_pem_x509_certificate(block).public_key()
    if "PUBLIC KEY" in kind:
        return load_pem_public_key(block)
    return None


def is_supported(key: object) -> TypeGuard[PublicKey]:
    return isinstance(key, rsa.RSAPublicKey) or (
        isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES
    )


def load_verification_keys(pem: bytes) -> list[VerificationKey]:
    """All keys of a PEM file: public keys, certificates, or private keys for their public half.  Raises ValueError."""
    keys = []
    for match in _BLOCK.finditer(pem):
        key = _public(match.group(0), match.group(1).decode())
        if is_supported(key):
            keys.append(VerificationKey.of(key))
    if not keys:
        raise ValueError("data does not contain any valid RSA or ECDSA public keys")
    return keys


def load_signing_key(pem: bytes, *, made_here: bool = False) -> PrivateKey:
    """The private key of ``--service-account-signing-key-file``.  Raises ValueError.

    The primes of a key that this server has generated (``made_here``) are not tested again, which takes 30 ms.  That its public
    half matches is always tested.
    """
    for match in _BLOCK.finditer(pem):
        if b"PRIVATE KEY" in match.group(1):
            key = load_pem_private_key(match.group(0), None, unsafe_skip_rsa_key_validation=made_here)
            if isinstance(key, rsa.RSAPrivateKey) and made_here:
                _try_out(key)
            if isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
                return key
    raise ValueError("data does not contain a valid RSA or ECDSA private key")


def _try_out(key: rsa.RSAPrivateKey) -> None:
    """Raises ValueError for a key whose public half does not verify what it signs."""
    try:
        signature = key.sign(b"", PKCS1v15(), SHA256())
        key.public_key().verify(signature, b"", PKCS1v15(), SHA256())
    except (InvalidSignature, InternalError) as error:
        raise ValueError("the private key is damaged") from error


class KeySet:
    """Keys by id; a token without a key id is tried against all."""

    def __init__(self, keys: Iterable[VerificationKey]) -> None:
        self.replace({key.key_id: key for key in keys}.values())

    def replace(self, keys: Iterable[VerificationKey]) -> None:
        """Replaces all keys."""
        self.keys = tuple(keys)
        self._by_id: dict[str, tuple[VerificationKey, ...]] = {}
        for key in self.keys:
            self._by_id[key.key_id] = (*self._by_id.get(key.key_id, ()), key)

    @property
    def max_age(self) -> int:
        """Seconds for which clients may cache the keys."""
        return 3600

    def candidates(self, key_id: str) -> tuple[VerificationKey, ...]:
        return self._by_id.get(key_id, ()) if key_id else self.keys
