"""Client certificates (CN is the user, each O a group), verified against a CA bundle; and requests of an authenticating proxy.

Upstream: apiserver ``request/x509``, ``request/headerrequest``.  The handshake only proves possession of the key.
The certificate is verified here, and again after a reload of the bundle.  Results are cached, in bounded number, and at most
until the certificate expires.  Headers of a proxy count only with a verified certificate of the proxy.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import crypto

from kapi.authentication.interface import AuthenticationError
from kapi.machinery.meters import Histogram, histogram
from kapi.request.context import RequestContext
from kapi.request.headers import (
    all_headers,
    first_header,
    headers_with_prefix,
    remove_header,
    remove_headers_with_prefix,
)
from kapi.request.user import CREDENTIAL_ID, UserInfo

_CACHE_SIZE = 2048
_MAX_CACHED_BYTES = 8192  # bytes of a certificate whose result is cached
_RECHECK_SECONDS = 60.0
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


class CertificateAuthority:
    """A CA bundle that can be replaced while the server runs."""

    def __init__(self, bundle: bytes, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._verified: dict[bytes, tuple[float, float]] = {}  # fingerprint -> (cached until, valid until)
        self._store = crypto.X509Store()
        self.certificates: Sequence[x509.Certificate] = ()
        self.reload(bundle)

    def reload(self, bundle: bytes) -> None:
        """Replaces the PEM bundle.  Raises ValueError, and keeps the old bundle, when the new one has no certificate."""
        certificates = x509.load_pem_x509_certificates(bundle)
        store = crypto.X509Store()
        for certificate in certificates:
            store.add_cert(crypto.X509.from_cryptography(certificate))
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)  # any certificate of the bundle is an anchor
        self._store, self.certificates = store, certificates
        self._verified.clear()

    def verify(self, chain: Sequence[x509.Certificate]) -> float:
        """Verifies the first certificate, and returns the seconds until it expires.

        Raises AuthenticationError unless it is a client certificate with a chain to the bundle.
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
    """Whether the extended key usage is absent, "any", or client authentication."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    except ValueError:
        return False
    return ExtendedKeyUsageOID.CLIENT_AUTH in usage or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage


def peer_chain(ctx: RequestContext) -> list[x509.Certificate]:
    """The certificates that the client sent, its own first; empty without any.  Read once a connection."""
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
    """Shares one object between all connections of a client, so that a controller's thousand watches do not hold copies."""
    return x509.load_der_x509_certificate(der)


def expirations() -> Histogram:
    """The metric of the remaining validity of client certificates, under upstream's name."""
    hour, day = 3600, 86_400
    bounds = (0, hour / 2, hour, 2 * hour, 6 * hour, 12 * hour, *(n * day for n in (1, 2, 4, 7, 30, 90, 180, 360)))
    return histogram("apiserver_client_certificate_expiration_seconds", tuple(map(float, bounds)))


class ClientCertificateAuthenticator:
    """``reads_uid``: whether the user's uid is read from the subject of a certificate."""

    def __init__(
        self, authority: CertificateAuthority, lifetimes: Histogram | None = None, reads_uid: bool = True
    ) -> None:
        self.authority = authority
        self._reads_uid = reads_uid
        self.lifetimes = lifetimes or expirations()

    def authenticate(self, ctx: RequestContext) -> UserInfo | None:
        chain = peer_chain(ctx)
        if not chain:
            return None
        self.lifetimes.observe(self.authority.verify(chain))
        return certificate_user(chain[0], self._reads_uid)


def certificate_subject(certificate: x509.Certificate) -> x509.Name:
    """The subject.  It is decoded only here, and some encodings of its text cannot be decoded."""
    try:
        return certificate.subject
    except ValueError as error:
        raise AuthenticationError(f"x509: {error}") from None


@functools.lru_cache(maxsize=1024)
def certificate_user(certificate: x509.Certificate, reads_uid: bool = True) -> UserInfo | None:
    """The identity in a verified certificate; None without a common name."""
    subject = certificate_subject(certificate)
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names or not names[-1].value:
        return None
    uids = subject.get_attributes_for_oid(_UID) if reads_uid else []
    if len(uids) > 1:
        raise AuthenticationError("expected 1 UID, but found multiple")
    groups = tuple(str(item.value) for item in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    return UserInfo(
        str(names[-1].value),
        uid=str(uids[0].value) if uids else "",
        groups=groups,
        extra={CREDENTIAL_ID: ("X509SHA256=" + certificate.fingerprint(SHA256()).hex(),)},
    )


class FrontProxyAuthenticator:
    """``allowed_names`` are common names of the proxy's certificate; empty allows every certificate that the CA signed."""

    def __init__(
        self,
        authority: CertificateAuthority,
        allowed_names: Sequence[str] = (),
        user_headers: Sequence[str] = ("X-Remote-User",),
        uid_headers: Sequence[str] = (),
        group_headers: Sequence[str] = ("X-Remote-Group",),
        extra_prefixes: Sequence[str] = ("X-Remote-Extra-",),
    ) -> None:
        self.authority = authority
        self.allowed_names = frozenset(allowed_names)
        self.user_headers = tuple(user_headers)
        self.uid_headers = tuple(uid_headers)
        self.group_headers = tuple(group_headers)
        self.extra_prefixes = tuple(extra_prefixes)

    def authenticate(self, ctx: RequestContext) -> UserInfo | None:
        chain = peer_chain(ctx)
        if not chain:
            return None
        self.authority.verify(chain)
        if self.allowed_names:
            subject = certificate_subject(chain[0])
            names = [str(item.value) for item in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
            if not names or names[-1] not in self.allowed_names:
                raise AuthenticationError("x509: subject with cn is not in the allowed list")
        user = self._user(ctx)
        if user is not None:
            self._clear(ctx)
        return user

    def _user(self, ctx: RequestContext) -> UserInfo | None:
        name = next((value for value in (first_header(ctx, each) for each in self.user_headers) if value), "")
        if not name:
            return None
        uid = next((value for value in (first_header(ctx, each) for each in self.uid_headers) if value), "")
        groups = tuple(value for header in self.group_headers for value in all_headers(ctx, header) if value)
        extra: dict[str, tuple[str, ...]] = {}
        for prefix in self.extra_prefixes:
            for escaped, values in headers_with_prefix(ctx, prefix):
                key = unescape_key(escaped)
                extra[key] = extra.get(key, ()) + tuple(values)
        return UserInfo(name, uid=uid, groups=groups, extra=extra)

    def _clear(self, ctx: RequestContext) -> None:
        for header in (*self.user_headers, *self.uid_headers, *self.group_headers):
            remove_header(ctx, header)
        for prefix in self.extra_prefixes:
            remove_headers_with_prefix(ctx, prefix)


def unescape_key(key: str) -> str:
    """A percent-encoded key of an extra header; returned unchanged when an escape is invalid."""
    return key if _BAD_ESCAPE.search(key) else unquote(key, errors="replace")
