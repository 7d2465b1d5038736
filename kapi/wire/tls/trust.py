"""Trust and client certificates of outgoing TLS connections: to webhooks, providers, extension servers, kubelets, pods, services
and API servers.

Certificates are verified in the handshake against those of a bundle, or the system's without one; OpenSSL compares the name, too.
As in Go's crypto/x509, each certificate of a bundle is a trust anchor, also when it is not self-signed: an intermediate
authority for the certificates that it signs, a server's certificate for that server; and a name must be one of the alternative
names.  A client command is done before ``cryptography.x509`` would be imported, so nothing here needs it.
"""

from __future__ import annotations

import warnings
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import ReferenceType, ref

from OpenSSL import SSL, crypto
from OpenSSL._util import lib
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.machinery.pem import authority_pool, certificates
from kapi.wire.network_errors import NameMismatch
from kapi.wire.tls.policy import offer

if TYPE_CHECKING:  # commands have no metrics
    import socket

    from kapi.wire.tls.faults import CertificateFaults

_NAME_MISMATCHES = (
    62,
    64,
)  # OpenSSL's codes for names and addresses (X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH)
_NO_COMMON_NAMES = 0x20  # X509_CHECK_FLAG_NEVER_CHECK_SUBJECT
_WHOLE_WILDCARDS = 0x4  # X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS


class Transport(Protocol):
    """What a connection reports to; Twisted's transports have the method, too."""

    def failVerification(self, reason: Failure, /) -> None:
        """Called in the handshake, which OpenSSL then ends."""


class Identity(NamedTuple):
    """A client certificate with its key, and those that lead from it to an authority which the server knows."""

    certificate: crypto.X509
    key: crypto.PKey
    chain: tuple[crypto.X509, ...] = ()


def identity(certificate: bytes, key: bytes) -> Identity | None:
    """The client certificate and its chain, as they follow in one PEM; None without one.

    Raises ValueError for what cannot be read or does not belong together.
    """
    if not certificate:
        return None
    try:
        own, *chain = [_loaded(text) for text in certificates(certificate) or [certificate]]
        made = Identity(own, crypto.load_privatekey(crypto.FILETYPE_PEM, key), tuple(chain))
        _show(SSL.Context(SSL.TLS_CLIENT_METHOD), made)
    except (SSL.Error, crypto.Error) as error:
        raise ValueError(str(error)) from None
    return made


def _loaded(text: bytes) -> crypto.X509:
    return crypto.load_certificate(crypto.FILETYPE_PEM, text)


def _show(context: SSL.Context, own: Identity) -> None:
    """Lets connections show a client certificate.  Raises SSL.Error for a key of another one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of certificates that are not cryptography's
        context.use_certificate(own.certificate)
        for certificate in own.chain:
            context.add_extra_chain_cert(certificate)
    context.use_privatekey(own.key)
    context.check_privatekey()


def _authority(der: bytes) -> crypto.X509:
    """Raises ValueError."""
    try:
        found = crypto.load_certificate(crypto.FILETYPE_ASN1, der)
    except crypto.Error as error:
        raise ValueError(str(error)) from None
    if crypto.dump_certificate(crypto.FILETYPE_ASN1, found) != der:
        raise ValueError("trailing data")
    return found


class Connection(SSL.Connection):
    """A connection that tells its transport of a wrong name; ``faults`` counts the certificates that servers show."""

    transport: ReferenceType[Transport]  # which has this connection
    faults: CertificateFaults | None = None


def _verify(connection: SSL.Connection, certificate: crypto.X509, problem: int, depth: int, fine: int) -> bool:
    assert isinstance(connection, Connection)
    if connection.faults is not None:
        connection.faults.see(certificate, problem, depth)
    if problem in _NAME_MISMATCHES and (transport := connection.transport()) is not None:
        transport.failVerification(Failure(NameMismatch("the certificate is for another name")))
    return bool(fine)


@implementer(IOpenSSLClientConnectionCreator)
class ClientTLS:
    """How connections speak to one server, by its name.  A shallow copy with other ``faults`` is for other connections."""

    faults: CertificateFaults | None = None

    def __init__(self, context: SSL.Context, name: str) -> None:
        self._context = context
        self._name = name.encode("ascii" if name.isascii() else "idna") if name and not _is_address(name) else None

    def connection(self, transport: Transport, over: socket.socket | None = None) -> Connection:
        """A connection of OpenSSL over a socket, or in memory."""
        made = Connection(self._context, over)
        made.transport, made.faults = ref(transport), self.faults
        if self._name is not None:
            made.set_tlsext_host_name(self._name)
        return made

    def clientConnectionForTLS(self, tlsProtocol: Transport) -> Connection:
        """Called by Twisted, for a connection in memory."""
        return self.connection(tlsProtocol)


def client_options(
    name: str,
    bundle: bytes = b"",
    own: Identity | None = None,
    *,
    insecure: bool = False,
    tolerant: bool = False,
) -> ClientTLS:
    """The options for a server of this name.

    ``bundle``: PEM of the trusted authorities, empty for the system's.  A bundle without a certificate is an error; with
    ``tolerant`` no server is trusted then.  ``insecure``: any server is accepted.  Raises ValueError for a bad bundle or name.
    """
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    offer(context)
    if own is not None:
        _show(context, own)
    name = name.removesuffix(".")
    if not insecure:
        context.set_verify(SSL.VERIFY_PEER, _verify)
        _expect(context, name)
        if bundle:
            _trust(context, bundle, required=not tolerant)
        else:
            context.set_default_verify_paths()
    return ClientTLS(context, name)


def _trust(context: SSL.Context, bundle: bytes, *, required: bool) -> None:
    """Trusts what a bundle has.  Raises ValueError with Go's text for one that has nothing when this is ``required``."""
    anchors = context.get_cert_store()
    assert anchors is not None
    try:
        for authority in authority_pool(bundle, _authority):
            anchors.add_cert(authority)
    except ValueError:
        if required:
            raise
    anchors.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)


def _expect(context: SSL.Context, name: str) -> None:
    """Lets OpenSSL compare the server's name or address.  Raises ValueError for what is neither."""
    parameters = lib.SSL_CTX_get0_param(context._context)
    lib.X509_VERIFY_PARAM_set_hostflags(parameters, _NO_COMMON_NAMES | _WHOLE_WILDCARDS)
    try:
        if _is_address(name):
            packed = ip_address(name).packed
            taken = lib.X509_VERIFY_PARAM_set1_ip(parameters, packed, len(packed))
        else:
            text = name.encode("ascii" if name.isascii() else "idna")
            taken = text and lib.X509_VERIFY_PARAM_set1_host(parameters, text, len(text))
    except UnicodeError:
        taken = 0
    if not taken:
        raise ValueError(f"no name of a server: {name!r}")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
