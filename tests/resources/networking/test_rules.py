"""Ingresses, their classes, network policies, IP addresses and service CIDRs: what they are refused for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kapi.machinery.tree import Object
from kapi.resources.networking import ingressclasses, ingresses, networkpolicies, servicecidrs
from tests.resources.strategy_kit import CTX, changes, made, problems, short

SERVICE: Object = {"service": {"name": "s", "port": {"number": 80}}}
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def ingress(**path: Any) -> list[Object]:
    return [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": SERVICE, **path}]}}]


HERE = "spec.rules[0].http.paths[0]"


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"defaultBackend": SERVICE}, []),
        ({}, ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
        ({"rules": []}, ["spec: Invalid value: []: either `defaultBackend` or `rules` must be specified"]),
        ({"rules": ingress()}, []),
        ({"rules": ingress(pathType=None)}, [f"{HERE}.pathType: Required value: pathType must be specified"]),
        (
            {"rules": ingress(pathType="Any")},
            [
                f'{HERE}.pathType: Unsupported value: "Any": '
                'supported values: "Exact", "ImplementationSpecific", "Prefix"'
            ],
        ),
        (
            {"rules": ingress(path="a//b/..")},
            [
                f'{HERE}.path: Invalid value: "a//b/..": must be an absolute path',
                f"{HERE}.path: Invalid value: \"a//b/..\": must not contain '//'",
                f"{HERE}.path: Invalid value: \"a//b/..\": cannot end with '/..'",
            ],
        ),
        ({"rules": ingress(path="", pathType="ImplementationSpecific")}, []),
        (
            {"rules": ingress(path="x", pathType="ImplementationSpecific")},
            [f'{HERE}.path: Invalid value: "x": must be an absolute path'],
        ),
        (
            {"rules": ingress(backend={})},
            [f'{HERE}.backend: Invalid value: "": resource or service backend is required'],
        ),
        (
            {"rules": ingress(backend={**SERVICE, "resource": {"kind": "K", "name": "n"}})},
            [f'{HERE}.backend: Invalid value: "": cannot set both resource and service backends'],
        ),
        (
            {"rules": ingress(backend={"service": {"name": "", "port": {}}})},
            [
                f"{HERE}.backend.service.name: Required value",
                f"{HERE}.backend: Required value: port name or number is required",
            ],
        ),
        (
            {"rules": ingress(backend={"service": {"name": "s", "port": {"number": 80, "name": "http"}}})},
            [f'{HERE}.backend: Invalid value: "": cannot set both port name & port number'],
        ),
        (
            {"rules": ingress(backend={"resource": {"apiGroup": "A", "kind": "", "name": "a/b"}})},
            [
                f'{HERE}.backend.resource.apiGroup: Invalid value: "A": {SUBDOMAIN}',
                f"{HERE}.backend.resource.kind: Required value",
                f"{HERE}.backend.resource.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
        (
            {"rules": ingress(backend={"service": {"name": "s", "port": {"name": "-"}}})},
            [
                f'{HERE}.backend.service.port.name: Invalid value: "-": must contain at least one letter (a-z)',
                f'{HERE}.backend.service.port.name: Invalid value: "-": must not begin or end with a hyphen',
            ],
        ),
        (
            {"rules": ingress(backend={"service": {"name": "s", "port": {"number": 65536}}})},
            [
                f"{HERE}.backend.service.port.number: Invalid value: 65536: must be between 1 and 65535, inclusive",
            ],
        ),
        ({"rules": [{"http": {}}]}, ["spec.rules[0].http.paths: Required value"]),
        (
            {"rules": [{"host": "10.0.0.1"}]},
            ['spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address'],
        ),
        ({"rules": [{"host": "A.b"}]}, [f'spec.rules[0].host: Invalid value: "A.b": {SUBDOMAIN}']),
        (
            {"defaultBackend": SERVICE, "tls": [{"hosts": ["A"], "secretName": "B"}], "ingressClassName": ""},
            [
                f'spec.tls[0].hosts[0]: Invalid value: "A": {SUBDOMAIN}',
                f'spec.tls[0].secretName: Invalid value: "B": {SUBDOMAIN}',
                f'spec.ingressClassName: Invalid value: "": {SUBDOMAIN}',
            ],
        ),
    ],
)
def test_the_spec_of_an_ingress(spec: Object, texts: list[str]) -> None:
    assert problems(ingresses.RESOURCE, spec=spec) == texts


def test_a_bad_secret_name_may_stay() -> None:
    old = made(ingresses.RESOURCE, spec={"defaultBackend": SERVICE, "tls": [{"secretName": "B"}]})
    assert changes(ingresses.RESOURCE, old, spec={**old["spec"], "tls": [{"secretName": "C"}]}) == []
    good = made(ingresses.RESOURCE, spec={"defaultBackend": SERVICE})
    assert len(changes(ingresses.RESOURCE, good, spec={**good["spec"], "tls": [{"secretName": "C"}]})) == 1


def test_bad_paths_of_a_wildcard_host_may_stay() -> None:
    bad = [{"host": "*.a.b", "http": {"paths": []}}]
    texts = ["spec.rules[0].http.paths: Required value"]
    assert problems(ingresses.RESOURCE, spec={"rules": bad}) == texts
    old = made(ingresses.RESOURCE, spec={"rules": bad})
    assert changes(ingresses.RESOURCE, old, spec={"rules": bad, "defaultBackend": SERVICE}) == []
    good = made(ingresses.RESOURCE, spec={"rules": [{**ingress()[0], "host": "*.a.b"}]})
    assert changes(ingresses.RESOURCE, good, spec={"rules": bad}) == texts


def test_the_class_annotation_fits_the_field_on_create_alone() -> None:
    annotation = "kubernetes.io/ingress.class"
    parts = {
        "metadata": {"annotations": {annotation: "x"}},
        "spec": {"defaultBackend": SERVICE, "ingressClassName": "y"},
    }
    assert problems(ingresses.RESOURCE, **parts) == [
        f'annotations.{annotation}: Invalid value: "x": must match `ingressClassName` when both are specified'
    ]
    assert changes(ingresses.RESOURCE, made(ingresses.RESOURCE, **parts), spec=parts["spec"]) == []


@pytest.mark.parametrize(
    ("balancer", "texts"),
    [
        ({"ip": "010.0.0.1"}, ["must not have leading 0s"]),
        ({"hostname": "10.0.0.1"}, ["must be a DNS name, not an IP address"]),
        ({"hostname": "A"}, [SUBDOMAIN]),
        ({"ip": "10.0.0.1", "hostname": "a.b"}, []),
    ],
)
def test_the_status_of_an_ingress(balancer: Object, texts: list[str]) -> None:
    old = made(ingresses.RESOURCE, spec={"defaultBackend": SERVICE})
    status = {"loadBalancer": {"ingress": [balancer]}}
    found = changes(ingresses.RESOURCE, old, subresource="status", status=status)
    assert [text.split('": ', 1)[1] for text in found] == texts


def test_a_status_with_an_address_in_another_form_is_warned_of() -> None:
    status: Object = {"loadBalancer": {"ingress": [{"hostname": "a.b"}, {"ip": "FD00::1"}]}}
    found = ingresses.RESOURCE.subresource("status")
    assert found is not None and found.strategy is not None
    obj = {**made(ingresses.RESOURCE, spec={"defaultBackend": SERVICE}), "status": status}
    assert found.strategy.warnings_on_update(obj, obj, CTX) == [
        'status.loadBalancer.ingress[1]: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")'
    ]


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"controller": "a.b/c"}, []),
        ({}, ["spec.controller: Required value"]),
        (
            {"controller": "a.b"},
            ['spec.controller: Invalid value: "a.b": must be a domain-prefixed path (such as "acme.io/foo")'],
        ),
        (
            {"controller": "a.b/c", "parameters": {"kind": "K", "name": "n", "namespace": "x"}},
            ["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
        ),
        (
            {"controller": "a.b/c", "parameters": {"kind": "K", "name": "n", "scope": "Namespace"}},
            ["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
        ),
        (
            {
                "controller": "a.b/c",
                "parameters": {"kind": "K", "name": "n", "scope": "Namespace", "namespace": "A"},
            },
            [f'spec.parameters.namespace: Invalid value: "A": {LABEL}'],
        ),
        (
            {"controller": "a.b/c", "parameters": {"scope": "All"}},
            [
                "spec.parameters.kind: Required value",
                "spec.parameters.name: Required value",
                'spec.parameters.scope: Unsupported value: "All": supported values: "Cluster", "Namespace"',
            ],
        ),
    ],
)
def test_the_spec_of_an_ingress_class(spec: Object, texts: list[str]) -> None:
    assert problems(ingressclasses.RESOURCE, spec=spec) == texts


def test_the_controller_of_a_class_is_fixed() -> None:
    old = made(ingressclasses.RESOURCE, spec={"controller": "a.b/c"})
    assert changes(ingressclasses.RESOURCE, old, spec={"controller": "a.b/d"}) == [
        'spec.controller: Invalid value: "a.b/d": field is immutable'
    ]
    assert changes(ingressclasses.RESOURCE, old, spec={"controller": "a.b/c", "parameters": {"scope": "Cluster"}}) == [
        "spec.parameters.kind: Required value",
        "spec.parameters.name: Required value",
    ]


def policy(**rule: Any) -> Object:
    return {"podSelector": {}, "ingress": [rule]}


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        (policy(ports=[{"port": 80, "endPort": 90}]), []),
        (
            policy(ports=[{"port": 80, "endPort": 70}]),
            ["spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`"],
        ),
        (
            policy(ports=[{"endPort": 70}]),
            ["spec.ingress[0].ports[0].endPort: Invalid value: 70: may not be specified when `port` is not specified"],
        ),
        (
            policy(ports=[{"port": "http", "endPort": 70}]),
            ["spec.ingress[0].ports[0].endPort: Invalid value: 70: may not be specified when `port` is non-numeric"],
        ),
        (
            policy(ports=[{"protocol": "X"}]),
            ['spec.ingress[0].ports[0].protocol: Unsupported value: "X": supported values: "TCP", "UDP", "SCTP"'],
        ),
        (
            policy(ports=[{"port": "-"}, {"port": 0, "endPort": 65536}]),
            [
                'spec.ingress[0].ports[0].port: Invalid value: "-": must contain at least one letter (a-z)',
                'spec.ingress[0].ports[0].port: Invalid value: "-": must not begin or end with a hyphen',
                "spec.ingress[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ingress[0].ports[1].endPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            {
                "podSelector": {"matchLabels": {"a": "-"}},
                "egress": [{"to": [{"namespaceSelector": {"matchLabels": {"a": "-"}}}]}],
            },
            [
                f'spec.podSelector.matchLabels: Invalid value: "-": {LABEL_VALUE}',
                f'spec.egress[0].to[0].namespaceSelector.matchLabels: Invalid value: "-": {LABEL_VALUE}',
            ],
        ),
        (policy(**{"from": [{}]}), ["spec.ingress[0].from[0]: Required value: must specify a peer"]),
        (
            policy(**{"from": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}),
            ["spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer"],
        ),
        (
            policy(**{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}),
            [
                'spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": '
                "must be a strict subset of `cidr`"
            ],
        ),
        (policy(**{"from": [{"ipBlock": {}}]}), ["spec.ingress[0].from[0].ipBlock.cidr: Required value"]),
        (
            {"podSelector": {}, "policyTypes": ["Ingress", "X"]},
            ['spec.policyTypes[1]: Unsupported value: "X": supported values: "Ingress", "Egress"'],
        ),
        (
            {"podSelector": {}, "policyTypes": ["Ingress", "Egress", "X"]},
            ['spec.policyTypes: Invalid value: ["Ingress","Egress","X"]: may not specify more than two policyTypes'],
        ),
    ],
)
def test_the_spec_of_a_network_policy(spec: Object, texts: list[str]) -> None:
    assert problems(networkpolicies.RESOURCE, spec=spec) == texts


def test_a_bad_value_in_an_expression_may_stay_in_the_pod_selector() -> None:
    def selector(value: str) -> Object:
        return {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": [value]}]}}

    old = made(networkpolicies.RESOURCE, spec=selector("-"))
    assert changes(networkpolicies.RESOURCE, old, spec={**selector("_"), "policyTypes": ["Ingress"]}) == []
    good = made(networkpolicies.RESOURCE, spec=selector("a"))
    assert changes(networkpolicies.RESOURCE, good, spec=selector("-")) == [
        f'spec.podSelector.matchExpressions[0].values[0]: Invalid value: "-": {LABEL_VALUE}'
    ]


def test_the_types_of_a_policy_follow_its_rules() -> None:
    row = networkpolicies.RESOURCE
    assert made(row, spec={})["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    assert made(row, spec={"egress": [{}]})["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert made(row, spec=policy(ports=[{"port": 1}]))["spec"]["ingress"][0]["ports"][0]["protocol"] == "TCP"


def test_a_bad_block_may_stay_where_it_was_accepted() -> None:
    block = {"from": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}
    old = made(networkpolicies.RESOURCE, spec=policy(**block))
    assert changes(networkpolicies.RESOURCE, old, spec={"podSelector": {}, "ingress": [block, block]}) == []
    other = {"from": [{"ipBlock": {"cidr": "10.0.0.2/8"}}]}
    assert changes(networkpolicies.RESOURCE, old, spec={"podSelector": {}, "ingress": [other]}) == [
        'spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "10.0.0.2/8": '
        "must not have bits set beyond the prefix length"
    ]
    assert networkpolicies.RESOURCE.strategy.warnings_on_create(old, CTX) == [
        'spec.ingress[0].from[0].ipBlock.cidr: CIDR value "10.0.0.1/8" is ambiguous in this context '
        '(should be "10.0.0.0/8" or "10.0.0.1/32"?)'
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("10.0.0.1", ""),
        ("010.0.0.1", "must not have leading 0s"),
        ("FD00::1", 'must be in canonical form ("fd00::1")'),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
        ("a", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ],
)
def test_an_address_is_named_by_itself(name: str, text: str) -> None:
    spec = {"parentRef": {"resource": "services", "name": "s"}}
    found = problems(servicecidrs.IP_ADDRESS, metadata={"name": name}, spec=spec)
    assert found == ([f'metadata.name: Invalid value: "{name}": {text}'] if text else [])


def test_an_address_has_a_parent_for_good() -> None:
    row, name = servicecidrs.IP_ADDRESS, {"name": "10.0.0.1"}
    assert problems(row, metadata=name, spec={}) == ["spec.parentRef: Required value"]
    assert problems(row, metadata=name, spec={"parentRef": {}}) == [
        "spec.parentRef.resource: Required value",
        "spec.parentRef.name: Required value",
    ]
    parent = {"group": "G", "resource": "a/b", "namespace": "c/d", "name": "e/f"}
    assert short(problems(row, metadata=name, spec={"parentRef": parent}), "spec.parentRef.") == [
        'group: Invalid value: "G": <subdomain>',
        "resource: Invalid value: \"a/b\": may not contain '/'",
        "name: Invalid value: \"e/f\": may not contain '/'",
        "namespace: Invalid value: \"c/d\": may not contain '/'",
    ]
    old = made(row, metadata=name, spec={"parentRef": {"resource": "services", "name": "s"}})
    assert changes(row, old, spec={"parentRef": {"resource": "services", "name": "t"}}) == [
        'spec.parentRef: Invalid value: {"Group":"","Resource":"services","Namespace":"","Name":"t"}: field is immutable'
    ]
    assert changes(row, old, spec={})[0] == "spec.parentRef: Required value"


@pytest.mark.parametrize(
    ("cidrs", "texts"),
    [
        (["10.0.0.0/24", "fd00::/64"], []),
        ([], ["spec.cidrs: Required value: at least one CIDR required"]),
        (
            ["10.0.0.0/24", "10.1.0.0/24"],
            [
                'spec.cidrs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: may specify no more than one IP for each IP '
                "family, i.e 192.168.0.0/24 and 2001:db8::/64"
            ],
        ),
        (
            ["10.0.0.0/24", "fd00::/64", "10.1.0.0/24"],
            [
                'spec.cidrs: Invalid value: {"CIDRs":["10.0.0.0/24","fd00::/64","10.1.0.0/24"]}: '
                "may only hold up to 2 values"
            ],
        ),
        (
            ["10.0.0.1/24"],
            ['spec.cidrs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length'],
        ),
        (
            ["FD00::/64"],
            ['spec.cidrs[0]: Invalid value: "FD00::/64": must be in canonical form ("fd00::/64")'],
        ),
    ],
)
def test_the_ranges_of_a_service_cidr(cidrs: list[str], texts: list[str]) -> None:
    assert problems(servicecidrs.SERVICE_CIDR, spec={"cidrs": cidrs}) == texts


def test_a_service_cidr_may_get_a_second_family_and_nothing_else() -> None:
    row = servicecidrs.SERVICE_CIDR
    old = made(row, spec={"cidrs": ["10.0.0.0/24"]})
    assert changes(row, old, spec={"cidrs": ["10.0.0.0/24", "fd00::/64"]}) == []
    assert changes(row, old, spec={"cidrs": ["10.1.0.0/24"]}) == [
        'spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable'
    ]
    assert changes(row, old, spec={"cidrs": ["10.1.0.0/24", "FD00::/64"]}) == [
        'spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable',
        'spec.cidrs[1]: Invalid value: "FD00::/64": must be in canonical form ("fd00::/64")',
    ]
    both = made(row, spec={"cidrs": ["10.0.0.0/24", "fd00::/64"]})
    assert changes(row, both, spec={"cidrs": ["10.0.0.0/24"]}) == [
        'spec.cidrs: Invalid value: ["10.0.0.0/24"]: field is immutable'
    ]


@pytest.mark.parametrize("wipes", [True, False])
def test_the_status_of_a_service_cidr_is_written_with_it_without_the_gate(wipes: bool) -> None:
    ctx = msgspec.structs.replace(CTX, features={"ServiceCIDRStatusFieldWiping": wipes})
    strategy = servicecidrs.SERVICE_CIDR.strategy
    sent = {"conditions": [{"type": "Ready"}]}
    new: Object = {"metadata": {"name": "a"}, "spec": {"cidrs": ["10.0.0.0/24"]}, "status": dict(sent)}
    strategy.prepare_for_create(new, ctx)
    assert new["status"] == ({} if wipes else sent)
    old: Object = {**new, "status": {"conditions": [{"type": "Other"}]}}
    changed: Object = {**new, "status": dict(sent)}
    strategy.prepare_for_update(changed, old, ctx)
    assert changed["status"] == (old["status"] if wipes else sent)
    bare: Object = {"metadata": {"name": "a"}, "spec": {}}
    strategy.prepare_for_create(bare, ctx)
    assert bare["status"] == {}


def test_an_ingress_may_name_a_service_with_a_digit_first_with_the_gate_or_when_it_did() -> None:
    strategy = ingresses.RESOURCE.strategy
    strict = msgspec.structs.replace(CTX, features={"RelaxedServiceNameValidation": False})
    backend = {"service": {"name": "1-a", "port": {"number": 80}}}

    def fields(new: Object, old: Object | None, ctx: Any) -> list[str]:
        errors = strategy.validate(new, ctx) if old is None else strategy.validate_update(new, old, ctx)
        return [error.field for error in errors]

    spec: Object = {"defaultBackend": backend, "rules": ingress(backend=backend)}
    new = made(ingresses.RESOURCE, spec=spec)
    assert fields(new, None, CTX) == []
    assert fields(new, None, strict) == ["spec.defaultBackend.service.name", f"{HERE}.backend.service.name"]
    new["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    for part in ({"defaultBackend": backend}, {"rules": ingress(backend=backend)}):
        assert fields(new, {**new, "spec": part}, strict) == []
    assert fields(new, {**new, "spec": {"defaultBackend": SERVICE}}, strict) != []
