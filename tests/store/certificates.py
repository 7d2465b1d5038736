"""Certificates for tests."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Authority = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def _build(name: str, key: ec.EllipticCurvePrivateKey, issuer: x509.Name | None) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
    )


def make_authority(path: Path) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _build("test authority", key, None).add_extension(x509.BasicConstraints(True, None), True)
    certificate = builder.sign(key, hashes.SHA256())
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def make_certificate(authority: Authority, path: Path, name: str) -> None:
    """Certificate and key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _build(name, key, authority[0].subject).add_extension(
        x509.SubjectAlternativeName([x509.DNSName(name)]), False
    )
    certificate = builder.sign(authority[1], hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
