"""Verifying a client's certificate chain against a CA bundle (upstream: apiserver ``request/x509``).

The handshake only proves possession of the key; whether the certificate means anything is decided here, anew after the
bundle was reloaded.  What was verified is remembered, bounded, and never beyond the certificate's own validity.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID
from OpenSSL import crypto

from kapi.authentication.interface import AuthenticationError
from kapi.request.context import RequestContext

_CACHE_SIZE = 2048
_MAX_CACHED_BYTES = 8192  # bytes of a certificate that is remembered
_RECHECK_SECONDS = 60.0  # seconds


class CertificateAuthority:
    """A CA bundle that can be replaced while the server runs."""

    def __init__(self, bundle: bytes, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._verified: dict[bytes, tuple[float, float]] = {}  # fingerprint -> (believed until, valid until)
        self._store = crypto.X509Store()
        self.reload(bundle)

    def reload(self, bundle: bytes) -> None:
        """Takes another PEM bundle.  Raises ValueError and keeps the old one when it holds no certificate."""
        certificates = x509.load_pem_x509_certificates(bundle)
        store = crypto.X509Store()
        for certificate in certificates:
            store.add_cert(crypto.X509.from_cryptography(certificate))
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)  # any certificate of the bundle is an anchor
        self._store = store
        self._verified.clear()

    def verify(self, chain: Sequence[x509.Certificate]) -> float:
        """How long (seconds) the first certificate is still valid.

        Raises AuthenticationError unless it is a client's and leads to the bundle.
        """
        leaf, now = chain[0], self._clock()
        fingerprint = leaf.fingerprint(SHA256())
        until, end = self._verified.get(fingerprint, (0.0, 0.0))
        if until > now:
            return end - now
        if leaf.not_valid_after_utc.timestamp() < now or leaf.not_valid_before_utc.timestamp() > now:
            raise AuthenticationError("x509: certificate has expired or is not yet valid")
        if not _for_clients(leaf):
            raise AuthenticationError("x509: certificate specifies an incompatible key usage")
        intermediates = [crypto.X509.from_cryptography(certificate) for certificate in chain[1:]]
        try:
            path = crypto.X509StoreContext(
                self._store, crypto.X509.from_cryptography(leaf), intermediates
            ).get_verified_chain()
        except crypto.X509StoreContextError:
            raise AuthenticationError("x509: certificate signed by unknown authority") from None
        issuers = [certificate.to_cryptography() for certificate in path]
        if not all(_for_clients(issuer) for issuer in issuers[1:]):
            raise AuthenticationError("x509: certificate specifies an incompatible key usage")
        if len(self._verified) >= _CACHE_SIZE:
            self._verified.clear()
        until = min(certificate.not_valid_after_utc.timestamp() for certificate in issuers)
        end = leaf.not_valid_after_utc.timestamp()
        self._verified[fingerprint] = min(until, now + _RECHECK_SECONDS), end
        return end - now


def _for_clients(certificate: x509.Certificate) -> bool:
    """No extended key usage at all, any, or that of clients."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    except ValueError:
        return False
    return ExtendedKeyUsageOID.CLIENT_AUTH in usage or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage


def peer_chain(ctx: RequestContext) -> list[x509.Certificate]:
    """The certificates the client showed, its own first; empty without TLS or without one.  Read once a connection."""
    transport: Any = getattr(ctx.http, "transport", None)
    if transport is None:
        channel = getattr(ctx.http, "channel", None)
        transport = getattr(channel, "transport", None)
    connection = getattr(transport, "_tlsConnection", None)
    if connection is None:
        getter = getattr(transport, "getPeerCertificate", None)
        leaf = getter() if getter is not None else None
        return [] if leaf is None else [_as_cryptography(leaf)]
    known = getattr(transport, "_kapi_peer_chain", None)
    if known is not None:
        return list(known)
    leaf = connection.get_peer_certificate()
    chain: list[x509.Certificate] = []
    if leaf is not None:
        own = _as_cryptography(leaf)
        rest = [_as_cryptography(each) for each in connection.get_peer_cert_chain() or ()]
        chain = [own, *(each for each in rest if each != own)]
    transport._kapi_peer_chain = chain
    return list(chain)


def _as_cryptography(certificate: Any) -> x509.Certificate:
    if isinstance(certificate, x509.Certificate):
        return certificate
    der = crypto.dump_certificate(crypto.FILETYPE_ASN1, certificate)
    return _parsed(der) if len(der) <= _MAX_CACHED_BYTES else x509.load_der_x509_certificate(der)


@functools.lru_cache(maxsize=_CACHE_SIZE)
def _parsed(der: bytes) -> x509.Certificate:
    """One object for all connections of a client: a thousand watches of one controller hold its certificate once."""
    return x509.load_der_x509_certificate(der)
