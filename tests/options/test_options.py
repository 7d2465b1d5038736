"""The command line: upstream's syntax, every error at once, nothing ignored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kapi.endpoints.connect.kubelet import KubeletSettings
from kapi.options.errors import ConfigError
from kapi.options.flags import FlagError, duration, port_range
from kapi.options.options import Options
from kapi.options.serving import sni_pair
from kapi.tap import expand
from tests.authentication.identities import Authority


def parse(*arguments: str) -> Options:
    return Options.from_command_line(arguments)


def errors(*arguments: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(*arguments)
    return list(caught.value.messages)


def test_a_value_follows_after_equals_or_a_space() -> None:
    assert parse("--secure-port=0").serving.secure_port == 0
    assert parse("--secure-port", "7000").serving.secure_port == 7000


def test_a_switch_stands_alone_or_takes_equals() -> None:
    assert parse("--disable-http2-serving").serving.disable_http2_serving is True
    assert parse("--anonymous-auth=false").authentication.anonymous_auth is False
    assert errors("--anonymous-auth", "false") == ["unexpected argument 'false'"]
    assert parse("", "--anonymous-auth=false", "").authentication.anonymous_auth is False


def test_each_flag_is_an_attribute_with_its_default_and_no_two_groups_share_a_list() -> None:
    first, second = Options(), Options()
    for one, other in zip(first.groups, second.groups, strict=True):
        for flag in one.flags.values():
            value = getattr(one, flag.attribute)
            assert value == flag.default, flag.name
            assert flag.kind not in ("list", "array", "map") or value is not getattr(other, flag.attribute)


def test_verbosity_is_short() -> None:
    assert [parse(*flags).logs.v for flags in (("-v=3",), ("-v3",), ("-v", "3"), ("--v=3",))] == [3, 3, 3, 3]


def test_all_errors_are_told_at_once() -> None:
    found = errors(
        "--nosuch=1", "--secure-port=x", "--goaway-chance=0.5", "--tls-min-version=SSL3", "--service-cluster-ip-range=z"
    )
    assert len(found) == 5
    assert found[0] == "unknown flag: --nosuch"
    assert found[1] == 'invalid argument "x" for "--secure-port" flag: strconv.ParseInt: parsing "x": invalid syntax'


@pytest.mark.parametrize("origin", [r"//example\.com(:|$)", "^https://example.com$", r"//\pL+\.example\.com:"])
def test_origins_for_cors_are_regular_expressions_of_re2(origin: str) -> None:
    assert parse(f"--cors-allowed-origins={origin}").generic.cors_allowed_origins == [origin]


@pytest.mark.parametrize(
    "origin", ["//(example.com$", "(?=//)example.com$", b"//\xff.example.com$".decode(errors="surrogateescape")]
)
def test_an_origin_that_re2_cannot_compile_is_an_error_of_the_flag(origin: str) -> None:
    [error] = errors(f"--cors-allowed-origins={origin}")
    assert error.startswith("--cors-allowed-origins has an invalid regular expression: error parsing regexp: ")


@pytest.mark.parametrize("flag", ["advertise-address", "bind-address"])
def test_an_address_has_no_zone(flag: str) -> None:
    assert errors(f"--{flag}=fe80::1%eth0") == [
        f'invalid argument "fe80::1%eth0" for "--{flag}" flag: failed to parse IP: "fe80::1%eth0"'
    ]


def test_a_file_that_is_nested_too_deeply_is_one_error(tmp_path: Path) -> None:
    """Of each flag that names a YAML file which is read before the server starts."""
    path = tmp_path / "deep.yaml"
    path.write_bytes(b"[" * 100_000)
    readers: dict[str, Callable[[Options], object]] = {
        "allow-metric-labels-manifest": lambda options: None,  # it is read with the flags
        "tracing-config-file": lambda options: options.tracing.configuration(),
        "egress-selector-config-file": lambda options: options.egress.selections(),
        "encryption-provider-config": lambda options: options.storage.encryption(),
    }
    for flag, read in readers.items():
        with pytest.raises(ConfigError) as caught:
            read(parse(f"--{flag}={path}"))
        assert caught.value.messages == (f"--{flag}: not YAML: yaml: exceeded maximum nesting depth",)


@pytest.mark.parametrize("origin", ["example", "//example.com", "example.com$", ".*"])
def test_an_origin_that_would_match_other_hosts_is_refused(origin: str) -> None:
    why = "regular expression does not pin to start/end of host in the origin header"
    (found,) = errors(f"--cors-allowed-origins={origin}")
    start, _, rest = found.partition(", help: ")
    assert start == f"--cors-allowed-origins has an invalid regular expression: {why}"
    assert rest.startswith(
        "List of allowed origins for CORS, comma separated. An allowed origin can be a regular expression"
    )
    assert rest.endswith(r"Examples of valid expressions are '//example\.com(:|$)' and '^https://example\.com(:|$)'")


@pytest.mark.parametrize(
    ("flags", "texts"),
    [
        ("--service-account-issuer=a:b", []),
        (
            "--service-account-issuer=http://[::1]:namedport",
            [
                "service-account-issuer \"http://[::1]:namedport\" contained a ':' but was not a valid URL: parse "
                '"http://[::1]:namedport": invalid port ":namedport" after host'
            ],
        ),
        (
            "--service-account-jwks-uri=https://host:port",
            [
                'service-account-jwks-uri must be a valid URL: parse "https://host:port": invalid port ":port" after host'
            ],
        ),
        ("--service-account-jwks-uri=HTTPS://host", []),
        (
            "--service-account-jwks-uri=http://baz.com",
            ["service-account-jwks-uri requires https scheme, parsed as: http://baz.com"],
        ),
        ("--strict-transport-security-directives=max-age=x,preload,includeSubDomains", []),
        (
            "--strict-transport-security-directives=fakevalue,preload",
            [
                "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, "
                "preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"
            ],
        ),
        ("--enable-admission-plugins=foo", ['enable-admission-plugins plugin "foo" is unknown']),
        ("--disable-admission-plugins=foo", ['disable-admission-plugins plugin "foo" is unknown']),
        ("--admission-control=foo", ['admission-control plugin "foo" is unknown']),
        ("--enable-admission-plugins=PodGroupProtection", []),
        (
            "--enable-admission-plugins=Priority,AlwaysDeny --disable-admission-plugins=AlwaysDeny,Priority",
            ["[AlwaysDeny Priority] in enable-admission-plugins and disable-admission-plugins overlapped"],
        ),
        (
            "--admission-control=Priority --enable-admission-plugins=AlwaysDeny",
            ["admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"],
        ),
        (
            "--service-cluster-ip-range=10.0.0.0/16,11.0.0.0/16",
            ["--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family"],
        ),
        ("--service-cluster-ip-range=x,10.0.0.0/16", ["service-cluster-ip-range[0] is not a valid cidr"]),
        ("--service-cluster-ip-range=10.0.0.0/16,", ["service-cluster-ip-range[1] is not an ip net"]),
        (
            "--service-cluster-ip-range=10.0.0.0/16,fd00::/108,x",
            ["--service-cluster-ip-range must not contain more than two entries"],
        ),
        (
            "--service-cluster-ip-range=10.0.0.0/30",
            [
                "error determining service IP ranges for primary service cidr: the service cluster IP range must be at least "
                "8 IP addresses"
            ],
        ),
        (
            "--kubernetes-service-node-port=-1",
            [
                "--kubernetes-service-node-port -1 must be between 0 and 65535, inclusive. If 0, the Kubernetes master "
                "service will be of type ClusterIP"
            ],
        ),
        (
            "--kubernetes-service-node-port=30067 --service-node-port-range=30065",
            ["kubernetes service port range 30065-30065 doesn't contain 30067"],
        ),
        (
            "--max-requests-inflight=0 --max-mutating-requests-inflight=0",
            [
                "invalid configuration: MaxRequestsInFlight=0 and MaxMutatingRequestsInFlight=0; they must add up to "
                "something positive"
            ],
        ),
        (
            "--max-requests-inflight=0 --max-mutating-requests-inflight=0 --enable-priority-and-fairness=false",
            [],
        ),
    ],
)
def test_values_are_refused_in_upstreams_words(flags: str, texts: list[str]) -> None:
    if texts:
        assert errors(*flags.split()) == texts
    else:
        parse(*flags.split())


def test_an_empty_range_is_the_default() -> None:
    options = parse("--service-cluster-ip-range=", "--service-node-port-range=").control_plane
    assert [str(network) for network in options.service_ranges] == ["10.0.0.0/24"]
    assert options.service_node_port_range == (30000, 32767)


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ("api/beta=false", ""),
        ("api/ga=true", ""),
        ("flowcontrol.apiserver.k8s.io/v1beta3=false", ""),
        ("flowcontrol.apiserver.k8s.io/v1=true,api/ga=false", ""),
        ("api/ga=true,api/all=false", ""),
        ("api/ga=false", "api/ga"),
        ("api/all=false,apps/v1=true", "api/all"),
        ("flowcontrol.apiserver.k8s.io/v1=false,api/all=true", "flowcontrol.apiserver.k8s.io/v1"),
    ],
)
def test_priority_and_fairness_needs_its_api(config: str, key: str) -> None:
    if key:
        text = f"--runtime-config={key}=false conflicts with --enable-priority-and-fairness=true"
        assert errors(f"--runtime-config={config}") == [text]
    else:
        parse(f"--runtime-config={config}")
    parse(f"--runtime-config={config}", "--enable-priority-and-fairness=false")


def test_the_value_of_an_unknown_flag_is_no_second_error() -> None:
    assert errors("--etcd-server", "http://x") == ["unknown flag: --etcd-server"]


def test_lists_add_up_and_replace_the_default() -> None:
    options = parse("--authorization-mode=Node", "--authorization-mode=RBAC,AlwaysDeny")
    assert options.authorization.modes == ["Node", "RBAC", "AlwaysDeny"]
    assert parse().authorization.modes == ["Node", "RBAC"]


def test_controllers_follow_the_controller_managers_rule() -> None:
    none = parse("--controllers=").controllers
    assert not none.enabled("namespace-controller")
    some = parse("--controllers=*,-namespace-controller").controllers
    assert some.enabled("other") and not some.enabled("namespace-controller")
    assert some.unknown(frozenset({"other"})) == [
        '--controllers: "namespace-controller" is not in the list of known controllers'
    ]


def test_runtime_config_prefers_the_most_specific_setting() -> None:
    config = "--runtime-config=api/all=false,apps/v1=true,batch/v1/jobs=true"
    enabled = parse(config, "--enable-priority-and-fairness=false").api_enablement.enabled
    assert enabled("apps", "v1") and enabled("batch", "v1", "jobs")
    assert not enabled("batch", "v1", "cronjobs") and not enabled("", "v1")


@pytest.mark.parametrize("key", ["v1", "api/v1", "/v1", "v1/pods", "api/v1/pods"])
def test_runtime_config_has_several_names_of_the_core_group(key: str) -> None:
    enabled = parse(f"--runtime-config=api/legacy=true,{key}=false").api_enablement.enabled
    assert not enabled("", "v1") and not enabled("", "v1", "services") and enabled("apps", "v1")
    assert parse(
        f"--runtime-config=api/all=false,{key}", "--enable-priority-and-fairness=false"
    ).api_enablement.enabled("", "v1")


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("apps/v1=", []),
        ("extensions/v1beta1=0,api/beta=true", []),
        ("resource.k8s.io/v1beta1=true,networking.k8s.io/v1beta1/servicecidrs=true", []),
        ("scheduling.k8s.io/v1alpha2=false", []),
        (
            "scheduling.k8s.io/v1beta1=true,resource.k8s.io/v1alpha3/podgroups=true",
            [
                "cannot enable scheduling.k8s.io/v1beta1: kapi has no kinds of scheduling.k8s.io/v1beta1",
                "cannot enable resource.k8s.io/v1alpha3/podgroups: kapi has no podgroups in resource.k8s.io/v1alpha3",
            ],
        ),
        (
            "api/all=false",
            [
                "--runtime-config=api/all=false conflicts with --enable-priority-and-fairness=true",
                "invalid runtime-config with only api/all=false",
            ],
        ),
        ("api/beta=1", ["invalid value api/beta=1"]),
        ("v2=true", ["runtime-config invalid key v2"]),
        ("b/v1=true,a/v2/things=true,api/v2=true", ["unknown api groups a/v2,api/v2,b/v1"]),
        ("v1=yes", ['invalid value of /v1: yes, err: strconv.ParseBool: parsing "yes": invalid syntax']),
        ("apps/v7=true", ["group version apps/v7 that has not been registered"]),
        (
            "apps/v1=yes",
            ['invalid value of apps/v1: yes, err: strconv.ParseBool: parsing "yes": invalid syntax'],
        ),
        (
            "apps/v1/Deployments=true",
            [
                "invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase plural, "
                'not "Deployments"'
            ],
        ),
    ],
)
def test_what_runtime_config_may_name(value: str, texts: list[str]) -> None:
    if texts:
        assert errors(f"--runtime-config={value}") == texts
    else:
        assert parse(f"--runtime-config={value}").api_enablement.enabled("apps", "v1")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("1h30m", 5400), ("1.5s", 1.5), ("250ms", 0.25), ("-5m", -300), ("2h0m0.5s", 7200.5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "1x", "h", "1h 2m"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(FlagError):
        duration(text)


def test_port_ranges() -> None:
    assert port_range("30000-30010") == (30000, 30010)
    assert port_range("30000+10") == (30000, 30010)
    assert port_range(" 80 ") == (80, 80)
    assert port_range("") == (0, 0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2-1", "end port cannot be less than start port: 2-1"),
        ("0-70000", "the port range cannot be greater than 65535: 0-70000"),
        ("30000+40000", "the port range cannot be greater than 65535: 30000+40000"),
        ("1-2+3", "unable to parse port range: 1-2+3"),
        ("x", 'strconv.Atoi: parsing "x": invalid syntax'),
        ("1-", 'strconv.Atoi: parsing "": invalid syntax'),
        ("-5", 'strconv.Atoi: parsing "": invalid syntax'),
        ("1+9223372036854775808", 'strconv.Atoi: parsing "9223372036854775808": value out of range'),
    ],
)
def test_bad_port_ranges(text: str, why: str) -> None:
    with pytest.raises(FlagError) as caught:
        port_range(text)
    assert str(caught.value) == why


def test_certificates_by_server_name() -> None:
    assert sni_pair("a.crt,a.key:x.example,*.y.example") == ("a.crt", "a.key", ("x.example", "*.y.example"))
    with pytest.raises(FlagError):
        sni_pair("a.crt")


def test_a_config_file_comes_before_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "kapi.conf"
    file.write_text("# comment\n--secure-port=7001 --data-dir='/a b'\n--redis-prefix=x\n")
    flags = expand(["--secure-port=7002", f"--config-file={file}"])
    options = parse(*flags)
    assert options.serving.secure_port == 7002
    assert options.storage.data_dir == "/a b" and options.storage.redis_prefix == "x"
    with pytest.raises(ConfigError, match="cannot read"):
        expand(["--config-file", str(tmp_path / "missing")])
    for named in (f"--config-file={file}", f"--config-file {file}"):
        (tmp_path / "outer.conf").write_text(f"{named}\n")
        with pytest.raises(ConfigError, match=r"outer\.conf: a file cannot name another one"):
            expand([f"--config-file={tmp_path / 'outer.conf'}"])


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (
            ["--audit-log-mode=later"],
            'invalid audit log mode later, allowed modes are "batch,blocking,blocking-strict"',
        ),
        (["--audit-log-format=xml"], 'invalid audit log format xml, allowed formats are "legacy,json"'),
        (["--audit-log-maxage=-1"], "--audit-log-maxage -1 can't be a negative number"),
        (["--audit-log-version=audit.k8s.io/v9"], 'invalid group version, allowed versions are ["audit.k8s.io/v1"]'),
        (
            ["--audit-log-mode=batch", "--audit-log-batch-max-size=0"],
            "invalid audit batch log max batch size 0, must be a positive number",
        ),
        (
            ["--audit-log-mode=batch", "--audit-log-batch-throttle-enable"],
            "invalid audit batch log throttle QPS 0, must be a positive number",
        ),
        (
            ["--audit-log-truncate-max-event-size=0"],
            "invalid audit truncate log max event size 0, must be a positive number",
        ),
        (
            ["--audit-log-truncate-max-batch-size=5", "--audit-log-truncate-max-event-size=6"],
            "invalid audit truncate log max batch size 5, must be greater than max event size (6)",
        ),
    ],
)
def test_audit_flags_count_only_with_their_back_end(flags: list[str], text: str) -> None:
    assert errors("--audit-log-path=-", *flags) == [text]
    parse(*flags)


def test_a_webhook_for_audit_has_its_own_batches() -> None:
    flags = ["--audit-webhook-config-file=x", "--audit-webhook-batch-throttle-qps=0"]
    assert errors(*flags) == ["invalid audit batch webhook throttle QPS 0, must be a positive number"]
    parse(*flags, "--audit-webhook-batch-throttle-enable=false")
    parse(*flags, "--audit-webhook-mode=blocking")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--authorization-mode=Nope"], 'authorization-mode "Nope" is not a valid mode'),
        (["--authorization-mode=ABAC"], "authorization-mode ABAC's authorization policy file not passed"),
        (["--authorization-policy-file=x"], "cannot specify --authorization-policy-file without mode ABAC"),
        (
            ["--authorization-mode=RBAC,RBAC"],
            'authorization-mode ["RBAC" "RBAC"] has mode specified more than once',
        ),
        (
            ["--authorization-config=x", "--authorization-webhook-version=v1"],
            "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags "
            "are defined",
        ),
        (
            ["--oidc-username-claim=email"],
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set",
        ),
        (
            ["--authentication-config=x", "--oidc-client-id=y"],
            "authentication-config file and oidc-* flags are mutually exclusive",
        ),
        (
            ["--oidc-issuer-url=https://x", "--oidc-client-id=y", "--oidc-signing-algs=HS256"],
            'oidc: unsupported signing alg: "HS256"',
        ),
        (
            ["--service-account-issuer=a", "--service-account-issuer=a"],
            'service-account-issuer "a" is already specified',
        ),
        (
            ["--service-account-jwks-uri=http://x"],
            "service-account-jwks-uri requires https scheme, parsed as: http://x",
        ),
        (["--requestheader-allowed-names= "], 'empty value in "requestheader-allowed-names"'),
        (
            ["--requestheader-uid-headers=X-Uid"],
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation "
            "will not work",
        ),
        (
            ["--requestheader-uid-headers=X-Remote-Uid", "--feature-gates=RemoteRequestHeaderUID=false"],
            '--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be enabled',
        ),
        (["--peer-ca-file=x"], "error building peer proxy handler, proxy-cert-file not specified"),
        (
            ["--peer-advertise-ip=x", "--feature-gates=UnknownVersionInteroperabilityProxy=false"],
            "--peer-advertise-ip requires UnknownVersionInteroperabilityProxy feature to be turned on",
        ),
    ],
)
def test_identity_flags_that_do_not_go_together(flags: list[str], text: str) -> None:
    assert errors(*flags) == [text]


def test_one_authority_for_users_and_proxies_needs_the_proxies_names(tmp_path: Path) -> None:
    """Else any user's certificate would speak for everybody in the headers of a front proxy."""
    users, both = tmp_path / "users.pem", tmp_path / "both.pem"
    authority = Authority()
    users.write_bytes(authority.pem)
    both.write_bytes(Authority("other").pem + authority.pem)
    flags = [f"--client-ca-file={users}", f"--requestheader-client-ca-file={both}"]
    (text,) = errors(*flags)
    assert "contain overlapping certificates" in text
    parse(*flags, "--requestheader-allowed-names=proxy")
    both.write_bytes(Authority("other").pem)
    parse(*flags)


