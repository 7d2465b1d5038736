"""Whom an outgoing TLS connection trusts and what it shows: one policy for webhooks, providers, extension servers, kubelets,
pods, services and API servers.

Names are verified in the handshake (service-identity) against the certificates of a bundle, without one against the
system's.  As by Go's crypto/x509, each certificate of a bundle is an anchor, also one that nobody in the bundle has signed:
an intermediate authority for what it signs, a server's for that server.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from OpenSSL import SSL, crypto
from twisted.internet import ssl
from twisted.internet.error import VerifyError
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.protocol import Factory, Protocol
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

_BEGIN = b"-----BEGIN CERTIFICATE-----"


class NoCertificates(ValueError):
    """There is none in the bundle."""


def authorities(bundle: bytes, *, required: bool = True) -> Any:
    """The certificates of a PEM bundle as Twisted's trust root.

    Raises ValueError for one that cannot be read; NoCertificates for a bundle without any, unless that is to mean that
    nobody is trusted (``required`` False).
    """
    try:
        found = [ssl.Certificate.loadPEM(_BEGIN + block) for block in bundle.split(_BEGIN)[1:]]
    except (SSL.Error, crypto.Error) as error:
        raise ValueError(str(error)) from None
    if required and not found:
        raise NoCertificates("no PEM certificate in it")
    return ssl.trustRootFromCertificates(found)


def identity(certificate: bytes, key: bytes) -> ssl.PrivateCertificate | None:
    """What the server is shown; None without a certificate.  Raises ValueError for PEM that does not belong together."""
    if not certificate:
        return None
    try:
        pair: ssl.PrivateCertificate = ssl.PrivateCertificate.fromCertificateAndKeyPair(
            ssl.Certificate.loadPEM(certificate), ssl.KeyPair.load(key, crypto.FILETYPE_PEM)
        )
    except (SSL.Error, crypto.Error, VerifyError) as error:
        raise ValueError(str(error)) from None
    return pair


def client_options(
    name: str,
    bundle: bytes = b"",
    own: ssl.PrivateCertificate | None = None,
    *,
    insecure: bool = False,
    tolerant: bool = False,
) -> IOpenSSLClientConnectionCreator:
    """What Twisted makes connections with to a server of this name.

    ``bundle``: PEM of whom to trust, empty for the system's authorities; one without a certificate is an error, or with
    ``tolerant`` nobody is trusted.  ``insecure``: whoever answers.  Raises ValueError for a bundle that cannot be used.
    """
    if insecure:
        return unverified_options(name, own)
    return verified_options(name, authorities(bundle, required=not tolerant) if bundle else None, own)


def verified_options(name: str, trust: Any, own: ssl.PrivateCertificate | None) -> IOpenSSLClientConnectionCreator:
    """What Twisted makes connections with; ``trust`` None is the system's authorities."""
    if trust is None:
        return ssl.optionsForClientTLS(name, clientCertificate=own)
    made = ssl.optionsForClientTLS(name, trust, own)
    anchors = context_of(made).get_cert_store()
    assert anchors is not None  # it holds the bundle
    anchors.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    return made


def context_of(options: IOpenSSLClientConnectionCreator) -> SSL.Context:
    """What OpenSSL makes the connections of ``options`` from."""
    in_memory = TLSMemoryBIOFactory(options, True, Factory.forProtocol(Protocol)).buildProtocol(None)
    assert in_memory is not None
    return options.clientConnectionForTLS(in_memory).get_context()


@implementer(IOpenSSLClientConnectionCreator)
class _Unverified:
    """TLS without verification: any server is accepted.

    ``_createConnection`` is where ``kapi.client.tls_client`` puts the socket in.
    """

    def __init__(self, context: SSL.Context, name: str) -> None:
        self._context = context
        self._name = None if not name or _is_address(name) else name.encode("idna")
        self._createConnection: Callable[[object], SSL.Connection] = self._create

    def _create(self, transport: object) -> SSL.Connection:
        connection = SSL.Connection(self._context, None)
        connection.set_app_data(transport)
        return connection

    def clientConnectionForTLS(self, tlsProtocol: object) -> SSL.Connection:
        connection: SSL.Connection = self._createConnection(tlsProtocol)
        if self._name is not None:
            connection.set_tlsext_host_name(self._name)
        return connection


def unverified_options(name: str, own: ssl.PrivateCertificate | None) -> IOpenSSLClientConnectionCreator:
    """As ``verified_options``, with whoever answers."""
    pair = {} if own is None else {"privateKey": own.privateKey.original, "certificate": own.original}
    made: Any = ssl.CertificateOptions
    return _Unverified(made(verify=False, raiseMinimumTo=ssl.TLSVersion.TLSv1_2, **pair).getContext(), name)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
