"""Generated keys, TLS contexts and their reload."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from OpenSSL import SSL, crypto

from kapi.options.options import Options
from kapi.serving import pki
from kapi.serving.pki import write_admin
from kapi.wire.tls.server import CertificateError, KeyPair, ServerContexts, TLSSettings, load_pair
from tests.certificates import common_name, key_pem, pem, self_signed, sign
from tests.rsa_keys import rsa_key

NAMES = ["localhost", "127.0.0.1", "10.0.0.1", "kubernetes.default.svc"]


@pytest.fixture
def files(tmp_path: Path) -> pki.Files:
    return pki.ensure(tmp_path / "pki", NAMES)


def test_everything_is_for_the_owner_only(files: pki.Files) -> None:
    assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.directory.iterdir()} == {0o600}


def test_a_second_start_uses_the_same_keys(files: pki.Files) -> None:
    before = {path.name: path.read_bytes() for path in files.directory.iterdir()}
    pki.ensure(files.directory, NAMES)
    assert {path.name: path.read_bytes() for path in files.directory.iterdir()} == before


def contents(files: pki.Files) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files.directory.iterdir()}


@pytest.mark.parametrize(("public", "private"), [("ca.crt", "ca.key"), ("sa.pub", "sa.key")])
def test_no_key_that_others_depend_on_is_replaced(files: pki.Files, public: str, private: str) -> None:
    """As in a copy that was not finished."""
    before = contents(files)
    (files.directory / public).unlink()
    pki.ensure(files.directory, ["localhost"])
    after = contents(files)
    assert after[private] == before[private]
    kept = [name for name in before if name not in ("ca.crt", "apiserver.crt", "apiserver.key")]
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    admin, ca = (x509.load_pem_x509_certificate(path.read_bytes()) for path in (files.admin, files.ca))
    admin.verify_directly_issued_by(ca)
    (files.directory / private).unlink()
    before = contents(files)
    with pytest.raises(ValueError, match=f"{public} is there, but not {private}"):
        pki.ensure(files.directory, ["localhost"])
    assert contents(files) == before


@pytest.mark.parametrize("name", ["apiserver", "admin"])
@pytest.mark.parametrize("kept", ["crt", "key"])
def test_a_pair_that_does_not_belong_together_is_made_again(files: pki.Files, name: str, kept: str) -> None:
    """As after a kill between its two files; or a damaged file."""
    before = contents(files)
    pki.ensure(files.directory, ["another"])
    files.admin.unlink()
    pki.ensure(files.directory, ["another"])
    (files.directory / f"{name}.{kept}").write_bytes(before[f"{name}.{kept}"])
    pki.ensure(files.directory, NAMES)
    load_pair(KeyPair(str(files.serving), str(files.serving_key)))
    load_pair(KeyPair(str(files.admin), str(files.admin_key)))
    (files.directory / f"{name}.{kept}").write_bytes(b"")
    pki.ensure(files.directory, NAMES)
    load_pair(KeyPair(str(files.directory / f"{name}.crt"), str(files.directory / f"{name}.key")))


def at(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    """Steps the clock."""
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    monkeypatch.setattr(pki, "now", lambda: moment)


def test_certificates_of_a_clock_that_was_ahead_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, 100)
    files = pki.ensure(tmp_path / "pki", NAMES)
    assert pki.validity_problem(files.ca) == ""
    at(monkeypatch, 0)
    pki.ensure(files.directory, NAMES)
    for path in (files.serving, files.admin):
        assert x509.load_pem_x509_certificate(path.read_bytes()).not_valid_before_utc < datetime.datetime.now(
            datetime.UTC
        )
    assert "by the clock of this machine" in pki.validity_problem(files.ca)  # which others depend on: it stays


def test_an_expired_authority_is_told(files: pki.Files, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pki.validity_problem(files.ca) == ""
    at(monkeypatch, 3660)
    pki.ensure(files.directory, NAMES)
    assert "ca.crt has expired on" in pki.validity_problem(files.ca)


def test_certificates_are_due_before_they_expire(files: pki.Files, monkeypatch: pytest.MonkeyPatch) -> None:
    before, (begin, due) = contents(files), pki.kept(files)
    at(monkeypatch, 330)
    assert begin < pki.now() < due
    at(monkeypatch, 340)
    assert pki.now() > due
    pki.ensure(files.directory, NAMES)
    after = contents(files)
    made = {f"{name}.{end}" for name in ("apiserver", "admin") for end in ("crt", "key")}
    assert {name for name in before if after[name] != before[name]} == made
    begin, due = pki.kept(files)
    assert begin < pki.now() < due
    at(monkeypatch, 0)
    assert pki.now() < begin, "they are not valid yet"


@pytest.mark.parametrize(
    ("seconds", "stays"),
    [(-600, True), (-601, False), (0, True), (335 * 86400 - 1, True), (335 * 86400, False)],
)
def test_when_a_certificate_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, stays: bool
) -> None:
    """It is valid from five minutes ago for a year; a clock may be five minutes late, and 30 days are left for the renewal."""
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    monkeypatch.setattr(pki, "now", lambda: moment)
    files = pki.ensure(tmp_path / "pki", NAMES)
    before = contents(files)
    later = moment + datetime.timedelta(seconds=seconds)
    monkeypatch.setattr(pki, "now", lambda: later)
    pki.ensure(files.directory, NAMES)
    assert (contents(files)["apiserver.crt"] == before["apiserver.crt"]) is stays
    assert (contents(files)["admin.crt"] == before["admin.crt"]) is stays


def test_a_key_of_another_authority_is_refused(files: pki.Files, tmp_path: Path) -> None:
    other = pki.ensure(tmp_path / "other", ["localhost"])
    files.ca_key.write_bytes(other.ca_key.read_bytes())
    before = contents(files)
    with pytest.raises(ValueError, match="ca.crt and ca.key do not belong together"):
        pki.ensure(files.directory, ["localhost"])
    assert contents(files) == before


@pytest.mark.parametrize("name", ["ca.crt", "ca.key"])
@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_a_damaged_file_of_the_authority_is_named(files: pki.Files, name: str, content: bytes) -> None:
    (files.directory / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} is damaged: "):
        pki.ensure(files.directory, ["localhost"])
    assert (files.directory / name).read_bytes() == content


def test_a_key_of_the_authority_that_does_not_sign_as_upstreams_is_named(files: pki.Files) -> None:
    files.ca_key.write_bytes(key_pem(ed25519.Ed25519PrivateKey.generate()))
    with pytest.raises(ValueError, match="^ca.key is neither an RSA nor an EC key$"):
        pki.ensure(files.directory, ["localhost"])


def test_a_new_name_makes_a_new_serving_certificate_only(files: pki.Files) -> None:
    serving, ca, key = files.serving.read_bytes(), files.ca.read_bytes(), files.service_account_key.read_bytes()
    pki.ensure(files.directory, [*NAMES, "api.example"])
    assert files.serving.read_bytes() != serving
    assert (files.ca.read_bytes(), files.service_account_key.read_bytes()) == (ca, key)
    certificate = x509.load_pem_x509_certificate(files.serving.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "api.example" in names.get_values_for_type(x509.DNSName)


def test_the_key_of_the_serving_certificate_suits_the_configured_suites(tmp_path: Path) -> None:
    """Else no client of TLS 1.2 could connect.  It is made again only when the suites cannot use it."""
    both = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    made: list[tuple[str, bytes]] = []
    sizes: list[int] = []
    for names, wanted in (
        ("", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        (both, "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),  # TLS 1.3 has any key
        ("", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ):
        serving = Options.from_command_line([f"--tls-cipher-suites={names}"]).serving
        files = pki.ensure(tmp_path / "pki", NAMES, serving.key_kinds)
        pair = KeyPair(str(files.serving), str(files.serving_key))
        key: Any = load_pem_private_key(files.serving_key.read_bytes(), None)
        sizes.append(key.key_size)
        contexts = ServerContexts(TLSSettings(pair, ciphers=serving.ciphers))
        client = handshake(contexts, maximum=SSL.TLS1_2_VERSION, ciphers=wanted.encode())
        made.append((client.get_cipher_name() or "", files.serving.read_bytes()))
        assert made[-1][0] == wanted, names
    assert [before[1] == after[1] for before, after in itertools.pairwise(made)] == [False, True, True, True, False]
    assert sizes == [256, 2048, 2048, 2048, 2048, 256]


def test_the_authority_may_have_an_rsa_key(tmp_path: Path) -> None:
    """As one that kubeadm has made."""
    key = rsa_key("authority")
    (tmp_path / "ca.crt").write_bytes(pem(sign(common_name("kubernetes"), key, ca=True)))
    (tmp_path / "ca.key").write_bytes(key_pem(key))
    files = pki.ensure(tmp_path, NAMES)
    ca, serving, admin = (
        x509.load_pem_x509_certificate(path.read_bytes()) for path in (files.ca, files.serving, files.admin)
    )
    assert isinstance(ca.public_key(), rsa.RSAPublicKey)
    for issued in (serving, admin):
        issued.verify_directly_issued_by(ca)


def test_what_the_keys_are_for(files: pki.Files) -> None:
    """As the certificates of kubeadm."""

    def usages(path: Path) -> set[str]:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
        names = "digital_signature key_encipherment key_cert_sign crl_sign content_commitment data_encipherment key_agreement"
        return {name for name in names.split() if getattr(usage, name)}

    signs = {"digital_signature", "key_cert_sign", "crl_sign"}
    uses = {"digital_signature", "key_encipherment"}
    assert [usages(path) for path in (files.ca, files.serving, files.admin)] == [signs, uses, uses]


def test_the_admin_is_in_system_masters(files: pki.Files) -> None:
    certificate = x509.load_pem_x509_certificate(files.admin.read_bytes())
    assert certificate.subject.rfc4514_string() == "CN=kubernetes-admin,O=system:masters"
    remaining = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=364) < remaining <= datetime.timedelta(days=365)


def test_the_kubeconfig_is_whole_and_private(files: pki.Files, tmp_path: Path) -> None:
    path = tmp_path / "admin.kubeconfig"
    write_admin(path, "https://127.0.0.1:1234", files.ca.read_bytes(), files)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1234"


def test_a_kubeconfig_that_is_right_is_not_written_again(files: pki.Files, tmp_path: Path) -> None:
    """A disk that is full is then no reason not to start; rights of others are taken away all the same."""
    path = tmp_path / "admin.kubeconfig"
    for mode, address, written in ((0o600, 1, True), (0o600, 1, False), (0o644, 1, True), (0o600, 2, True)):
        before = 0
        if path.exists():
            path.chmod(mode)
            before = path.stat().st_ino
        write_admin(path, f"https://127.0.0.1:{address}", files.ca.read_bytes(), files)
        assert (path.stat().st_ino != before) is written, (mode, address)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def handshake(
    contexts: ServerContexts,
    name: bytes = b"localhost",
    ciphers: bytes = b"",
    after: Any = None,
    shown: tuple[bytes, bytes] | None = None,
    **limits: int,
) -> SSL.Connection:
    """A client's connection after a handshake in memory.  Raises SSL.Error when there is none."""
    if after is None:
        client_context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        client_context.set_alpn_protos([b"h2", b"http/1.1"])
        if "maximum" in limits:
            client_context.set_max_proto_version(limits["maximum"])
        if ciphers:
            client_context.set_cipher_list(ciphers)
        if shown is not None:  # certificate and key
            client_context.use_certificate(crypto.X509.from_cryptography(x509.load_pem_x509_certificate(shown[0])))
            client_context.use_privatekey(crypto.load_privatekey(crypto.FILETYPE_PEM, shown[1]))
    else:  # sessions belong to their context
        client_context = after.get_context()
    client, server = SSL.Connection(client_context, None), contexts.connection(None)
    client.set_tlsext_host_name(name)
    if after is not None:
        client.set_session(after.get_session())
    client.set_connect_state()
    server.set_accept_state()
    done = [False, False]
    for _ in range(10):
        for index, (mine, other) in enumerate(((client, server), (server, client))):
            try:
                mine.do_handshake()
                done[index] = True
            except SSL.WantReadError:
                pass
            try:
                other.bio_write(mine.bio_read(1 << 16))
            except SSL.WantReadError:
                pass
        if all(done):
            break
    assert all(done)
    client.set_app_data(server)
    return client


