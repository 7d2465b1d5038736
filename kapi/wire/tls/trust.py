"""Trust and client certificates of outgoing TLS connections: to webhooks, providers, extension servers, kubelets, pods, services
and API servers.

Certificates are verified in the handshake against those of a bundle, or the system's without one, and names by service-identity.
As in Go's crypto/x509, each certificate of a bundle is a trust anchor, also when it is not self-signed: an intermediate
authority for the certificates that it signs, a server's certificate for that server.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, NamedTuple

from OpenSSL import SSL, crypto
from twisted.internet import ssl
from twisted.internet.error import VerifyError
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.protocol import Factory, Protocol
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

from kapi.machinery.pem import authority_pool, certificates
from kapi.wire.tls.policy import outgoing


def authorities(bundle: bytes, *, required: bool = True) -> Any:
    """The certificates of a PEM bundle as Twisted's trust root.

    Raises ValueError with Go's text for a bundle without a certificate that can be read when ``required``; otherwise no server
    is trusted then.
    """
    try:
        found = authority_pool(bundle)
    except ValueError:
        if required:
            raise
        found = []
    return ssl.trustRootFromCertificates([ssl.Certificate.load(data, crypto.FILETYPE_ASN1) for data in found])


class Identity(NamedTuple):
    """A client certificate with its key, and the intermediate certificates up to an authority that the server knows."""

    own: ssl.PrivateCertificate
    chain: tuple[ssl.Certificate, ...] = ()


def identity(certificate: bytes, key: bytes) -> Identity | None:
    """The client certificate and its chain, in the order of one PEM text; None without a certificate.

    Raises ValueError for what cannot be read or does not belong together, where it can in Go's words.
    """
    if not certificate:
        return None
    for what, content in (("certificate", certificate), ("key", key)):
        if b"-----BEGIN " not in content:
            raise ValueError(f"tls: failed to find any PEM data in {what} input")
    try:
        first, *others = certificates(certificate) or [certificate]
        own: ssl.PrivateCertificate = ssl.PrivateCertificate.fromCertificateAndKeyPair(
            ssl.Certificate.loadPEM(first), ssl.KeyPair.load(key, crypto.FILETYPE_PEM)
        )
        return Identity(own, tuple(ssl.Certificate.loadPEM(other) for other in others))
    except (SSL.Error, crypto.Error, VerifyError) as error:
        raise ValueError(str(error)) from None


def client_options(
    name: str, bundle: bytes = b"", own: Identity | None = None, *, insecure: bool = False, tolerant: bool = False
) -> IOpenSSLClientConnectionCreator:
    """Twisted's TLS options for a server of this name.

    ``bundle``: PEM of the trusted authorities, empty for the system's.  A bundle without a certificate is an error; with
    ``tolerant`` no server is trusted then.  ``insecure``: any server is accepted.  Raises ValueError for a bad bundle.
    """
    if insecure:
        return unverified_options(name, own)
    return verified_options(name, authorities(bundle, required=not tolerant) if bundle else None, own)


def verified_options(name: str, trust: Any, own: Identity | None) -> IOpenSSLClientConnectionCreator:
    """Twisted's TLS options; ``trust`` None is the system's authorities."""
    made = ssl.optionsForClientTLS(name, trust, extraCertificateOptions=_options(own))
    if trust is not None:
        anchors = context_of(made).get_cert_store()
        assert anchors is not None  # it holds the bundle
        anchors.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    return made


def _options(identity: Identity | None) -> dict[str, Any]:
    """Arguments of Twisted's CertificateOptions."""
    if identity is None:
        return {**outgoing()}
    own, chain = identity.own, [each.original for each in identity.chain]
    return {**outgoing(), "privateKey": own.privateKey.original, "certificate": own.original, "extraCertChain": chain}


def context_of(options: IOpenSSLClientConnectionCreator) -> SSL.Context:
    """The OpenSSL context of ``options``."""
    in_memory = TLSMemoryBIOFactory(options, True, Factory.forProtocol(Protocol)).buildProtocol(None)
    assert in_memory is not None
    return options.clientConnectionForTLS(in_memory).get_context()


@implementer(IOpenSSLClientConnectionCreator)
class _Unverified:
    """TLS without verification: any server is accepted.

    ``kapi.wire.tls.client`` replaces ``_createConnection`` by one over a socket.
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


def unverified_options(name: str, own: Identity | None) -> IOpenSSLClientConnectionCreator:
    """As ``verified_options``, but any server is accepted."""
    return _Unverified(ssl.CertificateOptions(verify=False, **_options(own)).getContext(), name)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
