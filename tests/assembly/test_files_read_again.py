"""What a server reads again while it runs: a file that is good takes effect, one that is wrong changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kapi.assembly.prepared import PreparedServer
from kapi.authentication.interface import AuthenticationError
from kapi.options.errors import ConfigError
from tests.assembly.assembled import assembled
from tests.authentication.identities import Authority
from tests.store.test_encryption import file, provider


def figures(server: PreparedServer, area: str) -> dict[str, float]:
    """How often the file was read again, by how that ended."""
    name = f"apiserver_{area}_config_controller_automatic_reloads_total"
    return {
        sample.labels["status"]: sample.value
        for family in server.config.metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def encryption(tmp_path: Path, *more: str) -> tuple[PreparedServer, Path]:
    path = tmp_path / "encryption.yaml"
    path.write_bytes(file(provider("aescbc", "a")))
    return assembled(tmp_path / "data", f"--encryption-provider-config={path}", *more), path


def cipher(server: PreparedServer) -> str:
    """By which Secrets are written now."""
    store = server.config.given.store.encryption
    assert store is not None
    head, _ = store.to_storage("core/secrets/ns/name", b"{}", b"")
    return head.decode("latin-1").removeprefix("k8s:enc:").partition(":")[0]


def test_a_new_encryption_configuration_replaces_the_old_one(tmp_path: Path) -> None:
    server, path = encryption(tmp_path, "--encryption-provider-config-automatic-reload")
    path.write_text("kind: Nothing")
    server.config.reloaders.run()
    assert cipher(server) == "aescbc" and figures(server, "encryption")["failure"] == 1
    path.write_bytes(file(provider("aesgcm", "b"), provider("aescbc", "a")))
    server.config.reloaders.run()
    server.config.reloaders.run()  # it has not changed again
    assert cipher(server) == "aesgcm" and figures(server, "encryption")["success"] == 1


def test_without_the_flag_an_encryption_configuration_is_read_once(tmp_path: Path) -> None:
    server, path = encryption(tmp_path)
    path.write_bytes(file(provider("aesgcm", "b"), provider("aescbc", "a")))
    server.config.reloaders.run()
    assert cipher(server) == "aescbc"


def test_a_new_authorization_configuration_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "authorization.yaml"
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"
    path.write_text(f"{head}  - {{type: RBAC, name: rbac}}\n")
    server = assembled(tmp_path / "data", f"--authorization-config={path}")
    path.write_text(f"{head}  - {{type: Mystery, name: x}}\n")
    server.config.reloaders.run()
    assert figures(server, "authorization")["failure"] == 1
    path.write_text(f"{head}  - {{type: AlwaysAllow, name: all}}\n")
    server.config.reloaders.run()
    assert figures(server, "authorization")["success"] == 1


def test_clients_of_a_new_authority_are_known_when_the_bundle_is_read_again(tmp_path: Path) -> None:
    old, new = Authority("old"), Authority("new")
    path = tmp_path / "clients.crt"
    path.write_bytes(old.pem)
    server = assembled(tmp_path / "data", f"--client-ca-file={path}")
    authority = server.policy.identity.settings.client_ca
    assert authority is not None
    certificate = new.client("anna")
    with pytest.raises(AuthenticationError, match="unknown authority"):
        authority.verify([certificate])
    path.write_bytes(b"a file that is being written")
    server.config.reloaders.run()
    path.write_bytes(old.pem + new.pem)
    server.config.reloaders.run()
    assert authority.verify([certificate]) > 0


@pytest.mark.parametrize("transport", ["uds: {udsName: /run/proxy}", "tcp: {url: 'http://127.0.0.1:3128'}"])
def test_a_proxy_is_chosen_before_anything_connects(tmp_path: Path, transport: str) -> None:
    path = tmp_path / "egress.yaml"
    path.write_text(
        "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n"
        f"  - name: cluster\n    connection: {{proxyProtocol: HTTPConnect, transport: {{{transport}}}}}\n"
    )
    server = assembled(tmp_path / "data", f"--egress-selector-config-file={path}")
    names = {family.name for family in server.config.metrics.registry.collect()}
    assert "apiserver_egress_dialer_dial_duration_seconds" in names


def test_tls_files_of_a_proxy_that_cannot_be_used_end_the_start(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("none")
    files = f"clientKey: {key}, clientCert: {key}, caBundle: {key}"
    path = tmp_path / "egress.yaml"
    path.write_text(
        "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n  - name: cluster\n"
        f"    connection: {{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: 'https://h', tlsConfig: {{{files}}}}}}}}}\n"
    )
    with pytest.raises(ConfigError, match="cluster: TLS files cannot be used"):
        assembled(tmp_path / "data", f"--egress-selector-config-file={path}")