def test_clients_are_told_whose_certificates_count(files: pki.Files, tmp_path: Path) -> None:
    def told(name: bytes) -> list[str]:
        return [one.CN for one in handshake(contexts, name).get_client_ca_list()]

    pair = KeyPair(str(files.serving), str(files.serving_key))
    contexts = ServerContexts(TLSSettings(pair, sni=[KeyPair(pair.certificate, pair.key, ("api.example",))]))
    assert told(b"localhost") == []
    one, two = (x509.load_pem_x509_certificate(self_signed(name)[0]) for name in ("one", "two"))
    for authorities in ([one], [one, two], [two]):
        contexts.name_authorities(authorities)
        for name in (b"localhost", b"api.example"):
            assert told(name) == ["one" if each is one else "two" for each in authorities]
    pki.ensure(files.directory, [*NAMES, "another"])
    assert contexts.reload()
    assert len(told(b"localhost")) == 1


def test_any_certificate_of_a_client_is_left_to_the_authenticators(files: pki.Files) -> None:
    """As upstream's ``RequestClientCert``; others than certificates may identify the client."""
    contexts = ServerContexts(TLSSettings(KeyPair(str(files.serving), str(files.serving_key))))
    for shown in (None, self_signed("nobody")):
        server = handshake(contexts, shown=shown).get_app_data()
        assert (server.get_peer_certificate() is None) == (shown is None)
    assert subject(server) == "CN=nobody"


