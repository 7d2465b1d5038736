"""Certificates that tests make.

They have the extensions that RFC 5280 asks for, without which Python's own clients refuse them since 3.13.
"""

from __future__ import annotations

import atexit
import datetime
import functools
import shutil
import tempfile
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from kapi.serving import pki

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
DAY = datetime.timedelta(days=1)
_USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "key_cert_sign",
    "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip
_USAGES_OF_AUTHORITY = ("digital_signature", "key_cert_sign", "crl_sign")


def sign(
    subject: x509.Name,
    key: Key,
    authority: tuple[x509.Certificate, Key] | None = None,
    *,
    ca: bool = False,
    hosts: Iterable[str] = (),
    usage: x509.ObjectIdentifier | None = None,
    start: datetime.datetime | None = None,
    end: datetime.datetime | None = None,
) -> x509.Certificate:
    """A certificate for a subject with that key, for hosts by name or IP address; signed by itself without an authority.

    It is valid from yesterday until tomorrow.
    """
    issuer, signer = (subject, key) if authority is None else (authority[0].subject, authority[1])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY if start is None else start)
        .not_valid_after(now + DAY if end is None else end)
        .add_extension(x509.BasicConstraints(ca, None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    names = [_general_name(host) for host in hosts]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if ca:
        usages = {name: name in _USAGES_OF_AUTHORITY for name in _USAGES}
        builder = builder.add_extension(x509.KeyUsage(**usages), critical=True)
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return builder.sign(signer, hashes.SHA256())


@functools.cache
def server_files() -> pki.Files:
    """What a server makes at its first start, for all servers of this process that only read them."""
    directory = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, directory)
    return pki.ensure(directory / "pki", ["localhost", "127.0.0.1"])


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def self_signed(*hosts: str) -> tuple[bytes, bytes]:
    """A certificate for names and IP addresses, which is its own authority, and its key; both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    return pem(sign(common_name(hosts[0]), key, ca=True, hosts=hosts)), key_pem(key)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
