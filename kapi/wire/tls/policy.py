"""What TLS connections may use, in both directions: versions and cipher suites, those of Go's crypto/tls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from OpenSSL import SSL
from twisted.internet.ssl import AcceptableCiphers, TLSVersion

VERSIONS = {"VersionTLS12": SSL.TLS1_2_VERSION, "VersionTLS13": SSL.TLS1_3_VERSION}
OLDEST = "VersionTLS12"
#: suites of TLS 1.2, in OpenSSL's names
CIPHERS = (
    "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
)  # fmt: skip
#: also offered to other servers, since some support no newer suites
_OLDER_CIPHERS = (
    "ECDHE-ECDSA-AES128-SHA", "ECDHE-RSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA", "ECDHE-RSA-AES256-SHA",
)  # fmt: skip
_TLS13_CIPHERS = b"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"


def restrict(context: SSL.Context, minimum: str = OLDEST, ciphers: Sequence[str] = CIPHERS) -> None:
    """Restricts the connections of a server's ``context``: no older version, no other suite, no renegotiation."""
    context.set_min_proto_version(VERSIONS[minimum])
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION)
    context.set_tls13_ciphersuites(_TLS13_CIPHERS)
    context.set_cipher_list(":".join(ciphers).encode())


@cache
def outgoing() -> Mapping[str, Any]:
    """The same for connections to other servers, as arguments of Twisted's ``CertificateOptions``."""
    ciphers = AcceptableCiphers.fromOpenSSLCipherString(":".join(CIPHERS + _OLDER_CIPHERS))
    return {"raiseMinimumTo": TLSVersion.TLSv1_2, "acceptableCiphers": ciphers}