def subject(connection: SSL.Connection) -> str:
    certificate = connection.get_peer_certificate(as_cryptography=True)
    assert certificate is not None
    return certificate.subject.rfc4514_string()


def test_alpn_prefers_http2_and_a_flag_turns_it_off(files: pki.Files) -> None:
    pair = KeyPair(str(files.serving), str(files.serving_key))
    assert handshake(ServerContexts(TLSSettings(pair))).get_alpn_proto_negotiated() == b"h2"
    plain = ServerContexts(TLSSettings(pair, protocols=(b"http/1.1",)))
    assert handshake(plain).get_alpn_proto_negotiated() == b"http/1.1"


def test_the_minimum_version_is_kept(files: pki.Files) -> None:
    contexts = ServerContexts(
        TLSSettings(KeyPair(str(files.serving), str(files.serving_key)), minimum_version="VersionTLS13")
    )
    handshake(contexts)
    with pytest.raises(SSL.Error):
        handshake(contexts, maximum=SSL.TLS1_2_VERSION)


@pytest.mark.parametrize("version", [SSL.TLS1_VERSION, SSL.TLS1_1_VERSION])
def test_old_versions_are_refused_whatever_is_configured(files: pki.Files, version: int) -> None:
    contexts = ServerContexts(TLSSettings(KeyPair(str(files.serving), str(files.serving_key))))
    with pytest.raises(SSL.Error):
        handshake(contexts, ciphers=b"ALL:@SECLEVEL=0", maximum=version)


