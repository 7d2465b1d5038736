"""kubeconfig files as a client reads them: merged, relative to themselves, and with errors that name file and field."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kapi.client.clientcmd import Kubeconfig, Overrides, load_config
from kapi.client.config import Config, ConfigError
from kapi.client.config_error import ConfigErrors, NoConnection
from kapi.client.credentials import NO_CREDENTIALS, TokenFile
from kapi.client.incluster import in_cluster_config

ONE = """
apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: c1, user: u1, namespace: here}}
- {name: b, context: {cluster: c2, user: u2}}
clusters:
- {name: c1, cluster: {server: "https://one:6443", certificate-authority: ca.pem, tls-server-name: other}}
users:
- {name: u1, user: {token: t1}}
"""
TWO = """
current-context: b
clusters:
- {name: c1, cluster: {server: "https://shadowed"}}
- {name: c2, cluster: {server: "https://two/base", insecure-skip-tls-verify: true, proxy-url: "http://proxy:3128"}}
users:
- {name: u2, user: {username: me, password: secret}}
"""


def now(coroutine: Any) -> Any:
    found: list[Any] = []
    Deferred.fromCoroutine(coroutine).addBoth(found.append)
    return found[0]


@pytest.fixture
def files(tmp_path: Path) -> str:
    (tmp_path / "one").write_text(ONE)
    (tmp_path / "two").write_text(TWO)
    (tmp_path / "ca.pem").write_text("the CA")
    return f"{tmp_path / 'one'}:{tmp_path / 'missing'}:{tmp_path / 'two'}"


def load(files: str, **more: Any) -> Config:
    return load_config(environment={"KUBECONFIG": files, "HOME": "/nowhere"}, **more)


def test_the_first_file_that_has_an_entry_wins(files: str) -> None:
    config = load(files)
    assert (config.host, config.namespace, config.server_name) == ("https://one:6443", "here", "other")
    assert config.ca == b"the CA", "a relative path is relative to the file it stands in"
    assert now(config.credentials.headers()) == [(b"Authorization", b"Bearer t1")]


def test_another_context_takes_its_parts_from_any_file(files: str) -> None:
    config = load(files, context="b")
    assert (config.host, config.insecure, config.proxy_url) == ("https://two/base", True, "http://proxy:3128")
    assert now(config.credentials.headers()) == [(b"Authorization", b"Basic " + base64.b64encode(b"me:secret"))]


def test_the_command_line_wins(files: str) -> None:
    over = Overrides(namespace="n", server="https://three", token="t3", as_user="jane", as_groups=["g"], timeout=5)
    config = load(files, overrides=over)
    assert (config.host, config.namespace, config.timeout) == ("https://three", "n", 5)
    assert (config.impersonate.user, list(config.impersonate.groups)) == ("jane", ["g"])
    assert now(config.credentials.headers()) == [(b"Authorization", b"Bearer t3")]


def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    file, time = tmp_path / "token", [0.0]
    file.write_text("first\n")
    source = TokenFile(str(file), lambda: time[0])
    assert now(source.headers()) == [(b"Authorization", b"Bearer first")]
    file.write_text("second")
    assert now(source.headers())[0][1] == b"Bearer first"
    time[0] = 61
    assert now(source.headers())[0][1] == b"Bearer second"
    file.unlink()
    time[0] = 122
    assert now(source.headers())[0][1] == b"Bearer second", "what was read last goes on"


CERTS = Path(__file__).parents[1] / "kubectl" / "files" / "config" / "certs"
V1 = "users:\n- {name: u1, user: {exec: {command: x, apiVersion: client.authentication.k8s.io/v1"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("clusters:\n- {name: c1, cluster: {server: 'ftp://x'}}", "server"),
        ("clusters:\n- {name: c1, cluster: {server: 'https://x', certificate-authority: none.pem}}", "certificate-authority"),
        ("clusters:\n- {name: c1, cluster: {server: 'https://x', certificate-authority-data: '%'}}",
         "clusters.cluster.certificate-authority-data"),
        ("clusters:\n- {name: c1, cluster: {server: 'https://x', proxy-url: 'socks4://p'}}", "proxy-url"),
        ("users:\n- {name: u1, user: {tokenFile: gone}}", "tokenFile"),
        ("users:\n- {name: u1, user: {token: t, username: me}}", "users[u1]"),
        ("users:\n- {name: u1, user: {client-certificate-data: aGk=}}", "users[u1]"),
        (V1.replace("command: x", "args: [a]") + ", interactiveMode: Never}}}", "exec.command"),
        ("users:\n- {name: u1, user: {exec: {command: x, apiVersion: v7, interactiveMode: Never}}}", "exec.apiVersion"),
        (V1 + "}}}", "exec.interactiveMode"),
        (V1 + ", interactiveMode: Sometimes}}}", "exec.interactiveMode"),
        ("users: {a: b}", "users"),
        ("clusters:\n- {name: c1, cluster: {insecure-skip-tls-verify: 'false'}}", "clusters.cluster.insecure-skip-tls-verify"),
        ("users:\n- {name: u1, user: {token: 7}}", "users.user.token"),
        ("users:\n- {name: u1, user: {as-groups: system}}", "users.user.as-groups"),
        ("contexts:\n- 7", "contexts"),
    ],
)  # fmt: skip
def test_errors_name_file_and_field(change: str, field: str, tmp_path: Path) -> None:
    """and never quote a credential"""
    path = tmp_path / "config"
    base = "contexts:\n- {name: a, context: {cluster: c1, user: u1}}\ncurrent-context: a\n"
    rest = {"clusters": "clusters:\n- {name: c1, cluster: {server: 'https://x'}}\n", "users": "users:\n- {name: u1}\n"}
    key = change.split(":")[0]
    text = change + "\n" + "".join(part for name, part in rest.items() if name != key)
    path.write_text(text + ("current-context: a\n" if key == "contexts" else base))
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    assert (caught.value.file, caught.value.field) == (str(path), field)


@pytest.mark.parametrize("mode", ["", "interactiveMode: Never, ", "interactiveMode: Always, "])
def test_plugins_of_all_modes_are_read(mode: str, tmp_path: Path) -> None:
    """The older version's mode may be left out."""
    version = "v1" if mode else "v1beta1"
    text = f"{{command: x, {mode}apiVersion: client.authentication.k8s.io/{version}}}"
    path = tmp_path / "config"
    path.write_text(
        "clusters:\n- {name: c, cluster: {server: 'https://x'}}\n"
        f"users:\n- {{name: u, user: {{exec: {text}}}}}\n"
        "contexts:\n- {name: a, context: {cluster: c, user: u}}\ncurrent-context: a\n"
    )
    assert type(load(str(path)).credentials).__name__ == "ExecPlugin"


