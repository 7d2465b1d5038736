"""Client certificates and the authenticating proxy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import crypto

from kapi.authentication.build import AuthenticationSettings, build_authentication
from kapi.authentication.certificates import (
    CertificateAuthority,
    ClientCertificateAuthenticator,
    FrontProxyAuthenticator,
    certificate_user,
    peer_chain,
    unescape_key,
)
from kapi.authentication.interface import AuthenticationError
from kapi.request.headers import first_header
from kapi.request.user import UserInfo
from tests.authentication.identities import NOW, Authority
from tests.filters.requests import Peer, request

CA = Authority()
PROXY_CA = Authority("proxy-ca")
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
CLIENTS = ClientCertificateAuthenticator(CertificateAuthority(CA.pem))
HEADERS: dict[str, str | list[str]] = {
    "X-Remote-User": "jane",
    "X-Remote-Group": ["a", "b"],
    "X-Remote-Extra-Scopes": "view",
    "X-Remote-Uid": "u1",
}


def proxy(*names: str) -> FrontProxyAuthenticator:
    return FrontProxyAuthenticator(CertificateAuthority(PROXY_CA.pem), names, uid_headers=("X-Remote-Uid",))


def test_common_name_and_organizations() -> None:
    user = CLIENTS.authenticate(request(peer=Peer(CA.client("jane", "dev", "qa"))))
    assert user is not None
    assert (user.name, user.groups) == ("jane", ("dev", "qa"))
    (credential,) = user.extra["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("X509SHA256=") and len(credential) == len("X509SHA256=") + 64


@pytest.mark.parametrize(("ca", "name"), [(CertificateAuthority(CA.pem), "jane"), (None, "system:anonymous")])
def test_certificates_count_where_their_authority_is_configured(ca: CertificateAuthority | None, name: str) -> None:
    requests = build_authentication(AuthenticationSettings(client_ca=ca)).requests
    user = requests.authenticate(request(peer=Peer(CA.client("jane"))))
    assert isinstance(user, UserInfo) and user.name == name


def test_without_a_certificate_there_is_no_opinion() -> None:
    assert CLIENTS.authenticate(request()) is None
    assert CLIENTS.authenticate(request(peer=Peer())) is None


class Handshake:
    """OpenSSL's side of a connection; counts how often it is asked."""

    def __init__(self, *chain: x509.Certificate) -> None:
        self.asked, self._chain = 0, [crypto.X509.from_cryptography(each) for each in chain]

    def get_peer_certificate(self) -> crypto.X509 | None:
        self.asked += 1
        return self._chain[0] if self._chain else None

    def get_peer_cert_chain(self) -> list[crypto.X509] | None:
        return self._chain or None


@pytest.mark.parametrize("size", [0, 1, 2])
def test_a_connection_is_asked_once_for_the_certificates_of_its_client(size: int) -> None:
    chain = [CA.client("jane"), Authority("between").client("other")][:size]
    transport = SimpleNamespace(_tlsConnection=Handshake(*chain))
    channel = SimpleNamespace(transport=transport)
    for http in (SimpleNamespace(transport=transport), SimpleNamespace(channel=channel, transport=None)):
        ctx: Any = SimpleNamespace(http=http)
        assert peer_chain(ctx) == chain
        peer_chain(ctx).clear()  # what a caller does with its list changes nothing
    assert transport._tlsConnection.asked == 1


def test_connections_of_one_client_share_its_certificate() -> None:
    certificate, large = CA.client("jane"), CA.client("jane", *("g" * 60 for _ in range(200)))
    contexts: list[Any] = [
        SimpleNamespace(http=SimpleNamespace(transport=SimpleNamespace(_tlsConnection=Handshake(each))))
        for each in (certificate, certificate, large, large)
    ]
    one, other, first, second = (peer_chain(ctx)[0] for ctx in contexts)
    assert (one is other, first == second, first is second) == (True, True, False)


