"""Loads keys, certificates and signing requests of clients in DER, without OpenSSL's slow tests.

OpenSSL tests whether the numbers of a private RSA key and of a Diffie-Hellman group are primes, which takes 20 s for 5 kB, in one
piece.  Go tests neither, and does not support Diffie-Hellman keys at all.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
    """A certificate whose key can be loaded safely.  Raises ValueError with the text of Go's ``crypto/x509``."""
    if _check_certificate(der) < len(der):
        raise ValueError("x509: trailing data")
    return _loaded(der)


def certificates(der: bytes) -> list[x509.Certificate]:
    """Certificates after each other.  Raises ValueError as ``certificate``."""
    found = []
    while der:
        size = _check_certificate(der)
        found.append(_loaded(der[:size]))
        der = der[size:]
    return found


def _loaded(der: bytes) -> x509.Certificate:
    """A certificate that was checked.  Raises ValueError for what the library refuses all the same."""
    try:
        return x509.load_der_x509_certificate(_known(der))
    except (ValueError, x509.InvalidVersion):
        raise ValueError("x509: malformed certificate") from None


def signing_request(der: bytes) -> x509.CertificateSigningRequest:
    """A request whose subject can be read, and whose key and signature can be checked safely.

    Raises ValueError with the text of Go's ``encoding/asn1``.
    """
    _check_request(der)
    try:
        request = x509.load_der_x509_csr(_known(der))
        request.subject  # noqa: B018  decoded when it is read
    except (ValueError, x509.InvalidVersion):
        raise ValueError("x509: malformed certificate request") from None
    return request


_SEQUENCE, _INTEGER, _BITS, _OCTETS, _OBJECT, _BOOLEAN, _SET = 0x30, 0x02, 0x03, 0x04, 0x06, 0x01, 0x31
_ZONE = rb"(?:Z|[+-][0-9]{4})"
_TIMES = {
    b"\x17": ("UTCTime", re.compile(rb"[0-9]{10}(?:[0-9]{2})?" + _ZONE)),
    b"\x18": ("GeneralizedTime", re.compile(rb"[0-9]{14}" + _ZONE)),
}
_NAME = "invalid RDNSequence"


