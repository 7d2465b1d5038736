"""Loads keys, certificates and signing requests of clients in DER, without OpenSSL's slow tests.

OpenSSL tests whether the numbers of a private RSA key and of a Diffie-Hellman group are primes, which takes 20 s for 5 kB, in one
piece.  Go tests neither, and does not support Diffie-Hellman keys at all.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_der_public_key

_DIFFIE_HELLMAN = (  # contents of object identifiers, for which DER has only one form
    bytes.fromhex("2a864886f70d010301"),  # dhKeyAgreement
    bytes.fromhex("2a8648ce3e0201"),  # dhpublicnumber
)
_MAX_CHECKED_BITS = 16384  # bits of a modulus: OpenSSL uses no larger key


def _known(der: bytes) -> bytes:
    if any(identifier in der for identifier in _DIFFIE_HELLMAN):
        raise ValueError("keys of Diffie-Hellman are not supported")
    return der


def private_key(der: bytes) -> PrivateKeyTypes:
    """Raises ValueError, TypeError (for an encrypted one), UnsupportedAlgorithm."""
    key = load_der_private_key(_known(der), None, unsafe_skip_rsa_key_validation=True)
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size <= _MAX_CHECKED_BITS:
        numbers = key.private_numbers()
        p, q, product = numbers.p, numbers.q, numbers.d * numbers.public_numbers.e
        if p * q != numbers.public_numbers.n or min(p, q) < 3 or product % (p - 1) != 1 or product % (q - 1) != 1:
            raise ValueError("the numbers of the key do not belong together")
    return key


def public_key(der: bytes) -> PublicKeyTypes:
    """Raises ValueError, UnsupportedAlgorithm."""
    return load_der_public_key(_known(der))


def certificate(der: bytes) -> x509.Certificate:
    """A certificate whose key can be loaded safely.  Raises ValueError."""
    return x509.load_der_x509_certificate(_known(der))


def signing_request(der: bytes) -> x509.CertificateSigningRequest:
    """A request whose subject can be read, and whose key and signature can be checked safely.  Raises ValueError."""
    try:
        request = x509.load_der_x509_csr(_known(der))
        request.subject  # noqa: B018  decoded when it is read
    except ValueError:
        raise ValueError("x509: malformed certificate request") from None
    return request


def is_signed(request: x509.CertificateSigningRequest) -> bool:
    """Whether a request is signed by its key, also with SHA-1, which the library's own check refuses and Go's does not."""
    try:
        algorithm = request.signature_hash_algorithm
        if not isinstance(algorithm, hashes.SHA1):
            return request.is_signature_valid
        key, signed = request.public_key(), (request.signature, request.tbs_certrequest_bytes)
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(*signed, padding.PKCS1v15(), algorithm)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(*signed, ec.ECDSA(algorithm))
        else:
            return False
    except (InvalidSignature, UnsupportedAlgorithm, TypeError, ValueError):
        return False
    return True
