"""Keys of clients are loaded in bounded time: OpenSSL would test primes of 20,000 bits, which takes minutes."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from typing import Any

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


def _certificate() -> bytes:
    content, _ = self_signed("a")
    return x509.load_pem_x509_certificate(content).public_bytes(serialization.Encoding.DER)


def _request() -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a")])
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.DER)


CERTIFICATE, REQUEST = _certificate(), _request()
VERSION = CERTIFICATE.index(bytes.fromhex("a003020102"))
POINT = REQUEST.index(bytes.fromhex("03420004"))
_TAGS = (
    "asn1: structure error: tags don't match ({}) {{optional:false explicit:false application:false private:false "
    "defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}} {}"
)


def changed(data: bytes, at: int, byte: int) -> bytes:
    return data[:at] + bytes((byte,)) + data[at + 1 :]


def _words(value: bytes | str) -> str:
    """The id of a parameter: every worker collects tests of the same names, while the bytes of keys are random."""
    return value if isinstance(value, str) else "bytes"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "x509: malformed certificate"),
        (b"hello", "x509: malformed certificate"),
        (CERTIFICATE[:-1], "x509: malformed certificate"),
        (CERTIFICATE[:10], "x509: malformed certificate"),
        (CERTIFICATE + b"\0", "x509: trailing data"),
        (CERTIFICATE * 2, "x509: trailing data"),
        (sequence(), "x509: malformed tbs certificate"),
        (REQUEST, "x509: inner and outer signature algorithm identifiers don't match"),
        (changed(CERTIFICATE, VERSION + 4, 3), "x509: invalid version"),
        (changed(CERTIFICATE, VERSION + 2, 4), "x509: malformed version"),
        (changed(CERTIFICATE, VERSION + 5, 4), "x509: malformed serial number"),
        (CERTIFICATE.replace(b"\x17\x0d", b"\x16\x0d", 1), "x509: unsupported time format"),
        (CERTIFICATE.replace(bytes.fromhex("0603550403"), bytes.fromhex("0703550403"), 1),
         "x509: invalid RDNSequence: invalid attribute type"),
    ],
    ids=_words,
)  # fmt: skip
def test_a_damaged_certificate_is_described_as_by_go(content: bytes, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        der.certificate(content)
    assert str(caught.value) == text


def test_an_extension_that_is_there_twice() -> None:
    extension = sequence(bytes.fromhex("0603551d13"), element(4, sequence()))
    algorithm = sequence(bytes.fromhex("06032a0304"))
    name = sequence(element(0x31, sequence(bytes.fromhex("0603550403"), element(0x0C, b"a"))))
    times = sequence(*[element(0x17, b"260101000000Z")] * 2)
    key = sequence(algorithm, element(3, b"\0x"))
    extensions = element(0xA3, sequence(extension, extension))
    fields = sequence(element(0xA0, integer(2)), integer(1), algorithm, name, times, name, key, extensions)
    with pytest.raises(ValueError, match='duplicate extension with OID "2.5.29.19"'):
        der.certificate(sequence(fields, algorithm, element(3, b"\0x")))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "asn1: syntax error: sequence truncated"),
        (b"hello", _TAGS.format("16 vs {class:1 tag:8 length:101 isCompound:true}", "certificateRequest @2")),
        (b"\x30\x84\xff\xff\xff\xff", "asn1: structure error: length too large"),
        (b"\x30\x80\0\0", "asn1: syntax error: indefinite length found (not DER)"),
        (b"\x30\x81\x05", "asn1: structure error: non-minimal length"),
        (b"\xff" * 10, "asn1: structure error: base 128 integer too large"),
        (b"\x30", "asn1: syntax error: truncated tag or length"),
        (REQUEST[:-1], "asn1: syntax error: data truncated"),
        (REQUEST + b"\0", "asn1: syntax error: trailing data"),
        (sequence(), "asn1: syntax error: sequence truncated"),
        (integer(5), _TAGS.format("16 vs {class:0 tag:2 length:1 isCompound:false}", "certificateRequest @2")),
        (CERTIFICATE, _TAGS.format("2 vs {class:2 tag:0 length:3 isCompound:true}", "int @2")),
        (changed(REQUEST, POINT + 3, 2), "ecdsa: invalid uncompressed public key"),
        (changed(REQUEST, POINT + 5, REQUEST[POINT + 5] ^ 1), "P256 point not on curve"),
        (REQUEST.replace(bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2a8648ce3d030106")),
         "x509: unsupported elliptic curve"),
    ],
    ids=_words,
)  # fmt: skip
def test_a_damaged_request_is_described_as_by_go(content: bytes, text: str) -> None:
    assert request_error(base64.b64encode(pem("CERTIFICATE REQUEST", content)).decode()) == text


def _read_or_none(tag: int, content: str, read: Callable[[der._Elements], Any]) -> Any:
    """What is read of an element with this content, and nothing after it, or None for the error that names it wrong."""
    data = bytes.fromhex(content)
    elements = der._Elements(bytes((tag, len(data))) + data + b"\x05\x00")
    try:
        found = read(elements)
    except ValueError as error:
        assert str(error) == "x509: wrong"
        return None
    assert elements and elements.take(5, "wrong") == b"" and not elements
    return found


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ("", None), ("00", ""), ("01", None), ("0000", "00"), ("00ff", "ff"), ("0780", "80"), ("07ff", None), ("0800", None),
        ("0700", "00"), ("01fe", "fe"), ("01ff", None), ("04f0", "f0"), ("04f8", None), ("0101fe", "01fe"), ("0100ff", None),
        ("80", None),
    ],
)  # fmt: skip
def test_unused_bits_are_few_and_unset(content: str, read: str | None) -> None:
    assert _read_or_none(3, content, lambda elements: elements.bits("wrong").hex()) == read


@pytest.mark.parametrize(
    ("content", "number"),
    [
        ("", None), ("00", 0), ("7f", 127), ("80", -128), ("ff", -1), ("0000", None), ("007f", None), ("0080", 128),
        ("ff7f", -129), ("ff80", None), ("ffff", None), ("0100", 256), ("00ff", 255), ("fe80", -384),
    ],
)  # fmt: skip
def test_integers_are_as_short_as_they_can_be(content: str, number: int | None) -> None:
    assert _read_or_none(2, content, lambda elements: elements.integer("wrong")) == number


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("", None), ("00", "0.0"), ("27", "0.39"), ("28", "1.0"), ("4f", "1.39"), ("50", "2.0"), ("78", "2.40"), ("7f", "2.47"),
        ("8837", "2.999"), ("2a8648ce3d0201", "1.2.840.10045.2.1"), ("2a86", None), ("80", None), ("2a8100", "1.2.128"),
        ("2a7f", "1.2.127"),
    ],
)  # fmt: skip
def test_identifiers(content: str, shown: str | None) -> None:
    assert _read_or_none(6, content, lambda elements: der._dotted(elements.identifier("wrong"))) == shown


@pytest.mark.parametrize(
    ("head", "length", "good"),
    [
        ("0400", 0, True), ("047f", 127, True), ("048180", 128, True), ("04817f", 127, False), ("0481ff", 255, True),
        ("04820100", 256, True), ("048200ff", 255, False), ("0483010000", 65536, True), ("048300ffff", 65535, False),
        ("0480", 0, False), ("04850000000001", 1, False), ("0484", 0, False), ("04", 0, False), ("1f00", 0, False),
        ("3f00", 0, False), ("1e00", 0, False),
    ],
)  # fmt: skip
def test_lengths_are_as_short_as_they_can_be(head: str, length: int, good: bool) -> None:
    data = bytes.fromhex(head) + b"a" * length
    for tag in (4, None):
        if good:
            assert len(der._Elements(data + b"x").take(tag, "wrong")) == length
        elif (tag, head) != (None, "1e00"):
            with pytest.raises(ValueError, match="^x509: wrong$"):
                der._Elements(data).take(tag, "wrong")
    with pytest.raises(ValueError, match="^x509: wrong$"):
        der._Elements(data[:-1]).take(4, "wrong")


def test_elements_that_may_be_absent() -> None:
    elements = der._Elements(bytes.fromhex("810161" + "8200"))
    assert [elements.optional(tag, "wrong") for tag in (0x82, 0x81, 0x81, 0x82, 0x82)] == [None, b"a", None, b"", None]
