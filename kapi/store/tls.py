"""TLS to a store's server: the files that its URL names, and explanations for connections that fail because of TLS."""

from __future__ import annotations

from pathlib import Path

from OpenSSL import SSL
from service_identity import VerificationError
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator

from kapi.wire.tls import trust
from kapi.wire.tls.trust import identity

#: OpenSSL's errors for bytes that are not TLS
_NOT_TLS = (
    "wrong version number",
    "packet length too long",
    "http request",
    "record layer failure",
    "unknown protocol",
)
#: alerts of a server that does not take our certificate, or wants one
_ALERTS = ("certificate required", "handshake failure", "bad certificate", "unknown ca", "certificate unknown")


def client_options(host: str, ca: str, cert: str, key: str) -> IOpenSSLClientConnectionCreator:
    """Options that verify the server's certificate and its name ``host``; txredisapi's own context would not.

    The others are paths of files, or empty.  Raises OSError and ValueError.
    """
    bundle = Path(ca).read_bytes() if ca else b""
    own = identity(Path(cert).read_bytes(), Path(key or cert).read_bytes()) if cert else None
    try:
        return trust.client_options(host, bundle, own)
    except ValueError as error:
        raise ValueError(f"{ca}: {error}") from None


def why_lost(error: BaseException) -> str:
    """Why a connection over TLS was lost, in words for operators; "" when the error is not about TLS."""
    if isinstance(error, VerificationError):
        return "the server's certificate is for another name; server-name= in the URL can name it"
    if not isinstance(error, SSL.Error):
        return ""
    reasons = [part[-1] for part in error.args[0]] if error.args and isinstance(error.args[0], list) else []
    text = ", ".join(map(str, reasons)) or "TLS failed"
    if "certificate verify failed" in text:
        return f"{text}: the certificate has expired, or its CA is not in the file that ca= in the URL names"
    if any(found in text for found in _NOT_TLS):
        return f"{text}: if the port does not speak TLS, use redis://"
    if any(found in text for found in _ALERTS):
        return f"{text}: the server wants a certificate of a CA that it trusts; cert= and key= in the URL name it"
    return text
