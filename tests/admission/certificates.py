"""Certificates for servers that admission calls, and requests for certificates."""

from __future__ import annotations

import base64

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.certificates import self_signed


def make_certificate(*names: str) -> tuple[bytes, bytes]:
    """(certificate, key) in PEM, signed by itself, for names and addresses."""
    return self_signed(*names)


def make_request(name: str, group: str = "") -> bytes:
    """A certificate signing request in PEM."""
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    subject = x509.Name(names)
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM)


def make_unreadable_request(name: str) -> bytes:
    """A signing request in PEM whose subject has an organization that is no UTF-8."""
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "abcdef"), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    der = request.public_bytes(serialization.Encoding.DER).replace(b"abcdef", b"abc\xe9ef")
    text = base64.encodebytes(der).decode()
    return f"-----BEGIN CERTIFICATE REQUEST-----\n{text}-----END CERTIFICATE REQUEST-----\n".encode()