def test_only_the_configured_suites_are_spoken(files: pki.Files) -> None:
    pair = KeyPair(str(files.serving), str(files.serving_key))
    kind = "ECDSA" if isinstance(load_pair(pair)[1], ec.EllipticCurvePrivateKey) else "RSA"
    wanted, other = f"ECDHE-{kind}-AES256-GCM-SHA384", f"ECDHE-{kind}-AES128-GCM-SHA256"
    contexts = ServerContexts(TLSSettings(pair, ciphers=[wanted]))
    assert handshake(contexts, maximum=SSL.TLS1_2_VERSION).get_cipher_name() == wanted
    with pytest.raises(SSL.Error):
        handshake(contexts, ciphers=other.encode(), maximum=SSL.TLS1_2_VERSION)
    for weak in (f"ECDHE-{kind}-AES128-SHA", "AES128-GCM-SHA256"):  # no suite of the default
        with pytest.raises(SSL.Error):
            handshake(ServerContexts(TLSSettings(pair)), ciphers=weak.encode(), maximum=SSL.TLS1_2_VERSION)


def test_only_the_configured_key_exchanges_are_spoken(files: pki.Files) -> None:
    pair = KeyPair(str(files.serving), str(files.serving_key))
    contexts = ServerContexts(TLSSettings(pair, curves=["P-384"]))
    assert handshake(contexts).get_group_name() == "secp384r1"
    with pytest.raises(CertificateError, match="does not know all of"):
        ServerContexts(TLSSettings(pair, curves=["P-1"]))