def test_other_transports_have_a_certificate_or_none() -> None:
    certificate = CA.client("jane")
    for found, wanted in (
        (certificate, [certificate]),
        (crypto.X509.from_cryptography(certificate), [certificate]),
        (None, []),
    ):
        transport = SimpleNamespace(getPeerCertificate=lambda found=found: found)
        assert peer_chain(SimpleNamespace(http=SimpleNamespace(transport=transport))) == wanted  # type: ignore[arg-type]
    for http in (None, SimpleNamespace(transport=None), SimpleNamespace(transport=object())):
        assert peer_chain(SimpleNamespace(http=http)) == []  # type: ignore[arg-type]


def test_a_certificate_without_common_name_names_nobody() -> None:
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "dev")])
    certificate, _ = CA.issue(subject, usage=ExtendedKeyUsageOID.CLIENT_AUTH)
    assert CLIENTS.authenticate(request(peer=Peer(certificate))) is None


@pytest.mark.filterwarnings("ignore:Attribute's length must be")
def test_of_several_common_names_the_last_one_counts() -> None:
    def named(*names: str) -> UserInfo | None:
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, name, _validate=False) for name in names]
        certificate, _ = CA.issue(x509.Name(parts), usage=ExtendedKeyUsageOID.CLIENT_AUTH)
        user = CLIENTS.authenticate(request(peer=Peer(certificate)))
        assert user is None or isinstance(user, UserInfo)
        return user

    assert named("jane", "") is None
    for names in (("jane", "joe"), ("", "joe")):
        user = named(*names)
        assert user is not None and user.name == "joe"


@pytest.mark.parametrize(
    "certificate",
    [
        Authority("stranger").client("jane", "system:masters"),
        Authority("test-ca").client("jane", "system:masters"),
        CA.client("jane", days=-1, starts=-3),
        CA.client("jane", starts=1, days=2),
        CA.client("jane", usage=ExtendedKeyUsageOID.SERVER_AUTH),
    ],
    ids=["other authority", "same name, other key", "expired", "not yet valid", "a server's"],
)
def test_certificates_that_mean_nothing(certificate: object) -> None:
    with pytest.raises(AuthenticationError, match="x509"):
        CLIENTS.authenticate(request(peer=Peer(certificate)))


def test_a_subject_that_is_no_text_is_refused() -> None:
    """The library reads the parts of a subject when they are first needed."""
    certificate = CA.client("jane", "dev")

    def unreadable(self: object) -> None:
        raise ValueError("error parsing asn1 value")

    class Leaf:
        subject = property(unreadable)

    with pytest.raises(AuthenticationError, match="x509"):
        certificate_user(Leaf())  # type: ignore[arg-type]
    assert certificate_user(certificate) is not None


def test_a_uid_is_read_unless_that_is_switched_off() -> None:
    """Upstream's gate is AllowParsingUserUIDFromCertAuth."""
    names = [x509.NameAttribute(NameOID.COMMON_NAME, "jane"), x509.NameAttribute(UID, "7")]
    for more, uid, switched_off in (([], "7", ""), ([x509.NameAttribute(UID, "8")], None, "")):
        certificate, _ = CA.issue(x509.Name([*names, *more]), usage=ExtendedKeyUsageOID.CLIENT_AUTH)
        without = ClientCertificateAuthenticator(CertificateAuthority(CA.pem), reads_uid=False)
        user = without.authenticate(request(peer=Peer(certificate)))
        assert user is not None and user.uid == switched_off
        if uid is None:
            with pytest.raises(AuthenticationError, match="expected 1 UID, but found multiple"):
                CLIENTS.authenticate(request(peer=Peer(certificate)))
        else:
            user = CLIENTS.authenticate(request(peer=Peer(certificate)))
            assert user is not None and user.uid == uid


def test_any_or_no_extended_usage_will_do() -> None:
    for usage in (None, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE):
        assert CLIENTS.authenticate(request(peer=Peer(CA.client("jane", usage=usage)))) is not None


def test_a_reloaded_bundle_counts_at_once_also_for_those_seen_before() -> None:
    authority = CertificateAuthority(CA.pem)
    clients = ClientCertificateAuthenticator(authority)
    peer = Peer(CA.client("jane"))
    assert clients.authenticate(request(peer=peer)) is not None
    authority.reload(PROXY_CA.pem)
    with pytest.raises(AuthenticationError):
        clients.authenticate(request(peer=peer))
    assert clients.authenticate(request(peer=Peer(PROXY_CA.client("joe")))) is not None


