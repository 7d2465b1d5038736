"""TLS contexts: minimum version, cipher suites, ALPN, a certificate for each server name, reload without a restart.

Client certificates are requested but not required (upstream: ``RequestClientCert``).  They are not verified here: the
authenticator verifies them for every request, with the current CA bundle.  Sessions are never resumed, so that no earlier
identity survives in a ticket.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID
from OpenSSL import SSL, _util, crypto
from twisted.logger import Logger

from kapi.machinery.names import dns_subdomain
from kapi.machinery.netip import parse_ip
from kapi.wire.tls.policy import CIPHERS, OLDEST, restrict

log = Logger()

_SET_CURVES = _util.lib.SSL_CTX_set1_curves_list  # pyOpenSSL itself can set only one curve
_CLEAR_MODE = _util.lib.SSL_CTX_clear_mode  # public since pyOpenSSL 25.2
_PARTIAL_WRITE = _util.lib.SSL_MODE_ENABLE_PARTIAL_WRITE


class CertificateError(ValueError):
    """A certificate or key that cannot be used."""


class KeyPair(msgspec.Struct, frozen=True):
    """Files of a certificate chain and its key; ``names`` are hosts and wildcards for the first label, by default its own."""

    certificate: str
    key: str
    names: tuple[str, ...] = ()


class TLSSettings(msgspec.Struct, frozen=True):
    default: KeyPair
    sni: Sequence[KeyPair] = ()
    minimum_version: str = OLDEST
    ciphers: Sequence[str] = ()
    protocols: Sequence[bytes] = (b"h2", b"http/1.1")
    curves: Sequence[str] = ()


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CertificateError(f"cannot read {path}: {error.strerror or error}") from None


def load_pair(pair: KeyPair) -> tuple[list[x509.Certificate], Any]:
    """The chain and the key.  Raises CertificateError when they do not belong together."""
    try:
        chain = x509.load_pem_x509_certificates(_read(pair.certificate))
    except ValueError as error:
        if isinstance(error, CertificateError):
            raise
        raise CertificateError(f"{pair.certificate}: no certificate: {error}") from None
    try:
        key: Any = serialization.load_pem_private_key(_read(pair.key), None)
    except CertificateError:
        raise
    except (ValueError, TypeError) as error:
        raise CertificateError(f"{pair.key}: no private key: {error}") from None
    spki = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    if key.public_key().public_bytes(*spki) != chain[0].public_key().public_bytes(*spki):
        raise CertificateError(f"tls: private key {pair.key} does not match public key of {pair.certificate}")
    return chain, key


def host_names(certificate: x509.Certificate) -> tuple[str, ...]:
    """The DNS names a certificate is for.  Raises CertificateError when it has an extension twice."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    except x509.UnsupportedGeneralNameType:  # without its names it may still be the default one
        return ()
    except x509.DuplicateExtension:
        raise CertificateError("x509: certificate contains duplicate extensions") from None
    return tuple(names.get_values_for_type(x509.DNSName))


def _own_names(certificate: x509.Certificate) -> tuple[str, ...]:
    """The names for which a certificate is chosen when none are configured: also its common name, if that is a host's.

    Upstream: ``dynamiccertificates/named_certificates.go``.
    """
    found = host_names(certificate)
    for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[-1:]:  # Go takes the last one
        name = str(attribute.value)
        if name == "*" or parse_ip(name) is None and not dns_subdomain(name.removeprefix("*.")):
            found = (*found, name)
    return found


