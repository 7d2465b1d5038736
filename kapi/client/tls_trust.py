"""Whom an outgoing TLS connection trusts: the authorities of a PEM bundle, or anybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from OpenSSL import SSL
from twisted.internet import ssl
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from zope.interface import implementer

from kapi.client.config import ConfigError

_BEGIN = b"-----BEGIN CERTIFICATE-----"


def trust_root(bundle: bytes) -> Any:
    """Raises ConfigError."""
    try:
        found = [ssl.Certificate.loadPEM(_BEGIN + block) for block in bundle.split(_BEGIN)[1:]]
    except (SSL.Error, ValueError):
        found = []
    if not found:
        raise ConfigError("unable to load root certificates: no PEM certificate in it", field="certificate-authority")
    return ssl.trustRootFromCertificates(found)


@implementer(IOpenSSLClientConnectionCreator)
class _Unverified:
    """TLS with whoever answers.  ``_createConnection`` is where ``kapi.client.tls_client`` puts the socket in."""

    def __init__(self, context: SSL.Context, name: str) -> None:
        self._context = context
        self._name = None if not name or name.replace(".", "").isdigit() or ":" in name else name.encode("idna")
        self._createConnection: Callable[[Any], SSL.Connection] = lambda transport: SSL.Connection(self._context, None)

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        connection: SSL.Connection = self._createConnection(tlsProtocol)
        if self._name is not None:
            connection.set_tlsext_host_name(self._name)
        return connection


def unverified_options(name: str, own: Any) -> Any:
    """As ``optionsForClientTLS``, without its verification of the server."""
    pair = {} if own is None else {"privateKey": own.privateKey.original, "certificate": own.original}
    made: Any = ssl.CertificateOptions
    return _Unverified(made(verify=False, **pair).getContext(), name)
