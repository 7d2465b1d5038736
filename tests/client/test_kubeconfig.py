"""Kubeconfig files as those read them who call other servers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kapi.admission.webhook.client import CredentialStore
from kapi.client.config_error import ConfigError
from kapi.client.kubeconfig import load_kubeconfig, load_users

HEAD = """
clusters: [{name: a, cluster: {server: "https://x", tls-server-name: other, certificate-authority-data: Q0E=}}]
contexts: [{name: c, context: {cluster: a, user: u}}]
current-context: c
"""


def write(directory: Path, users: str) -> str:
    path = directory / "config"
    path.write_text(HEAD + f"users: {users}\n")
    return str(path)


def test_an_endpoint_has_server_trust_and_credentials(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"KEY")
    endpoint = load_kubeconfig(
        write(tmp_path, "[{name: u, user: {client-certificate-data: Q0VSVA==, client-key: key, token: t}}]")
    )
    assert (endpoint.url, endpoint.ca, endpoint.server_name) == ("https://x/", b"CA", "other")
    assert (endpoint.certificate, endpoint.key, endpoint.token) == (b"CERT", b"KEY", "t")


def test_a_tokens_file_counts_before_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("fresh\n")
    endpoint = load_kubeconfig(write(tmp_path, "[{name: u, user: {token: stale, tokenFile: token}}]"))
    assert endpoint.headers == [(b"Authorization", b"Bearer fresh")]


def test_a_name_and_a_password_count_without_a_token(tmp_path: Path) -> None:
    endpoint = load_kubeconfig(write(tmp_path, "[{name: u, user: {username: nina, password: pass}}]"))
    assert endpoint.headers == [(b"Authorization", b"Basic bmluYTpwYXNz")]


def test_a_server_may_be_anybody_or_known_by_an_authority(tmp_path: Path) -> None:
    path = Path(write(tmp_path, "[{name: u, user: {token: t}}]"))
    insecure = path.read_text().replace("certificate-authority-data: Q0E=", "insecure-skip-tls-verify: true")
    both = path.read_text().replace("Q0E=", "Q0E=, insecure-skip-tls-verify: true")
    assert not load_kubeconfig(str(path)).insecure
    path.write_text(insecure)
    assert load_kubeconfig(str(path)).insecure
    path.write_text(both)
    with pytest.raises(ConfigError, match="root certificates file with the insecure flag is not allowed"):
        load_kubeconfig(str(path))


@pytest.mark.parametrize(
    ("cluster", "url"),
    [
        ("server: http://x/a", "http://x/a"),
        ("server: http://x, certificate-authority-data: Q0E=", "http://x/"),
        ("server: 'x:8080'", "http://x:8080/"),
        ("server: 'x:8080', certificate-authority-data: Q0E=", "https://x:8080/"),
        ("server: 'x:8080', insecure-skip-tls-verify: true", "https://x:8080/"),
        ("server: '[::1]:80'", "http://[::1]:80/"),
        ("server: x/a", 'host must be a URL or a host:port pair: "x/a"'),
        ("server: ''", 'host must be a URL or a host:port pair: ""'),
        ("server: 'ftp://x'", 'unsupported protocol scheme "ftp"'),
        ("server: 'http://[x'", "host must be a URL"),
    ],
)
def test_a_server_is_a_url_or_a_host_with_a_port(tmp_path: Path, cluster: str, url: str) -> None:
    path = Path(write(tmp_path, "[{name: u, user: {token: t}}]"))
    line = next(line for line in HEAD.splitlines() if line.startswith("clusters"))
    path.write_text(path.read_text().replace(line, f"clusters: [{{name: a, cluster: {{{cluster}}}}}]"))
    if "://" in url:
        assert load_kubeconfig(str(path)).url == url
    else:
        with pytest.raises(ConfigError, match=re.escape(url)):
            load_kubeconfig(str(path))


def test_the_url_of_a_server_is_the_one_that_client_go_asks_for(tmp_path: Path) -> None:
    path = Path(write(tmp_path, "[{name: u, user: {token: t}}]"))
    path.write_text(path.read_text().replace('"https://x"', '"https://x//a//b/?c=d"'))
    assert load_kubeconfig(str(path)).url == "https://x/a/b"


@pytest.mark.parametrize("name", ["exec", "auth-provider"])
def test_credentials_that_a_program_makes_are_refused_clearly(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"credentials by {name} are not supported"):
        load_kubeconfig(write(tmp_path, f"[{{name: u, user: {{{name}: {{command: x}}}}}}]"))


def test_users_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, "[{name: 'h:8443', user: {token: one}}, {name: '*.svc', user: {token: two}}, {name: '*'}]")
    assert {name: user.token for name, user in load_users(path).items()} == {"h:8443": "one", "*.svc": "two", "*": ""}
    store = CredentialStore.load(path)
    assert store.for_host("h", 8443).token == "one"
    assert store.for_host("a.b.svc", 443).token == "two"
    assert store.for_host("elsewhere", 443).headers == []


def test_the_user_of_the_current_context_is_for_hosts_without_a_user(tmp_path: Path) -> None:
    path = write(tmp_path, "[{name: u, user: {token: one}}, {name: h, user: {token: two}}]")
    store = CredentialStore.load(path)
    assert [store.for_host(host, 443).token for host in ("h", "elsewhere")] == ["two", "one"]
    other = Path(path)
    other.write_text(other.read_text().replace("current-context: c", "current-context: nosuch"))
    assert CredentialStore.load(path).for_host("elsewhere", 443).token == ""


def test_a_file_that_is_not_there_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_users(str(tmp_path / "nosuch"))
    scheme = r'in scheme "k8s.io/client-go/tools/clientcmd/api/latest/latest.go:50"$'
    for text, why in (
        ("[]", "json: cannot unmarshal array into Go value of type struct "),
        ("kind: 1", "json: cannot unmarshal number into Go struct field .kind of type string"),
        ("kind: Pod", f'error loading config file ".*": no kind "Pod" is registered for version "v1" {scheme}'),
        ("apiVersion: v2", f'no kind "Config" is registered for version "v2" {scheme}'),
    ):
        (tmp_path / "other").write_text(text)
        with pytest.raises(ConfigError, match=why):
            load_users(str(tmp_path / "other"))


def test_nothing_secret_is_in_the_text_of_an_endpoint(tmp_path: Path) -> None:
    for credential in ("token: sesame", "username: me, password: sesame"):
        users = f"[{{name: u, user: {{{credential}, client-key-data: c2VjcmV0}}}}]"
        text = repr(load_kubeconfig(write(tmp_path, users)))
        assert "sesame" not in text and "secret" not in text


@pytest.mark.parametrize(
    ("users", "why"),
    [
        ("5", r"cannot unmarshal number into Go struct field Config.users of type \[\]v1.NamedAuthInfo"),
        ("[5]", "cannot unmarshal number into Go struct field Config.users of type v1.NamedAuthInfo"),
        (
            "[{name: u, user: 5}]",
            "cannot unmarshal number into Go struct field NamedAuthInfo.users.user of type v1.AuthInfo",
        ),
        ("[{name: u, user: {token: 5}}]", "into Go struct field AuthInfo.users.user.token of type string"),
        ("[{name: u, user: {exec: {env: [5]}}}]", "field ExecConfig.users.user.exec.env of type v1.ExecEnvVar"),
        ("[{name: u, user: {as-user-extra: {a: b}}}]", r"AuthInfo.users.user.as-user-extra of type \[\]string"),
        ("[{name: u, user: {client-key-data: 'YWJj!'}}]", "illegal base64 data at input byte 4"),
        ("[{name: u, user: {token: t, password: p}}]", "more than one authentication method found for u"),
    ],
)
def test_a_wrong_type_and_two_methods_are_errors_that_name_the_file(tmp_path: Path, users: str, why: str) -> None:
    path = write(tmp_path, users)
    for read in (load_kubeconfig, load_users):
        with pytest.raises(ConfigError, match=why) as caught:
            read(path)
        assert path in str(caught.value)