class ServerContexts:
    """Makes a TLS connection for each client, with the current certificates."""

    def __init__(self, settings: TLSSettings) -> None:
        self.settings = settings
        self._authorities: tuple[x509.Certificate, ...] = ()
        self._stamp: tuple[object, ...] = ()
        #: by names and wildcards, looked up in turn: the names given or found for SNI, those that the default certificate is
        #: valid for, and those of the other certificates
        self._named: list[dict[str, SSL.Context]] = []
        self._default: SSL.Context
        self._load()

    def files(self) -> list[str]:
        """The certificates and keys."""
        pairs = (self.settings.default, *self.settings.sni)
        return [file for pair in pairs for file in (pair.certificate, pair.key)]

    def name_authorities(self, certificates: Sequence[x509.Certificate]) -> None:
        """Names the authorities whose certificates clients are asked for, by which some clients choose one."""
        before, self._authorities = self._authorities, tuple(certificates)
        if self._authorities == before:
            return
        try:
            self._load()
        except ValueError as error:
            self._authorities = before
            log.error("The names of authorities were not changed: {error}", error=str(error))

    def _fingerprint(self) -> tuple[object, ...]:
        return tuple((path, _read(path)) for path in self.files())

    def _load(self) -> None:
        stamp = self._fingerprint()
        default, default_chain = self._context(self.settings.default)
        given: dict[str, SSL.Context] = {}
        own: dict[str, SSL.Context] = {}
        valid: dict[str, SSL.Context] = {}
        for pair in reversed(self.settings.sni):  # earlier ones take precedence
            context, chain = self._context(pair)
            if pair.names:
                given |= _by_name(pair.names, context)
            else:
                own |= _by_name(_own_names(chain[0]), context)
            valid |= _by_name(host_names(chain[0]), context)
        named = [own | given, _by_name(host_names(default_chain[0]), default), valid]
        self._default, self._named, self._stamp = default, named, stamp

    def reload(self) -> bool:
        """Reads the files again.  Open connections stay.  Returns False when they are unchanged, or invalid (logged)."""
        try:
            if self._fingerprint() == self._stamp:
                return False
            self._load()
        except ValueError as error:
            log.error("The serving certificate was not reloaded: {error}", error=str(error))
            return False
        log.info("The serving certificate was reloaded")
        return True

    def _context(self, pair: KeyPair) -> tuple[SSL.Context, list[x509.Certificate]]:
        settings = self.settings
        chain, key = load_pair(pair)
        context = SSL.Context(SSL.TLS_SERVER_METHOD)
        restrict(context, settings.minimum_version, settings.ciphers or CIPHERS)
        context.set_options(SSL.OP_NO_TICKET | SSL.OP_CIPHER_SERVER_PREFERENCE)
        context.set_mode(SSL.MODE_RELEASE_BUFFERS)
        _CLEAR_MODE(context._context, _PARTIAL_WRITE)  # with partial writes, each call would end after one record
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_session_id(b"kapi")
        if settings.curves and not _SET_CURVES(context._context, ":".join(settings.curves).encode()):
            raise CertificateError(
                f"--tls-curve-preferences: OpenSSL does not know all of {', '.join(settings.curves)}"
            )
        context.use_certificate(crypto.X509.from_cryptography(chain[0]))
        for extra in chain[1:]:
            context.add_extra_chain_cert(crypto.X509.from_cryptography(extra))
        context.use_privatekey(crypto.PKey.from_cryptography_key(key))
        context.set_verify(SSL.VERIFY_PEER, _accept_any)
        for authority in self._authorities:
            context.add_client_ca(crypto.X509.from_cryptography(authority))
        context.set_alpn_select_callback(self._select_protocol)
        context.set_tlsext_servername_callback(self._select_certificate)
        return context, chain

    def _select_protocol(self, connection: SSL.Connection, offered: list[bytes]) -> Any:
        for protocol in self.settings.protocols:
            if protocol in offered:
                return protocol
        return SSL.NO_OVERLAPPING_PROTOCOLS

    def _select_certificate(self, connection: SSL.Connection) -> None:
        name = (connection.get_servername() or b"").decode("ascii", "replace").lower().rstrip(".")
        if not name:
            return
        wildcard = "*" + name[len(name.partition(".")[0]) :]  # for the first label
        for contexts in self._named:
            found = contexts.get(name) or contexts.get(wildcard)
            if found is not None:
                connection.set_context(found)
                return

    def connection(self, sock: socket.socket | None) -> SSL.Connection:
        """A TLS connection over a socket, or with buffers in memory."""
        return SSL.Connection(self._default, sock)


def _by_name(names: Sequence[str], context: SSL.Context) -> dict[str, SSL.Context]:
    return dict.fromkeys(map(str.lower, names), context)


def _accept_any(connection: object, certificate: object, error: int, depth: int, ok: int) -> bool:
    """Accepts any certificate: the handshake proves possession of the key, and the authenticator decides about the rest."""
    return True
