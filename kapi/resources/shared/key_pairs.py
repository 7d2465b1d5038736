"""The errors of Go's ``tls.X509KeyPair`` for a certificate and its private key."""

from __future__ import annotations

from kapi.machinery.pem import blocks


def key_pair_error(certificate: bytes, key: bytes) -> str:
    """The reason why certificate and key (PEM) are not a pair; "" when they are."""
    kinds: list[str] = []
    chain: list[bytes] = []
    for kind, content, *_ in blocks(certificate):
        kinds.append(kind)
        if kind == "CERTIFICATE":
            chain.append(content)
    if not chain:
        return _not_found("certificate", "CERTIFICATE", kinds)
    kinds = []
    private = b""
    for kind, content, *_ in blocks(key):
        if kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY"):
            private = content
            break
        kinds.append(kind)
    if not private:
        return _not_found("key", "PRIVATE KEY", kinds, certificate_in_key="CERTIFICATE" in kinds)
    return _mismatch(chain[0], private)


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


def _mismatch(certificate: bytes, private: bytes) -> str:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    from kapi.machinery import der

    try:
        public = der.certificate(certificate).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "x509: malformed certificate"
    try:
        loaded = der.private_key(private).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    if type(loaded) is not type(public):
        return "tls: private key type does not match public key type"
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if loaded.public_bytes(*form) != public.public_bytes(*form):
        return "tls: private key does not match public key"
    return ""