class _Elements:
    """Reads elements one by one, as Go's ``cryptobyte``: only the shortest form of a length, of four bytes at most.

    The methods get what the error says of an element that has another tag or is incomplete.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def __bool__(self) -> bool:
        return self.at < len(self.data)

    def take(self, tag: int | None, error: str) -> bytes:
        """The content of the next element; None takes any tag."""
        found = self.data[self.at : self.at + 1]
        start, length = self.at + 2, int.from_bytes(self.data[self.at + 1 : self.at + 2])
        wrong = start > len(self.data) or (found != bytes((tag,)) if tag is not None else found[0] & 0x1F == 0x1F)
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(self.data[start : start + size])
            start += size
            wrong = wrong or not 0 < size <= 4 or length < 128 or length >> 8 * (size - 1) == 0
        if wrong or start + length > len(self.data):
            raise ValueError(f"x509: {error}")
        self.at = start + length
        return self.data[start : self.at]

    def inner(self, tag: int, error: str) -> _Elements:
        return _Elements(self.take(tag, error))

    def optional(self, tag: int, error: str) -> bytes | None:
        return self.take(tag, error) if self.data.startswith(bytes((tag,)), self.at) else None

    def integer(self, error: str) -> int:
        content = self.take(_INTEGER, error)
        if not content or _is_extended(content):
            raise ValueError(f"x509: {error}")
        return int.from_bytes(content, signed=True)

    def identifier(self, error: str) -> bytes:
        content = self.take(_OBJECT, error)
        if not content or content[-1] & 0x80:
            raise ValueError(f"x509: {error}")
        return content

    def bits(self, error: str) -> bytes:
        content = self.take(_BITS, error)
        if not content or _has_other_bits(content):
            raise ValueError(f"x509: {error}")
        return content[1:]


def _is_extended(integer: bytes) -> bool:
    """Whether an integer, of a byte at least, is longer than it has to be."""
    return len(integer) > 1 and integer[0] in (0, 0xFF) and integer[0] >> 7 == integer[1] >> 7


def _has_other_bits(string: bytes) -> bool:
    """Whether a string of bits, of a byte at least, says that it has unused bits which it cannot have, or which are set."""
    unused = string[0]
    return unused > 7 or len(string) == 1 and unused > 0 or bool(string[-1] & (1 << unused) - 1)


_ON_CURVE = bytes.fromhex("2a8648ce3d0201")  # id-ecPublicKey
_CURVES: dict[bytes, tuple[str, ec.EllipticCurve]] = {
    bytes.fromhex("2b81040021"): ("P224", ec.SECP224R1()),
    bytes.fromhex("2a8648ce3d030107"): ("P256", ec.SECP256R1()),
    bytes.fromhex("2b81040022"): ("P384", ec.SECP384R1()),
    bytes.fromhex("2b81040023"): ("P521", ec.SECP521R1()),
}


def _check_point(algorithm: bytes, point: bytes) -> None:
    """Raises ValueError as Go's ``parsePublicKey`` for a key that is no point of a known curve; takes other keys."""
    parts = _Elements(algorithm)
    if parts.identifier("malformed OID") != _ON_CURVE:
        return
    name, curve = _CURVES.get(parts.identifier("invalid ECDSA parameters"), ("", None))
    if curve is None:
        raise ValueError("x509: unsupported elliptic curve")
    if point[:1] != b"\4":
        raise ValueError("ecdsa: invalid uncompressed public key")
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(curve, point)
    except ValueError:
        size = 1 + 2 * ((curve.key_size + 7) // 8)
        text = f"{name} point not on curve" if len(point) == size else f"invalid {name} point encoding"
        raise ValueError(text) from None


def _check_certificate(der: bytes) -> int:
    """The size of a certificate.  Raises ValueError as Go's ``parseCertificate`` for elements that are missing or do not fit."""
    whole = _Elements(der)
    outer = whole.inner(_SEQUENCE, "malformed certificate")
    fields = outer.inner(_SEQUENCE, "malformed tbs certificate")
    version, wrapped = 0, fields.optional(0xA0, "malformed version")
    if wrapped is not None:
        number = _Elements(wrapped)
        version = number.integer("malformed version")
        if number or version < 0:
            raise ValueError("x509: malformed version")
    if version > 2:
        raise ValueError("x509: invalid version")
    if fields.integer("malformed serial number") < 0:
        raise ValueError("x509: negative serial number")
    algorithm = fields.take(_SEQUENCE, "malformed signature algorithm identifier")
    if algorithm != outer.take(_SEQUENCE, "malformed algorithm identifier"):
        raise ValueError("x509: inner and outer signature algorithm identifiers don't match")
    _check_algorithm(algorithm)
    _check_name(fields.inner(_SEQUENCE, "malformed issuer"))
    validity = fields.inner(_SEQUENCE, "malformed validity")
    for _ in range(2):
        tag = validity.data[validity.at : validity.at + 1]
        if tag not in _TIMES:
            raise ValueError("x509: unsupported time format")
        kind, pattern = _TIMES[tag]
        if not pattern.fullmatch(validity.take(None, f"malformed {kind}")):
            raise ValueError(f"x509: malformed {kind}")
    _check_name(fields.inner(_SEQUENCE, "malformed subject"))
    key = fields.inner(_SEQUENCE, "malformed spki")
    algorithm = key.take(_SEQUENCE, "malformed public key algorithm identifier")
    _check_algorithm(algorithm)
    _check_point(algorithm, key.bits("malformed subjectPublicKey"))
    if version:
        fields.optional(0x81, "malformed issuerUniqueID")
        fields.optional(0x82, "malformed subjectUniqueID")
    extensions = fields.optional(0xA3, "malformed extensions") if version == 2 else None
    if extensions is not None:
        _check_extensions(_Elements(extensions).inner(_SEQUENCE, "malformed extensions"))
    outer.bits("malformed signature")
    return whole.at


def _check_algorithm(content: bytes) -> None:
    algorithm = _Elements(content)
    algorithm.identifier("malformed OID")
    if algorithm:
        algorithm.take(None, "malformed parameters")


def _check_name(names: _Elements) -> None:
    while names:
        parts = names.inner(_SET, _NAME)
        while parts:
            attribute = parts.inner(_SEQUENCE, f"{_NAME}: invalid attribute")
            attribute.identifier(f"{_NAME}: invalid attribute type")
            attribute.take(None, f"{_NAME}: invalid attribute value")


def _check_extensions(extensions: _Elements) -> None:
    seen = set()
    while extensions:
        extension = extensions.inner(_SEQUENCE, "malformed extension")
        name = extension.identifier("malformed extension OID field")
        if name in seen:
            raise ValueError(f'x509: certificate contains duplicate extension with OID "{_dotted(name)}"')
        seen.add(name)
        flag = extension.optional(_BOOLEAN, "malformed extension critical field")
        if flag not in (None, bytes(1), bytes((255,))):
            raise ValueError("x509: malformed extension critical field")
        extension.take(_OCTETS, "malformed extension value field")


def _dotted(identifier: bytes) -> str:
    arcs, arc = [], 0
    for byte in identifier:
        arc = arc << 7 | byte & 0x7F
        if byte < 0x80:
            arcs.append(arc)
            arc = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


class _Field(NamedTuple):
    """A field of one of Go's structs: the tag (None: any), whether it is compound, the name of its type, the fields in it."""

    tag: int | None
    compound: bool | None
    name: str
    parts: tuple[_Field, ...] = ()


_ALGORITHM = _Field(
    16, True, "AlgorithmIdentifier", (_Field(6, False, "ObjectIdentifier"), _Field(None, None, ""))
)  # the last is optional
_BIT_STRING = _Field(3, False, "BitString")
_KEY = _Field(16, True, "publicKeyInfo", (_ALGORITHM, _BIT_STRING))
_FIELDS = _Field(16, True, "tbsCertificateRequest", (_Field(2, False, "int"), _Field(None, None, "RawValue"), _KEY))
_REQUEST = _Field(16, True, "certificateRequest", (_FIELDS, _ALGORITHM, _BIT_STRING))
_UNSET = (
    "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 "
    "timeType:0 set:false omitEmpty:false}"
)


def _check_request(der: bytes) -> None:
    """Raises ValueError as Go's ``asn1.Unmarshal`` of a ``certificateRequest`` for elements that do not fit."""
    if _field(der, 0, _REQUEST) < len(der):
        raise ValueError("asn1: syntax error: trailing data")
    fields = _Elements(der).inner(_SEQUENCE, "").inner(_SEQUENCE, "")
    fields.take(_INTEGER, "")
    fields.take(None, "")
    key = fields.inner(_SEQUENCE, "")
    _check_point(key.take(_SEQUENCE, ""), key.bits(""))


def _field(data: bytes, at: int, wanted: _Field) -> int:
    """Where the field ends.  Raises ValueError."""
    tag, compound, name, parts = wanted
    if at == len(data):
        if tag is None and not name:  # optional
            return at
        raise ValueError("asn1: syntax error: sequence truncated")
    kind, is_compound, found, start, length = _header(data, at)
    if tag is not None and (kind, is_compound, found) != (0, compound, tag):
        shown = f"{{class:{kind} tag:{found} length:{length} isCompound:{str(is_compound).lower()}}}"
        text = f"tags don't match ({tag} vs {shown}) {_UNSET} {name} @{start}"
        raise ValueError(f"asn1: structure error: {text}")
    if start + length > len(data):
        raise ValueError("asn1: syntax error: data truncated")
    inner, place = data[start : start + length], 0
    for part in parts:
        place = _field(inner, place, part)
    if name == "int":
        if not inner:
            raise ValueError("asn1: structure error: empty integer")
        if _is_extended(inner):
            raise ValueError("asn1: structure error: integer not minimally-encoded")
    elif name == "ObjectIdentifier" and not inner:
        raise ValueError("asn1: syntax error: zero length OBJECT IDENTIFIER")
    elif name == "BitString":
        if not inner:
            raise ValueError("asn1: syntax error: zero length BIT STRING")
        if _has_other_bits(inner):
            raise ValueError("asn1: syntax error: invalid padding bits in BIT STRING")
    return start + length


def _header(data: bytes, at: int) -> tuple[int, bool, int, int, int]:
    """(class, whether compound, tag, start of the content, its length).  Raises ValueError."""
    first, at = data[at], at + 1
    tag = first & 0x1F
    if tag == 0x1F:
        tag = 0
        for count in range(6):
            if at == len(data):
                raise ValueError("asn1: syntax error: truncated base 128 integer")
            if count == 5 or tag >> 24:
                raise ValueError("asn1: structure error: base 128 integer too large")
            tag, at = tag << 7 | data[at] & 0x7F, at + 1
            if data[at - 1] < 0x80:
                break
        if tag < 0x1F:
            raise ValueError("asn1: syntax error: non-minimal tag")
    if at == len(data):
        raise ValueError("asn1: syntax error: truncated tag or length")
    length, at = data[at], at + 1
    if length & 0x80:
        count, length = length & 0x7F, 0
        if not count:
            raise ValueError("asn1: syntax error: indefinite length found (not DER)")
        for _ in range(count):
            if at == len(data):
                raise ValueError("asn1: syntax error: truncated tag or length")
            if length >= 1 << 23:
                raise ValueError("asn1: structure error: length too large")
            length, at = length << 8 | data[at], at + 1
            if not length:
                raise ValueError("asn1: structure error: superfluous leading zeros in length")
        if length < 0x80:
            raise ValueError("asn1: structure error: non-minimal length")
    return first >> 6, bool(first & 0x20), tag, at, length


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
