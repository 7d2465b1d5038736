"""Certificates for tests of connections to a store."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from tests.certificates import common_name, key_pem, pem, sign

Authority = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def make_authority(path: Path) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = sign(common_name("test authority"), key, ca=True)
    path.write_bytes(pem(certificate))
    return certificate, key


def make_certificate(authority: Authority, path: Path, name: str) -> None:
    """Certificate and key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(pem(sign(common_name(name), key, authority, hosts=[name])) + key_pem(key))
