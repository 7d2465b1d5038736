"""Client certificates: CN is the user, each O a group (upstream: apiserver ``request/x509``)."""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from kapi.authentication.certificates import CertificateAuthority, peer_chain
from kapi.authentication.interface import AuthenticationError
from kapi.request.context import RequestContext
from kapi.request.user import UserInfo

CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


class ClientCertificateAuthenticator:
    def __init__(self, authority: CertificateAuthority) -> None:
        self.authority = authority

    def authenticate(self, ctx: RequestContext) -> UserInfo | None:
        chain = peer_chain(ctx)
        if not chain:
            return None
        self.authority.verify(chain)
        return certificate_user(chain[0])


def certificate_user(certificate: x509.Certificate) -> UserInfo | None:
    """The identity in a verified certificate; None without a common name."""
    subject = certificate.subject
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
