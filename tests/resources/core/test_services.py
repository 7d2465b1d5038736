"""What Services may be, may become, and what is filled in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.core.services import RESOURCE
from kapi.resources.definition import StrategyContext

CTX = StrategyContext("default", "a")


def service(**spec: Any) -> Object:
    made: Object = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"ports": [{"port": 80}], **spec}}
    RESOURCE.strategy.default(made)
    return made


def problems(obj: Object, old: Object | None = None) -> list[str]:
    strategy = RESOURCE.strategy
    if old is None:
        return [str(error) for error in strategy.validate(obj, CTX)]
    for item in (obj, old):
        item["metadata"].setdefault("resourceVersion", "1")
        item["metadata"].setdefault("uid", "u")
    strategy.prepare_for_update(obj, old, CTX)
    return [str(error) for error in strategy.validate_update(obj, old, CTX)]


def test_defaults() -> None:
    assert service()["spec"] == {
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
        "internalTrafficPolicy": "Cluster",
    }
    affinity = service(sessionAffinity="ClientIP")["spec"]["sessionAffinityConfig"]
    assert affinity == {"clientIP": {"timeoutSeconds": 10800}}
    balancer = service(type="LoadBalancer")["spec"]
    assert (balancer["allocateLoadBalancerNodePorts"], balancer["externalTrafficPolicy"]) == (True, "Cluster")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"ports": []}, "spec.ports: Required value"),
        ({"ports": [{"port": 0}]}, "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"),
        ({"ports": [{"port": 1, "protocol": "ICMP"}]}, 'spec.ports[0].protocol: Unsupported value: "ICMP"'),
        ({"ports": [{"port": 1}, {"port": 2}]}, "spec.ports[0].name: Required value"),
        ({"type": "Magic"}, 'spec.type: Unsupported value: "Magic"'),
        ({"type": "ExternalName"}, "spec.externalName: Required value"),
        ({"sessionAffinity": "Maybe"}, 'spec.sessionAffinity: Unsupported value: "Maybe"'),
        ({"externalTrafficPolicy": "Local"}, "spec.externalTrafficPolicy: Invalid value"),
        ({"selector": {"a b": "c"}}, 'spec.selector: Invalid value: "a b"'),
        ({"externalIPs": ["x"]}, 'spec.externalIPs[0]: Invalid value: "x"'),
        ({"type": "NodePort", "clusterIP": "None", "clusterIPs": ["None"]}, "spec.clusterIPs[0]: Invalid value"),
    ],
)
def test_what_is_refused(spec: Object, text: str) -> None:
    assert any(problem.startswith(text) for problem in problems(service(**spec))), problems(service(**spec))


def test_two_ports_need_names_that_differ() -> None:
    ports = [{"port": 1, "name": "x"}, {"port": 2, "name": "x"}]
    assert 'spec.ports[1].name: Duplicate value: "x"' in problems(service(ports=ports))
    assert problems(service(ports=[{"port": 1, "name": "x"}, {"port": 1, "protocol": "UDP", "name": "y"}])) == []


def test_the_address_of_a_service_stays() -> None:
    old = service(clusterIP="10.0.0.1", clusterIPs=["10.0.0.1"], ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
    new = tree.copy(old)
    new["spec"].update(clusterIP="10.0.0.2", clusterIPs=["10.0.0.2"])
    found = problems(new, old)
    assert any(
        "spec.clusterIPs[0]: Invalid value" in problem and "may not change once set" in problem for problem in found
    )


def test_node_ports_that_the_type_no_longer_has_go_unless_they_changed() -> None:
    old = service(type="NodePort", ports=[{"port": 80, "nodePort": 30000}])
    new = tree.copy(old)
    new["spec"]["type"] = "ClusterIP"
    problems(new, old)
    assert not new["spec"]["ports"][0].get("nodePort")
    changed = tree.copy(old)
    changed["spec"].update(type="ClusterIP")
    changed["spec"]["ports"][0]["nodePort"] = 30001
    assert any("spec.ports[0].nodePort" in problem for problem in problems(changed, old))


def test_the_status_is_the_controllers() -> None:
    old = service()
    old["status"] = {"loadBalancer": {}}
    new = tree.copy(old)
    new["status"] = {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}
    problems(new, old)
    assert new["status"] == {"loadBalancer": {}}


def test_the_table_shows_ports_and_external_addresses() -> None:
    table = RESOURCE.table
    assert table is not None
    ports = [{"port": 80, "nodePort": 30000}]
    made = service(type="NodePort", clusterIPs=["10.0.0.1"], ports=ports, selector={"a": "b"})
    made["metadata"]["creationTimestamp"] = "2024-01-01T00:00:00Z"
    cells = table.cells(made, 1704067200.0 + 90)
    assert cells == ["a", "NodePort", "10.0.0.1", "<none>", "80:30000/TCP", "90s", "a=b"]


@pytest.mark.parametrize(
    ("metadata", "field"),
    [({"name": "1-a"}, "metadata.name"), ({"generateName": "12-", "name": "a"}, "metadata.generateName")],
)
def test_a_name_may_begin_with_a_digit_with_the_gate(metadata: dict[str, str], field: str) -> None:
    found = []
    for relaxed in (True, False):
        obj = service()
        obj["metadata"] |= metadata
        ctx = msgspec.structs.replace(CTX, features={"RelaxedServiceNameValidation": relaxed})
        found.append([str(error) for error in RESOURCE.strategy.validate(obj, ctx)])
    value = metadata["name"] if field == "metadata.name" else metadata["generateName"]
    assert found == [
        [],
        [
            f'{field}: Invalid value: "{value}": a DNS-1035 label must consist of lower case alphanumeric characters or '
            "'-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
            "'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        ],
    ]


def test_two_distributions_of_traffic_need_the_gate() -> None:
    found = {}
    for on in (True, False):
        ctx = msgspec.structs.replace(CTX, features={"PreferSameTrafficDistribution": on})
        for value in ("PreferClose", "PreferSameZone", "PreferSameNode"):
            obj = service(trafficDistribution=value)
            found[value, on] = [str(error) for error in RESOURCE.strategy.validate(obj, ctx)]
    text = 'spec.trafficDistribution: Unsupported value: "{}": supported values: "PreferClose"'
    assert {key: texts for key, texts in found.items() if texts} == {
        ("PreferSameZone", False): [text.format("PreferSameZone")],
        ("PreferSameNode", False): [text.format("PreferSameNode")],
    }
