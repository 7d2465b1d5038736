"""Client certificates: CN is the user, each O a group (upstream: apiserver ``request/x509``)."""

from __future__ import annotations

import functools

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from kapi.authentication.certificates import CertificateAuthority, peer_chain
from kapi.authentication.interface import AuthenticationError
from kapi.machinery.meters import Histogram
from kapi.request.context import RequestContext
from kapi.request.user import CREDENTIAL_ID, UserInfo

_UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


def expirations() -> Histogram:
    """How long the certificates in use are still valid, under upstream's name."""
    hour, day = 3600, 86_400
    bounds = (0, hour / 2, hour, 2 * hour, 6 * hour, 12 * hour, *(n * day for n in (1, 2, 4, 7, 30, 90, 180, 360)))
    return Histogram(
        "apiserver_client_certificate_expiration_seconds",
        "[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.",
        (),
        tuple(map(float, bounds)),
    )


class ClientCertificateAuthenticator:
    def __init__(self, authority: CertificateAuthority, lifetimes: Histogram | None = None) -> None:
        self.authority = authority
        self.lifetimes = lifetimes or expirations()

    def authenticate(self, ctx: RequestContext) -> UserInfo | None:
        chain = peer_chain(ctx)
        if not chain:
            return None
        self.lifetimes.observe(self.authority.verify(chain))
        return certificate_user(chain[0])


def certificate_subject(certificate: x509.Certificate) -> x509.Name:
    """It is only decoded when it is read, and some encodings of its text are not readable."""
    try:
        return certificate.subject
    except ValueError as error:
        raise AuthenticationError(f"x509: {error}") from None


@functools.lru_cache(maxsize=1024)
def certificate_user(certificate: x509.Certificate) -> UserInfo | None:
    """The identity in a verified certificate; None without a common name."""
    subject = certificate_subject(certificate)
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names or not names[-1].value:
        return None
    uids = subject.get_attributes_for_oid(_UID)
    if len(uids) > 1:
        raise AuthenticationError("expected 1 UID, but found multiple")
    groups = tuple(str(item.value) for item in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    return UserInfo(
        str(names[-1].value),
        uid=str(uids[0].value) if uids else "",
        groups=groups,
        extra={CREDENTIAL_ID: ("X509SHA256=" + certificate.fingerprint(SHA256()).hex(),)},
    )
