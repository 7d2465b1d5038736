"""Flags and files become authenticators and authorizers, and changed files are taken up while the server runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock

from kapi.authorization.build import AuthorizationSettings, build_authorization
from kapi.authorization.interface import Attributes, Decision
from kapi.options.authentication import AuthenticationOptions
from kapi.options.authorization import AuthorizationOptions
from kapi.options.errors import ConfigError
from kapi.options.external import ExternalIdentity, ExternalPolicy
from kapi.options.flags import parse
from kapi.request.user import UserInfo
from tests.authorization.policies import ask

ALICE = UserInfo("alice")
HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: {}\n"
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://webhook.example/x"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def policy(*arguments: str) -> ExternalPolicy:
    flags = AuthorizationOptions()
    assert not parse([flags], arguments)
    flags.complete()
    return ExternalPolicy(flags, MemoryReactorClock())


def identity(*arguments: str) -> ExternalIdentity:
    flags = AuthenticationOptions()
    assert not parse([flags], arguments)
    flags.complete()
    return ExternalIdentity(flags, MemoryReactorClock())


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_issuers_are_looked_for_from_the_start_of_the_server_to_its_end() -> None:
    flags, reactor = AuthenticationOptions(), MemoryReactorClock()
    assert not parse([flags], ["--oidc-issuer-url=https://192.0.2.1", "--oidc-client-id=kapi"])
    flags.complete()
    external = ExternalIdentity(flags, reactor)
    assert not reactor.getDelayedCalls()
    external.start()
    assert reactor.getDelayedCalls()
    external.stop()
    reactor.advance(60)
    assert not reactor.getDelayedCalls()


def test_a_changed_authorization_file_counts_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "authorization.yaml"
    head = HEAD.format("AuthorizationConfiguration")
    external = policy(f"--authorization-config={write(file, head + 'authorizers: [{type: AlwaysDeny, name: d}]')}")
    built = build_authorization(AuthorizationSettings(external.modes, external.others))

    def decision() -> Decision:
        verdict: Any = built.authorizer.authorize(ask(ALICE, "get", "pods"))
        return Decision(verdict.decision)

    assert decision() is Decision.NO_OPINION
    write(file, head + "authorizers: [{type: AlwaysAllow, name: a}]")
    external.reload(built.replace)
    assert decision() is Decision.ALLOW
    for broken in ("authorizers: []", "authorizers: [{type: Nope, name: a}]", "["):
        write(file, head + broken)
        external.reload(built.replace)
        assert decision() is Decision.ALLOW
    file.unlink()
    external.reload(built.replace)
    assert decision() is Decision.ALLOW


def test_abac_and_webhook_by_flags(tmp_path: Path) -> None:
    rules = write(tmp_path / "abac", '{"user": "alice", "resource": "pods"}\n')
    kubeconfig = write(tmp_path / "webhook", KUBECONFIG)
    external = policy(
        "--authorization-mode=ABAC,Webhook",
        f"--authorization-policy-file={rules}",
        f"--authorization-webhook-config-file={kubeconfig}",
    )
    assert sorted(external.others) == ["ABAC", "Webhook"]
    built = build_authorization(AuthorizationSettings(external.modes, external.others))
    verdict: Any = built.authorizer.authorize(ask(ALICE, "get", "pods"))
    assert verdict.decision is Decision.ALLOW


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    broken = write(tmp_path / "broken", "{")
    for arguments in (
        ("--authorization-mode=ABAC", f"--authorization-policy-file={broken}"),
        ("--authorization-mode=Webhook", f"--authorization-webhook-config-file={broken}"),
        (f"--authorization-config={broken}",),
        (f"--authorization-config={tmp_path}/nosuch",),
    ):
        with pytest.raises(ConfigError, match="--authorization-"):
            policy(*arguments)
    for argument in ("--authentication-config", "--authentication-token-webhook-config-file"):
        with pytest.raises(ConfigError, match=argument):
            identity(f"{argument}={broken}")


def test_anonymous_access_by_file(tmp_path: Path) -> None:
    head = HEAD.format("AuthenticationConfiguration")
    file = write(tmp_path / "authentication", head + "anonymous: {enabled: true, conditions: [{path: /livez}]}")
    external = identity(f"--authentication-config={file}")
    assert external.anonymous is True and external.anonymous_paths == ["/livez"]
    with pytest.raises(ConfigError, match="--anonymous-auth flag cannot be set"):
        identity(f"--authentication-config={file}", "--anonymous-auth=false")


def test_oidc_by_flags_and_by_file(tmp_path: Path) -> None:
    external = identity("--oidc-issuer-url=https://issuer.example", "--oidc-client-id=kapi")
    assert len(external.tokens) == 1
    with pytest.raises(ConfigError, match="must not overlap"):
        identity(
            "--oidc-issuer-url=https://issuer.example",
            "--oidc-client-id=kapi",
            "--service-account-issuer=https://issuer.example",
        )


def test_paths_that_are_public_are_read_by_whoever_asks() -> None:
    for public, wanted in ((["/healthz"], Decision.ALLOW), ([], Decision.NO_OPINION)):
        built = build_authorization(AuthorizationSettings(public=public))
        asked = Attributes(UserInfo("system:anonymous"), "get", is_resource=False, path="/healthz")
        verdict: Any = built.authorizer.authorize(asked)
        assert verdict.decision is wanted