@pytest.mark.parametrize("given", [True, False])
def test_a_client_certificate_comes_before_a_plugin(given: bool, tmp_path: Path) -> None:
    pair = [str(CERTS / name) for name in ("client.crt", "client.key")]
    plugin = {"command": "x", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
    user = {"exec": plugin} | ({} if given else dict(zip(("client-certificate", "client-key"), pair, strict=True)))
    path = tmp_path / "config"
    entries = {
        "clusters": [{"name": "c", "cluster": {"server": "https://x"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps({**entries, "current-context": "a"}))
    over = Overrides(client_certificate=pair[0], client_key=pair[1]) if given else Overrides()
    config = load(str(path), overrides=over)
    assert config.credentials is NO_CREDENTIALS and config.certificate


@pytest.mark.parametrize(
    ("over", "why"),
    [
        (Overrides(context="b", proxy_url="ftp://me:secret@p"),
         'invalid \'proxy-url\' "ftp://p" for cluster "c2": unsupported scheme "ftp", must be http, https, or socks5'),
        (Overrides(context="b", proxy_url="http://me:secret@p:x"),
         'invalid \'proxy-url\' "http://p:x" for cluster "c2": could not parse: http://p:x'),
        (Overrides(context="b", server="http://me:secret@s:x"), 'host must be a URL or a host:port pair: "http://s:x"'),
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_named_without_its_password(files: str, over: Overrides, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Kubeconfig.load("", {"KUBECONFIG": files}).config(None, over)
    assert caught.value.why == why


def test_who_the_command_line_says(files: str) -> None:
    over = Overrides(
        context="b", username="n", password="p", as_user="x", as_extra={"k": ["v"]}, proxy_url="socks5://p"
    )
    config = Kubeconfig.load("", {"KUBECONFIG": files}).config(None, over)
    assert now(config.credentials.headers()) == [(b"Authorization", b"Basic bjpw")]
    assert (config.impersonate.extra, config.proxy_url) == ({"k": ("v",)}, "socks5://p")
    both = over._replace(token="t")
    with pytest.raises(ConfigError, match="more than one authentication method found for u2"):
        Kubeconfig.load("", {"KUBECONFIG": files}).config(None, both)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "clusters:\n"
            "- name: a\n"
            "  cluster: {certificate-authority-data: YWI=, proxy-url: null, extensions: [{name: e, extension: {a: 1}}]}\n"
            "- {name: a, cluster: {server: 'https://u:secret@h', proxy-url: 'http://u:secret@proxy'}}\n",
            'error converting *[]NamedCluster into *map[string]*api.Cluster: duplicate name "a" in list: '
            "[{a {  false  [97 98]  false [{e {[123 34 97 34 58 49 125] <nil>}}]}} "
            "{a {https://h  false  [] http://proxy false []}}]",
        ),
        (
            "contexts:\n- {name: b, context: {cluster: a, user: null, extensions: [null]}}\n-\n- {name: b}\n",
            'error converting *[]NamedContext into *map[string]*api.Context: duplicate name "b" in list: '
            "[{b {a   [{ {[] <nil>}}]}} { {   []}} {b {   []}}]",
        ),
    ],
)
def test_two_entries_of_one_name_are_shown_as_gos_structs(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    assert caught.value.why == f'error loading config file "{path}": {why}'


def test_a_context_that_is_not_there(files: str) -> None:
    with pytest.raises(ConfigError, match='context "zzz" does not exist'):
        load(files, context="zzz")


def test_a_current_context_without_any_entry_is_not_there_either(tmp_path: Path) -> None:
    """It does not mean the server of this machine."""
    (tmp_path / "config").write_text("current-context: gone\n")
    with pytest.raises(ConfigError, match="context was not found for specified context: gone"):
        load(str(tmp_path / "config"))


@pytest.mark.parametrize("server", ["https://[", "https://", "//h:1", "unix:///tmp/x", "https://a b", "h/path"])
def test_servers_that_are_none(server: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n"
        "contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    assert caught.value.why == f'host must be a URL or a host:port pair: "{server}"'


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (":", "http: no Host in request URL"),
        ("/", "http: no Host in request URL"),
        ("ftp://h", 'unsupported protocol scheme "ftp"'),
        ("h:99999", "dial tcp: address 99999: invalid port"),
        ("::1", 'invalid port "::1" after host'),
        ("a b:1", 'invalid character " " in host name'),
        ("http://%", 'invalid URL escape "%"'),
        ("http://h/%zz", 'invalid URL escape "%zz"'),
    ],
)
def test_servers_to_which_no_request_can_be_sent(server: str, why: str) -> None:
    with pytest.raises(NoConnection) as caught:
        Kubeconfig().config(None, Overrides(server=server))
    assert caught.value.why == why


@pytest.mark.parametrize("server", [":6443", "[::1]:6443", "h", "http://h:0"])
def test_servers_of_this_machine_and_others(server: str) -> None:
    assert Kubeconfig().config(None, Overrides(server=server)).host == server if "//" in server else f"http://{server}"


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "users: [{name: u, user: {token: t, username: name, as-uid: x}}]\n"
        "contexts: [{name: c, context: {user: u}}]\ncurrent-context: c\n"
    )
    with pytest.raises(ConfigErrors) as caught:
        load(str(path))
    assert [error.why for error in caught.value.errors] == [
        "more than one authentication method found for u; found [token basicAuth], only one is allowed",
        "requesting uid, groups or user-extra for u without impersonating a user",
    ]


def test_entries_that_are_not_there_are_empty(tmp_path: Path) -> None:
    """A context that names them means the server of this machine."""
    path = tmp_path / "config"
    path.write_text("contexts: [{name: c, context: {cluster: a, user: b}}]\ncurrent-context: c\n")
    assert load(str(path)).host == "http://localhost:8080"


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"stat {tmp_path}/no: no such file or directory"):
        Kubeconfig.load(str(tmp_path / "no"))


def test_bad_yaml_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("a: [b")
    with pytest.raises(ConfigError) as caught:
        Kubeconfig.load(str(tmp_path / "bad"))
    assert caught.value.file == str(tmp_path / "bad")


def test_without_any_file_it_is_the_pods_own_account(tmp_path: Path) -> None:
    for name, text in {"token": "tok", "ca.crt": "CA", "namespace": "mine"}.items():
        (tmp_path / name).write_text(text)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": "/nowhere"}
    config = load_config(environment=environment, service_account=str(tmp_path))
    assert (config.host, config.namespace, config.ca) == ("https://[fd00::1]:443", "mine", b"CA")
    assert now(config.credentials.headers()) == [(b"Authorization", b"Bearer tok")]
    with pytest.raises(ConfigError, match="must be defined"):
        in_cluster_config({}, str(tmp_path))


def test_without_anything_it_is_the_local_machine() -> None:
    assert load_config(environment={"HOME": "/nowhere"}).host == "http://localhost:8080"


@pytest.mark.parametrize(("scheme", "sent"), [("https", True), ("http", False)])
def test_credentials_are_sent_over_tls_alone(tmp_path: Path, scheme: str, sent: bool) -> None:
    file = tmp_path / "config"
    file.write_text(
        f"clusters: [{{name: c, cluster: {{server: '{scheme}://host'}}}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "users: [{name: u, user: {token: secret, as: other}}]\ncurrent-context: c\n"
    )
    config = load_config(kubeconfig=str(file))
    assert (config.credentials is not NO_CREDENTIALS) == sent
    assert config.impersonate.user == "other"