def test_nobody_renegotiates(files: pki.Files) -> None:
    contexts = ServerContexts(TLSSettings(KeyPair(str(files.serving), str(files.serving_key))))
    client = handshake(contexts, maximum=SSL.TLS1_2_VERSION)
    server = client.get_app_data()
    client.renegotiate()
    with pytest.raises(SSL.WantReadError):
        client.do_handshake()
    server.bio_write(client.bio_read(1 << 16))
    with pytest.raises((SSL.Error, SSL.WantReadError)):
        server.recv(1)
    client.bio_write(server.bio_read(1 << 16))
    with pytest.raises(SSL.Error) as refused:
        client.do_handshake()
    assert not isinstance(refused.value, SSL.WantReadError), "an alert, not silence"


@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
def test_no_session_is_resumed(files: pki.Files, version: int) -> None:
    """What a client was in an earlier session, it has to prove again."""
    contexts = ServerContexts(TLSSettings(KeyPair(str(files.serving), str(files.serving_key))))
    first = handshake(contexts, maximum=version)
    with pytest.raises(SSL.WantReadError):
        first.get_app_data().recv(1)
    with contextlib.suppress(SSL.WantReadError):
        first.bio_write(first.get_app_data().bio_read(1 << 16))
    with pytest.raises(SSL.WantReadError):  # reads the tickets of TLS 1.3, which come after the handshake
        first.recv(1)
    again = handshake(contexts, maximum=version, after=first)
    assert not SSL._lib.SSL_session_reused(again._ssl)


def test_a_certificate_for_each_server_name(files: pki.Files, tmp_path: Path) -> None:
    other = pki.ensure(tmp_path / "other", ["x.example"])
    extra = KeyPair(str(other.admin), str(other.admin_key), ("*.example",))
    contexts = ServerContexts(TLSSettings(KeyPair(str(files.serving), str(files.serving_key)), sni=[extra]))
    assert subject(handshake(contexts, b"a.example")) == "CN=kubernetes-admin,O=system:masters"
    assert subject(handshake(contexts, b"a.b.example")) == "CN=kube-apiserver"
    assert subject(handshake(contexts)) == "CN=kube-apiserver"


