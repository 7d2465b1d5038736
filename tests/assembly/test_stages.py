"""Config, completed config, storage, policy, chain, prepared server: what each stage makes of the flags."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kapi.assembly.prepared import PreparedServer
from kapi.machinery.gvk import GroupResource
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.servers.additions import Additions
from kapi.testing.http import MemoryRequest
from tests.assembly.assembled import assembled
from tests.certificates import self_signed


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> PreparedServer:
    return assembled(tmp_path_factory.mktemp("data"))


def request(path: str = "/") -> RequestContext:
    return RequestContext(MemoryRequest("GET", path), "GET", path, {})


def test_what_a_stage_made_stays_as_it_is(plain: PreparedServer) -> None:
    config = plain.config
    for stage in (config.given, config, plain.storage, plain.policy, plain.chain, plain):
        for field in dataclasses.fields(stage):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(stage, field.name, None)


# completed config


def test_short_work_and_slices_share_one_turn_with_and_without_priority_and_fairness(
    plain: PreparedServer, tmp_path: Path
) -> None:
    for config in (plain.config, assembled(tmp_path, "--enable-priority-and-fairness=false").config):
        assert config.turn is config.slices.turn


def test_nothing_is_audited_without_a_policy(plain: PreparedServer, tmp_path: Path) -> None:
    assert plain.config.auditor is None
    policy = tmp_path / "policy.yaml"
    policy.write_text('{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}')
    log = f"--audit-log-path={tmp_path / 'audit.log'}"
    assert assembled(tmp_path / "data", f"--audit-policy-file={policy}", log).config.auditor is not None


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--authorization-webhook-config-file=/nonexistent", "authorization"),
        ("--audit-policy-file=/nonexistent", "audit"),
        ("--token-auth-file=/nonexistent", "token-auth-file"),
        ("--admission-control-config-file=/nonexistent", "admission"),
        ("--proxy-client-cert-file=/nonexistent", "proxy-client"),
        ("--kubelet-certificate-authority=/nonexistent", "kubelet"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_by_its_stage(tmp_path: Path, flag: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        assembled(tmp_path, flag)


def front_proxy(directory: Path) -> list[str]:
    certificate, key = self_signed("front-proxy")
    (directory / "front.pem").write_bytes(certificate + key)
    return [f"--proxy-client-{what}-file={directory / 'front.pem'}" for what in ("cert", "key")]


def test_requests_go_to_other_servers_behind_all_filters_and_only_with_their_authorities(tmp_path: Path) -> None:
    flags = front_proxy(tmp_path)
    added = Additions(filters=[lambda ctx: None])
    server = assembled(tmp_path / "data", *flags, f"--peer-ca-file={tmp_path / 'front.pem'}", additions=added)
    last = server.handler_chain().filters[-2:]
    assert [step.__qualname__.split(".")[-1] for step in last] == ["<lambda>", "filter"]
    assert "mixed-version-proxy-handler" in server.hooks.names
    for name, flag in (("without", ""), ("off", "--feature-gates=UnknownVersionInteroperabilityProxy=false")):
        server = assembled(tmp_path / name, *flags, *filter(None, [flag]))
        assert server.innermost == () and "mixed-version-proxy-handler" not in server.hooks.names
        assert ("peer-endpoint-reconciler-controller" in server.hooks.names) is not bool(flag)


@pytest.mark.parametrize(("content", "text"), [(None, "cannot read"), (b"nothing", "ca.pem: ")])
def test_the_authorities_of_other_servers_can_be_read(tmp_path: Path, content: bytes | None, text: str) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=f"--peer-ca-file: .*{text}"):
        assembled(tmp_path / "data", *front_proxy(tmp_path), f"--peer-ca-file={file}")


@pytest.mark.parametrize(
    ("flags", "address"),
    [
        ((), "192.0.2.1:6443"),
        (("--peer-advertise-ip=192.0.2.9",), "192.0.2.1:6443"),  # both or none
        (("--peer-advertise-ip=192.0.2.9", "--peer-advertise-port=7443"), "192.0.2.9:7443"),
        (("--peer-advertise-ip=fd00::9", "--peer-advertise-port=7443"), "[fd00::9]:7443"),
    ],
)
def test_other_servers_reach_this_one_where_clients_do_or_at_an_address_of_their_own(
    flags: tuple[str, ...], address: str
) -> None:
    assert Options.from_command_line(flags).aggregator.peer_address("192.0.2.1", 6443) == address


def test_clients_are_told_the_external_name(plain: PreparedServer, tmp_path: Path) -> None:
    assert plain.config.external_address() == "192.0.2.1:6443"
    assert assembled(tmp_path, "--external-hostname=api.example").config.external_address() == "api.example:6443"


# storage


def test_each_server_has_its_groups(plain: PreparedServer) -> None:
    storage = plain.storage
    assert storage.extensions.groups == {"apiextensions.k8s.io"}
    assert storage.aggregator.groups == {"apiregistration.k8s.io"}
    assert {"", "apps", "rbac.authorization.k8s.io"} <= storage.core.groups
    assert not storage.core.groups & (storage.extensions.groups | storage.aggregator.groups)


def test_what_is_turned_off_is_not_served_and_its_group_stays_the_servers(tmp_path: Path) -> None:
    made = assembled(tmp_path, "--runtime-config=apps/v1=false")
    assert not any(row.group == "apps" for row in made.storage.core.rows)
    assert "apps" in made.chain.core.fixed_groups
    assert GroupResource("apps", "deployments") not in made.storage.registry.stores
    assert not made.chain.aggregator.serves_group_version("apps", "v1")


def test_every_row_that_is_stored_has_a_store(plain: PreparedServer) -> None:
    storage = plain.storage
    rows = [*storage.extensions.rows, *storage.core.rows, *storage.aggregator.rows]
    assert {row.storage_resource for row in rows if not row.handler} == set(storage.registry.stores)


# policy


def test_uids_of_certificates_can_be_switched_off(plain: PreparedServer, tmp_path: Path) -> None:
    assert plain.policy.identity.settings.certificate_uids
    made = assembled(tmp_path, "--feature-gates=AllowParsingUserUIDFromCertAuth=false")
    assert not made.policy.identity.settings.certificate_uids


def test_all_stores_are_admitted_by_the_same_chain(plain: PreparedServer) -> None:
    registry, admission = plain.storage.registry, plain.policy.admission
    assert {id(store.admission) for store in registry.stores.values()} == {id(admission)}
    assert registry.admission is admission


def test_strategies_and_authorizers_know_each_other(plain: PreparedServer) -> None:
    authorization = plain.policy.authorization
    assert plain.storage.registry.environment.authorizer is authorization.authorizer
    assert authorization is plain.config.authorization


# chain


def test_requests_go_from_the_aggregator_to_the_core_to_the_extensions(plain: PreparedServer) -> None:
    chain = plain.chain
    assert chain.aggregator.delegate is chain.core and chain.core.delegate is chain.extensions
    names = [server.name for server in (chain.aggregator, chain.core, chain.extensions, chain.extensions.delegate)]
    assert names == ["kube-aggregator", "kube-apiserver", "apiextensions-apiserver", "not-found"]


def test_each_server_serves_what_is_registered_for_it(plain: PreparedServer) -> None:
    for server, built_in in (
        (plain.chain.aggregator, plain.storage.aggregator),
        (plain.chain.core, plain.storage.core),
        (plain.chain.extensions, plain.storage.extensions),
    ):
        assert [scope.resource for scope in server.table.scopes()] == built_in.rows


def test_every_special_endpoint_of_a_row_is_there(plain: PreparedServer) -> None:
    for server in (plain.chain.aggregator, plain.chain.core, plain.chain.extensions):
        for scope in server.table.scopes():
            named = {scope.resource.handler, *(sub.handler for sub in scope.resource.subresources)} - {"", None}
            assert named <= server.table.handlers.keys()


# prepared server


def test_hooks_of_all_servers_run_and_are_health_checks(plain: PreparedServer) -> None:
    names = plain.hooks.names
    for name in (
        "start-apiextensions-controllers",
        "bootstrap-controller",
        "rbac/bootstrap-roles",
        "apiservice-registration-controller",
        "priority-and-fairness-config-consumer",
        "generic-apiserver-start-informers",
        "start-legacy-token-tracking-controller",
    ):
        assert name in names
    assert {f"/readyz/poststarthook/{name}" for name in names} <= set(plain.chain.aggregator.listed_paths())


@pytest.mark.parametrize(
    ("flag", "path"),
    [
        ("--profiling", "/debug/pprof"),
        ("--feature-gates=ComponentFlagz=true", "/flagz"),
    ],
)
def test_flags_add_paths(tmp_path: Path, flag: str, path: str) -> None:
    off = {
        "--profiling": "--profiling=false",
        "--feature-gates=ComponentFlagz=true": "--feature-gates=ComponentFlagz=false",
    }
    found = []
    for number, given in enumerate((flag, off.get(flag, "--v=0"))):
        chain = assembled(tmp_path / str(number), given).chain
        found.append(path in {**chain.aggregator.app.endpoints, **chain.core.app.endpoints})
    assert found == [True, False]


def test_plugins_for_keys_are_checked_where_they_may_be_and_do_not_end_the_server(tmp_path: Path) -> None:
    """A failing liveness probe would restart the server, which does not help a plugin."""
    path = tmp_path / "encryption.yaml"
    path.write_text(
        "{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, "
        "resources: [{resources: [secrets], providers: [{identity: {}}]}]}"
    )
    for flags, names in (
        ([], set()),
        (["--encryption-provider-config-automatic-reload"], {"/healthz/kms-providers", "/readyz/kms-providers"}),
    ):
        made = assembled(tmp_path / str(len(flags)), f"--encryption-provider-config={path}", *flags)
        listed = made.chain.aggregator.listed_paths()
        assert {each for each in listed if each.endswith("/kms-providers")} == names


def test_further_filters_come_before_all_and_behind_all(plain: PreparedServer) -> None:
    seen: list[str] = []

    def step(name: str) -> Any:
        return lambda ctx: seen.append(name)

    def answer(ctx: RequestContext) -> Response:
        seen.append("site")
        return Response(200)

    site: Any = SimpleNamespace(answer=answer)
    server = dataclasses.replace(plain, filters=(step("filter"),), site=site)
    server.handler_chain(before=[step("before")], behind=[step("behind")]).handle(request())
    assert seen == ["before", "filter", "behind", "site"]