def test_a_broken_bundle_leaves_the_old_one_in_force() -> None:
    authority = CertificateAuthority(CA.pem)
    with pytest.raises(ValueError):
        authority.reload(b"no certificate")
    authority.verify([CA.client("jane")])


def test_the_first_and_the_last_second_of_a_certificate_count() -> None:
    certificate = CA.client("jane", days=1)
    first, last = (at.timestamp() for at in (certificate.not_valid_before_utc, certificate.not_valid_after_utc))
    for now, left in ((first, last - first), (last, 0.0)):
        assert CertificateAuthority(CA.pem, clock=lambda now=now: now).verify([certificate]) == left
    for now in (first - 1, last + 1):
        with pytest.raises(AuthenticationError, match="expired or is not yet valid"):
            CertificateAuthority(CA.pem, clock=lambda now=now: now).verify([certificate])


def test_what_was_verified_is_not_believed_beyond_its_validity() -> None:
    now = [NOW.timestamp()]
    authority = CertificateAuthority(CA.pem, clock=lambda: now[0])
    certificate = CA.client("jane", days=1)
    authority.verify([certificate])
    now[0] += 2 * 24 * 3600
    with pytest.raises(AuthenticationError, match="expired"):
        authority.verify([certificate])


def test_the_proxy_vouches_for_its_headers() -> None:
    ctx = request(headers=HEADERS, peer=Peer(PROXY_CA.client("front-proxy")))
    assert proxy("front-proxy").authenticate(ctx) == UserInfo("jane", "u1", ("a", "b"), {"scopes": ("view",)})
    assert not first_header(ctx, "X-Remote-User") and not first_header(ctx, "X-Remote-Extra-Scopes")


def test_the_headers_mean_nothing_without_the_proxys_certificate() -> None:
    assert proxy().authenticate(request(headers=HEADERS)) is None
    for certificate in (
        CA.client("front-proxy"),
        PROXY_CA.client("front-proxy", usage=ExtendedKeyUsageOID.SERVER_AUTH),
    ):
        with pytest.raises(AuthenticationError):
            proxy().authenticate(request(headers=HEADERS, peer=Peer(certificate)))


def test_only_named_proxies() -> None:
    with pytest.raises(AuthenticationError, match="allowed list"):
        proxy("front-proxy").authenticate(request(headers=HEADERS, peer=Peer(PROXY_CA.client("other"))))
    assert proxy().authenticate(request(headers=HEADERS, peer=Peer(PROXY_CA.client("other")))) is not None


def test_a_proxy_without_a_user_header_has_no_opinion() -> None:
    assert proxy().authenticate(request(headers={"X-Remote-Group": "a"}, peer=Peer(PROXY_CA.client("p")))) is None


def test_a_header_without_a_value_names_no_group() -> None:
    headers: dict[str, str | list[str]] = {"X-Remote-User": "jane", "X-Remote-Group": ["", "a", ""]}
    user = proxy().authenticate(request(headers=headers, peer=Peer(PROXY_CA.client("p"))))
    assert user is not None and user.groups == ("a",)


def test_how_long_certificates_in_use_are_valid_is_counted() -> None:
    clients = ClientCertificateAuthenticator(CertificateAuthority(CA.pem))
    for certificate in (CA.client("a"), CA.client("b", days=5)):
        for _ in range(2):  # the second time it is remembered
            clients.authenticate(request(peer=Peer(certificate)))
    with pytest.raises(AuthenticationError):
        clients.authenticate(request(peer=Peer(Authority("stranger").client("jane"))))
    (row,) = clients.lifetimes.rows.values()
    counted = dict(zip(clients.lifetimes.bounds, row, strict=False))
    assert (counted[86_400.0], counted[604_800.0]) == (2, 2)


@pytest.mark.parametrize(
    ("key", "read"),
    [("a%2Fb", "a/b"), ("a%41", "aA"), *((same, same) for same in ("%41%4", "%4g%41", "%zz%41", "%41%", "plain"))],
)
def test_keys_of_extra_headers_are_unescaped_if_all_of_one_can_be(key: str, read: str) -> None:
    assert unescape_key(key) == read