def test_which_certificate_is_for_a_server_name(tmp_path: Path) -> None:
    """As in Go: the exact name before a wildcard for the first label, the names of a flag before those of certificates.

    Names that only certificates say come last, those of the default one first.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "key").write_bytes(key_pem(key))

    def pair(common: str, hosts: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> KeyPair:
        (tmp_path / f"{common}.crt").write_bytes(pem(sign(common_name(common), key, hosts=hosts)))
        return KeyPair(str(tmp_path / f"{common}.crt"), str(tmp_path / "key"), names)

    named = [
        pair("wild", ("*.example", "both.test")),
        pair("flag", ("own.test", "default.test", "y.default.test"), ("A.example", "both.test")),
        pair("exact", ("c.example",)), pair("cn.test"), pair("*.common.test"), pair("192.0.2.1"), pair("no name"),
        pair("first", ("twice.test",)), pair("second", ("twice.test",)), pair("one", names=("*",)),
        pair("middle", names=("a*.inner", "a.*.inner")),
    ]  # fmt: skip
    contexts = ServerContexts(TLSSettings(pair("default", ("default.test", "*.default.test")), sni=named))
    found = {
        "unknown.test": "default", "a.example": "flag", "A.Example": "flag", "b.example": "wild", "x.b.example": "default",
        "host": "one", "c.example": "exact", "cn.test": "cn.test", "x.common.test": "*.common.test", "ab.inner": "default",
        "a.b.inner": "default", "own.test": "flag", "default.test": "default", "x.default.test": "default",
        "y.default.test": "default",
        "both.test": "flag", "twice.test": "first", "a.example.": "flag",
    }  # fmt: skip
    assert {name: subject(handshake(contexts, name.encode())) for name in found} == {
        name: f"CN={common}" for name, common in found.items()
    }


@pytest.mark.parametrize(
    ("part", "other", "problem"),
    [
        (b"\x82\x04abcd", b"\xa3\x04\x30\x02\x05\x00", ""),  # an address of X.400
        (b"\x06\x03\x55\x1d\x13", b"\x06\x03\x55\x1d\x11", "x509: certificate contains duplicate extensions"),
    ],
)
def test_a_default_certificate_with_names_that_cannot_be_read(
    part: bytes, other: bytes, problem: str, tmp_path: Path
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "key").write_bytes(key_pem(key))
    der = sign(common_name("odd"), key, hosts=("abcd",)).public_bytes(Encoding.DER).replace(part, other)
    (tmp_path / "crt").write_bytes(pem(x509.load_der_x509_certificate(der)))
    settings = TLSSettings(KeyPair(str(tmp_path / "crt"), str(tmp_path / "key")))
    if problem:
        with pytest.raises(CertificateError, match=problem):
            ServerContexts(settings)
    else:
        assert subject(handshake(ServerContexts(settings), b"abcd")) == "CN=odd"


def test_reload_takes_a_new_certificate_and_keeps_the_old_one_when_it_is_broken(
    files: pki.Files, tmp_path: Path
) -> None:
    contexts = ServerContexts(TLSSettings(KeyPair(str(files.serving), str(files.serving_key))))
    assert not contexts.reload()
    first = handshake(contexts).get_peer_certificate(as_cryptography=True)
    files.serving.write_text("broken")
    assert not contexts.reload()
    assert handshake(contexts).get_peer_certificate(as_cryptography=True) == first
    files.serving.unlink()
    files.serving_key.unlink()
    pki.ensure(files.directory, NAMES)
    assert contexts.reload()
    assert handshake(contexts).get_peer_certificate(as_cryptography=True) != first


def test_a_key_must_belong_to_its_certificate(files: pki.Files) -> None:
    with pytest.raises(CertificateError, match="does not match"):
        load_pair(KeyPair(str(files.serving), str(files.admin_key)))
    for pair, why in (
        (
            KeyPair("/nonexistent.crt", str(files.admin_key)),
            "^cannot read /nonexistent.crt: No such file or directory$",
        ),
        (KeyPair(str(files.admin), "/nonexistent.key"), "^cannot read /nonexistent.key: No such file or directory$"),
        (KeyPair(str(files.admin_key), str(files.admin_key)), "^.*admin.key: no certificate: "),
        (KeyPair(str(files.admin), str(files.admin)), "^.*admin.crt: no private key: "),
    ):
        with pytest.raises(CertificateError, match=why):
            load_pair(pair)