def test_nobody_is_anonymous_where_everything_is_allowed() -> None:
    assert parse("--authorization-mode=AlwaysAllow").authentication.anonymous_auth is False
    assert parse("--authorization-mode=RBAC").authentication.anonymous_auth is True


def test_feature_gates_are_those_of_the_release() -> None:
    assert parse("--feature-gates=kube:HPAScaleToZero=true,EnvFiles=false").generic.features["HPAScaleToZero"]
    assert errors("--feature-gates=NoSuchGate=true") == ["unrecognized feature gate: NoSuchGate"]
    assert errors("--feature-gates=NodeSwap=false") == [
        "cannot set feature gate NodeSwap to false, feature is locked to true",
    ]
    assert errors("--feature-gates=etcd:X=true") == [
        'invalid argument "etcd:X=true" for "--feature-gates" flag: component not registered: etcd'
    ]


def test_the_defaults_of_the_flags_for_kubelets_are_those_of_a_program_without_flags() -> None:
    found, settings = parse().kubelet.settings(), KubeletSettings()
    assert (found.port, found.timeout, list(found.address_types), found.bytes_per_second) == (
        settings.port, settings.timeout, list(settings.address_types), 0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ("localhost:4317", ""),
        ("dns:///collector:4317", ""),
        ("unix:///run/collector.sock", ""),
        ("dns://[::1", """parse "dns://[::1": missing ']' in host"""),
        ("a b", 'parse "dns://a b": invalid character " " in host name'),
        ("http://collector", "unsupported scheme: http.  Options are none, dns, unix, unix-abstract"),
    ],
)
def test_the_address_of_a_collector(tmp_path: Path, endpoint: str, problem: str) -> None:
    path = tmp_path / "tracing.yaml"
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
    path.write_text(f"{head}endpoint: '{endpoint.replace(chr(39), chr(39) * 2)}'\n")
    options, found = parse(f"--tracing-config-file={path}").tracing, ""
    try:
        configuration = options.configuration()
        assert configuration is not None and configuration.endpoint == endpoint
    except ConfigError as error:
        (found,) = error.messages
    target = endpoint if "//" in endpoint else f"dns://{endpoint}"
    assert found == (f'--tracing-config-file: endpoint: Invalid value: "{target}": {problem}' if problem else "")
