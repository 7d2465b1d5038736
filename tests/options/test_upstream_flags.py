"""The help text against kube-apiserver's: every flag in its group, with its type and default."""

from __future__ import annotations

import functools
import re
import ssl
import sys
from pathlib import Path

import pytest

from kapi.options.errors import ConfigError
from kapi.options.options import Options, help_text
from kapi.options.serving import CIPHER_SUITES

LINES = (Path(__file__).parent / "upstream_flags.txt").read_text().splitlines()[1:]
UPSTREAM = [(*line.split("\t"), "", "")[:4] for line in LINES]
#: flags whose default is another one here, and why
OTHER_DEFAULTS = {
    "cert-dir": "",  # <data-dir>/pki
    "authorization-mode": "",
    "service-cluster-ip-range": '"10.0.0.0/24"',  # upstream's default, which its help text does not show
}


@functools.cache
def shown() -> dict[str, tuple[str, str, str]]:
    """flag -> group, type, default of the help text."""
    found: dict[str, tuple[str, str, str]] = {}
    group, name = "", ""
    for line in help_text().splitlines():
        if line.endswith(" flags:"):
            group = line.removesuffix(" flags:")
        elif match := re.match(r"  (?:-\w, |    )--([a-z0-9-]+)(?: (\S+)|(\[=\S+))?$", line):
            name = match[1]
            found[name] = (group, match[2] or (f"{name}{match[3]}" if match[3] else "bool"), "")
        elif match := re.search(r"\(default (.*)\)$", line):
            found[name] = (*found[name][:2], match[1])
    return found


def test_all_flags_of_upstream_are_there() -> None:
    assert len(UPSTREAM) == 173
    assert {name for _, name, *_ in UPSTREAM} <= shown().keys()


def test_groups_come_in_upstreams_order() -> None:
    titles = [line.removesuffix(" flags:") for line in help_text().splitlines() if line.endswith(" flags:")]
    wanted = list(dict.fromkeys(group for group, *_ in UPSTREAM))
    assert titles[: len(wanted)] == wanted


@pytest.mark.parametrize(("group", "name", "kind", "default"), UPSTREAM, ids=[name for _, name, *_ in UPSTREAM])
def test_a_flag_has_upstreams_group_type_and_default(group: str, name: str, kind: str, default: str) -> None:
    assert shown()[name] == (group, kind, OTHER_DEFAULTS.get(name, default))


VALUES = {
    "ip": "192.0.2.1", "int": "1", "duration": "90s", "float": "0.01", "float32": "1", "portRange": "30000-30001",
    "quantity": "1Ki", "Level": "2", "pattern=N,...": "reload*=4", "int32Slice": "29,23", "bool": "true",
    "namedCertKey": "a.crt,a.key", "colonSeparatedMultimapStringString": "kube:AllAlpha=false",
}  # fmt: skip
TEXTS = {
    "emulated-version": "kube=1.36", "min-compatibility-version": "1.35", "watch-cache-sizes": "pods#100",
    "tls-cipher-suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "tls-min-version": "VersionTLS13",
    "cors-allowed-origins": "//a(:|$)",
    "strict-transport-security-directives": "max-age=1", "oidc-signing-algs": "RS256", "authorization-mode": "RBAC",
    "authentication-token-webhook-version": "v1", "authorization-webhook-version": "v1", "logging-format": "json",
    "service-account-jwks-uri": "https://x", "service-account-signing-endpoint": "@signer",
    "service-cluster-ip-range": "10.1.0.0/16", "runtime-config": "api/all=true",
    "show-hidden-metrics-for-version": "1.35", "endpoint-reconciler-type": "none", "allow-metric-labels": "a,b=c",
    "requestheader-uid-headers": "X-Remote-Uid", "service-account-max-token-expiration": "2h",
    "audit-log-format": "json", "audit-webhook-mode": "batch", "audit-log-mode": "batch",
    "audit-log-version": "audit.k8s.io/v1", "audit-webhook-version": "audit.k8s.io/v1",
    **dict.fromkeys(("admission-control", "enable-admission-plugins", "disable-admission-plugins"), "AlwaysDeny"),
    "kubernetes-service-node-port": "30001", "coordinated-leadership-renew-deadline": "9s",
    "coordinated-leadership-retry-period": "3s",
}  # fmt: skip
#: they do not stand alone, or name files that are read
TOGETHER = {
    "encryption-provider-config-automatic-reload", "emulation-forward-compatible",
    "runtime-config-emulation-forward-compatible",
    "allow-metric-labels-manifest", "authorization-config", "authorization-policy-file",
    "authorization-webhook-config-file", "kubelet-client-certificate", "kubelet-client-key", "oidc-ca-file",
    "oidc-client-id", "oidc-groups-claim", "oidc-groups-prefix", "oidc-issuer-url", "oidc-required-claim",
    "oidc-signing-algs", "oidc-username-claim", "oidc-username-prefix", "proxy-client-cert-file",
    "proxy-client-key-file", "peer-ca-file", "tls-cert-file", "tls-private-key-file",
}  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for _, name, kind, _ in UPSTREAM if name not in TOGETHER])
def test_a_flag_is_taken_or_refused_with_a_reason(name: str, kind: str) -> None:
    text = TEXTS.get(name) or VALUES.get(kind) or "x"
    try:
        Options.from_command_line([f"--{name}={text}"])
    except ConfigError as error:
        (message,) = error.messages
        assert message.startswith(f"--{name} is not for kapi: ")
        assert name in REFUSED


