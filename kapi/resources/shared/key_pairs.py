"""The errors of Go's ``tls.X509KeyPair`` for a certificate and its private key."""

from __future__ import annotations

from kapi.machinery.pem import blocks


def key_pair_error(certificate: bytes, key: bytes) -> str:
    """Why certificate and key (PEM) are not a pair; "" when they are."""
    kinds: list[str] = []
    chain: list[bytes] = []
    for kind, der, *_ in blocks(certificate):
        kinds.append(kind)
        if kind == "CERTIFICATE":
            chain.append(der)
    if not chain:
        return _not_found("certificate", "CERTIFICATE", kinds)
    kinds = []
    private = b""
    for kind, der, *_ in blocks(key):
        if kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY"):
            private = der
            break
        kinds.append(kind)
    if not private:
        return _not_found("key", "PRIVATE KEY", kinds, certificate_in_key="CERTIFICATE" in kinds)
    return _mismatch(chain[0], private, key)


def _not_found(what: str, wanted: str, kinds: list[str], certificate_in_key: bool = False) -> str:
    if not kinds:
        return f"tls: failed to find any PEM data in {what} input"
    if what == "certificate" and len(kinds) == 1 and kinds[0].endswith("PRIVATE KEY"):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may "
            "have been switched"
        )
    if what == "key" and len(kinds) == 1 and certificate_in_key:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    shown = "[" + " ".join(kinds) + "]"
    if what == "certificate":
        return (
            'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the '
            f"following types: {shown}"
        )
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the '
        f"following types: {shown}"
    )


def _mismatch(certificate: bytes, private: bytes, pem: bytes) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, TypeError):
        return "x509: malformed certificate"
    try:
        try:
            loaded = serialization.load_der_private_key(private, None)
        except (ValueError, TypeError):
            loaded = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        return "tls: failed to parse private key"
    if type(loaded.public_key()) is not type(public):
        return "tls: private key type does not match public key type"
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    der = serialization.Encoding.DER
    if loaded.public_key().public_bytes(der, spki) != public.public_bytes(der, spki):
        return "tls: private key does not match public key"
    return ""
