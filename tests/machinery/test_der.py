"""Keys of clients are loaded in bounded time: OpenSSL would test primes of 20,000 bits, which takes minutes."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from kapi.machinery import der
from kapi.resources.certificates.certificatesigningrequests import request_error
from kapi.resources.core.secrets import key_pair_error
from tests.certificates import self_signed

SECONDS = 5.0  # of the processor; without the bound the smallest of these keys takes 20
PLAIN, PRIVATE = serialization.NoEncryption(), serialization.PrivateFormat.TraditionalOpenSSL
P, Q = 2**9689 - 1, 2**9941 - 1  # primes


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    began = time.thread_time()
    yield
    assert time.thread_time() - began < SECONDS


def element(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 128 | len(length))) + length + content


def integer(number: int) -> bytes:
    return element(2, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def sequence(*parts: bytes) -> bytes:
    return element(48, b"".join(parts))


def rsa_key(p: int, q: int, e: int = 65537) -> bytes:
    d = pow(e, -1, (p - 1) * (q - 1))
    numbers = (0, p * q, e, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))
    return sequence(*map(integer, numbers))


def group(kind: str) -> bytes:
    """The algorithm of a key of Diffie-Hellman with a large group."""
    identifier = element(6, bytes.fromhex(kind))
    return sequence(identifier, sequence(integer(Q), integer(2), integer(3)))


DIFFIE_HELLMAN = ("2a864886f70d010301", "2a8648ce3e0201")


def pem(kind: str, content: bytes) -> bytes:
    return f"-----BEGIN {kind}-----\n{base64.encodebytes(content).decode()}-----END {kind}-----\n".encode()


def test_a_large_private_key() -> None:
    certificate, _ = self_signed("a")
    problem = key_pair_error(certificate, pem("RSA PRIVATE KEY", rsa_key(P, Q)))
    assert problem == "tls: private key type does not match public key type"


@pytest.mark.parametrize("kind", DIFFIE_HELLMAN)
def test_keys_that_go_does_not_know(kind: str) -> None:
    certificate, _ = self_signed("a")
    private = sequence(integer(0), group(kind), element(4, integer(5)))
    assert key_pair_error(certificate, pem("PRIVATE KEY", private)) == "tls: failed to parse private key"
    public = sequence(group(kind), element(3, b"\0" + integer(5)))
    with pytest.raises(ValueError, match="not supported"):
        der.public_key(public)
    subject = sequence()
    algorithm = sequence(element(6, bytes.fromhex("2a864886f70d01010b")))
    request = sequence(
        sequence(integer(0), subject, public, element(0xA0, b"")), algorithm, element(3, b"\0" + b"\1" * 256)
    )
    text = base64.b64encode(pem("CERTIFICATE REQUEST", request)).decode()
    assert request_error(text) == "x509: malformed certificate request"


def test_numbers_that_do_not_belong_together() -> None:
    p, q = 2**1279 - 1, 2**2203 - 1
    good = rsa_key(p, q)
    assert isinstance(der.private_key(good), rsa.RSAPrivateKey)
    for bad in (good.replace(integer(p), integer(p - 2)), good.replace(integer(65537), integer(65539))):
        with pytest.raises(ValueError, match=r"\w"):
            der.private_key(bad)


def test_usual_keys() -> None:
    for key in (ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 2048)):
        content = key.private_bytes(serialization.Encoding.DER, PRIVATE, PLAIN)
        assert der.private_key(content).public_key() == key.public_key()


@pytest.mark.parametrize(
    "key", [rsa.generate_private_key(65537, 1024), ec.generate_private_key(ec.SECP256R1())], ids=["RSA", "ECDSA"]
)
def test_a_request_that_is_signed_with_sha_1(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> None:
    content = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    for signed in (content.tbs_certrequest_bytes, b"another"):
        if isinstance(key, rsa.RSAPrivateKey):
            algorithm = element(6, bytes.fromhex("2a864886f70d010105")), element(5, b"")
            signature = key.sign(signed, padding.PKCS1v15(), hashes.SHA1())
        else:
            algorithm = (element(6, bytes.fromhex("2a8648ce3d0401")),)
            signature = key.sign(signed, ec.ECDSA(hashes.SHA1()))
        request = sequence(content.tbs_certrequest_bytes, sequence(*algorithm), element(3, b"\0" + signature))
        assert der.is_signed(der.signing_request(request)) is (signed != b"another")