#: what belongs to etcd, or to what kapi does not do
REFUSED = {
    "egress-selector-config-file", "etcd-cafile",
    "etcd-certfile", "etcd-keyfile", "etcd-prefix",
    "etcd-servers", "etcd-servers-overrides", "lease-reuse-duration-seconds",
    "storage-backend", "storage-media-type", "tracing-config-file",
}  # fmt: skip


def test_flags_of_etcd_are_refused_with_what_to_use_instead() -> None:
    with pytest.raises(ConfigError) as caught:
        Options.from_command_line(["--etcd-servers", "https://127.0.0.1:2379", "--etcd-prefix=/x"])
    assert list(caught.value.messages) == [
        "--etcd-servers is not for kapi: use --redis-servers, or nothing for an embedded store in --data-dir",
        "--etcd-prefix is not for kapi: use --redis-prefix",
    ]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "--endpoint-reconciler-type=etcd",
            "--endpoint-reconciler-type 'etcd': one of lease, none, master-count",
        ),
        ("--logging-format=xml", '--logging-format: Invalid value: "xml": Unsupported log format'),
        (
            "--show-hidden-metrics-for-version=1.30",
            "--show-hidden-metrics-for-version must be omitted or have the value '1.35'",
        ),
        (
            "--service-account-signing-endpoint=abc",
            'invalid value "abc" passed for `--service-account-signing-endpoint`, should be a valid location on the '
            "filesystem or must be prefixed with @ to name UDS in abstract namespace",
        ),
        ("--watch-cache-sizes=pods", "--watch-cache-sizes: invalid value of watch cache size: pods"),
        (
            "--tls-curve-preferences=1",
            'invalid argument "1" for "--tls-curve-preferences" flag: curve 1 is not supported: one of 23, 24, 25, 29, 4588',
        ),
    ],
)
def test_values_that_cannot_be_are_refused(flag: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Options.from_command_line([flag])
    assert list(caught.value.messages) == [message]


@pytest.mark.parametrize("flag", ["--service-account-signing-key-file=/k", "--service-account-key-file=/k"])
def test_a_signer_has_its_own_keys(flag: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Options.from_command_line(["--service-account-signing-endpoint=/run/signer.sock", flag])
    assert list(caught.value.messages) == [
        "can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with "
        "`--service-account-signing-endpoint` (They are mutually exclusive)"
    ]


def test_a_signer_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(ConfigError) as caught:
        Options.from_command_line(["--service-account-signing-endpoint=/run/signer.sock"])
    (message,) = caught.value.messages
    assert message.startswith("--service-account-signing-endpoint: ")
    assert message.endswith(": install kapi[kms]")


def test_the_deprecated_list_of_plugins_replaces_the_defaults() -> None:
    admission = Options.from_command_line(["--admission-control=LimitRanger,AlwaysPullImages"]).admission
    assert admission.enable_admission_plugins == ["LimitRanger", "AlwaysPullImages"]
    assert "NamespaceLifecycle" in admission.disable_admission_plugins
    assert "LimitRanger" not in admission.disable_admission_plugins
    with pytest.raises(ConfigError, match="mutually exclusive"):
        Options.from_command_line(["--admission-control=LimitRanger", "--disable-admission-plugins=Priority"])


def test_what_is_set_is_told_without_passwords() -> None:
    options = Options.from_command_line(["--redis-servers=redis://kapi:secret@host:6379/1", "--request-timeout=90s"])
    told = dict(options.settings())
    assert told["redis-servers"] == "[redis://kapi:***@host:6379/1]"
    assert told["request-timeout"] == "1m30s"
    assert told["max-requests-inflight"] == "400"
    assert "etcd-servers" not in told


def test_a_password_with_an_at_sign_is_masked_to_its_end() -> None:
    for url, shown in (
        ("redis://kapi:sec@ret@host:6379/1", "redis://kapi:***@host:6379/1"),
        ("redis://:a@b@host", "redis://:***@host"),
        ("redis+sentinel://:a@b@one:1,two:2/main", "redis+sentinel://:***@one:1,two:2/main"),
        ("redis://host:6379", "redis://host:6379"),
    ):
        told = dict(Options.from_command_line([f"--redis-servers={url}"]).settings())
        assert told["redis-servers"] == f"[{shown}]"


def test_what_is_given_in_vain_is_named() -> None:
    options = Options.from_command_line(["--log-flush-frequency=1s", "--secure-port=0"])
    assert options.inert() == [("log-flush-frequency", "lines are written at once")]


#: what is taken and changes nothing, since what it is about is not there or is so in any case
INERT = {
    "contention-profiling": "one thread does the work, and waits for no lock",
    "log-flush-frequency": "lines are written at once",
    "log-json-info-buffer-size": "lines are written at once",
    "log-text-info-buffer-size": "lines are written at once",
    "permit-address-sharing": "it is always done, as Go does it",
    "send-retry-after-while-not-ready-once": "the port opens when everything is loaded",
    "show-hidden-metrics-for-version": "none are hidden",
    "watch-cache": "all reads and watches use it, and are as fresh as the store",
    "watch-cache-sizes": "caches hold what there is, and history by age",
}


def test_no_other_flag_is_taken_in_vain() -> None:
    flags = [flag for group in Options().groups for flag in group.flags.values()]
    assert {flag.name: flag.inert for flag in flags if flag.inert} == INERT


def test_the_interval_of_compaction_has_two_names() -> None:
    assert Options.from_command_line(["--etcd-compaction-interval=1m"]).storage.redis_compaction_interval == 60
    both = ["--etcd-compaction-interval=1m", "--redis-compaction-interval=2m"]
    assert Options.from_command_line(both).storage.redis_compaction_interval == 120


def test_what_is_without_effect_or_refused_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "flags.rst").read_text()
    flags = [flag for group in Options().groups for flag in group.flags.values()]
    assert [flag.name for flag in flags if (flag.inert or flag.refused) and f"``--{flag.name}``" not in page] == []


def test_deprecated_flags_are_accepted_with_a_warning_and_not_shown() -> None:
    flags = ["--apiserver-count=3", "--default-watch-cache-size=50", "--audit-webhook-batch-initial-backoff=2s"]
    options = Options.from_command_line(flags)
    assert options.deprecated() == [
        (
            "default-watch-cache-size",
            "watch caches are sized automatically and this flag will be removed in a future version",
        ),
        ("audit-webhook-batch-initial-backoff", "Deprecated, use --audit-webhook-initial-backoff instead."),
        ("apiserver-count", "apiserver-count is deprecated and will be removed in a future version."),
    ]
    assert vars(options.audit)["audit_webhook_initial_backoff"] == 2.0
    assert not {"apiserver-count", "default-watch-cache-size", "audit-webhook-batch-initial-backoff"} & shown().keys()
    with pytest.raises(ConfigError, match=r"^--apiserver-count should be a positive number, but value '0' provided$"):
        Options.from_command_line(["--apiserver-count=0"])


def test_all_cipher_suites_of_go_are_accepted() -> None:
    names = ("TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_RC4_128_SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA")
    serving = Options.from_command_line([f"--tls-cipher-suites={','.join(names)}"]).serving
    assert (serving.ciphers, serving.minimum_version) == (["AES128-GCM-SHA256", "ECDHE-RSA-AES256-SHA"], "VersionTLS12")
    for suite in CIPHER_SUITES.values():
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(suite)  # OpenSSL knows it
    for name in ("TLS_RSA_WITH_3DES_EDE_CBC_SHA", "TLS_AES_128_GCM_SHA256"):
        alone = Options.from_command_line([f"--tls-cipher-suites={name}"]).serving
        assert (alone.ciphers, alone.minimum_version) == ([], "VersionTLS13")
    with pytest.raises(ConfigError, match=r"Cipher suite TLS_NULL not supported or doesn't exist$"):
        Options.from_command_line(["--tls-cipher-suites=TLS_NULL"])
