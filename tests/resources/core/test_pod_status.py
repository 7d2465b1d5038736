"""What the status of a pod may say, and which of its states may follow another: each rule with its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.definition import StrategyContext
from tests.resources.core.test_pods import CTX, pod, strategy_of

STATUS = strategy_of("status")
TERMINATED = {"terminated": {"exitCode": 1}}
RUNNING: Object = {"running": {}}
LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def written(
    status: Object, before: Object | None = None, features: Mapping[str, bool] | None = None, **spec: Any
) -> tuple[Object, list[str]]:
    """The status after a write, and what the write is refused for, without the path to the status."""
    ctx = StrategyContext("n", "p", now="2024-01-01T00:00:00Z", features=features or {})
    old = pod(spec)
    old["status"] = {**old["status"], **tree.copy(before or {})}
    new = tree.copy(old)
    new["status"] = {**old["status"], **tree.copy(status)}
    STATUS.default(new)
    STATUS.prepare_for_update(new, old, ctx)
    return new["status"], [str(error).removeprefix("status.") for error in STATUS.validate_update(new, old, ctx)]


def errors(status: Object, before: Object | None = None, **options: Any) -> list[str]:
    return written(status, before, **options)[1]


def begins(found: list[str], *wanted: str) -> bool:
    return len(found) == len(wanted) and all(line.startswith(text) for line, text in zip(found, wanted, strict=True))


# -- small fields ----------------------------------------------------------------------------------------------------


def test_conditions() -> None:
    named = [{"type": "Ready"}, {"type": "example.com/a", "observedGeneration": 2}]
    assert errors({"conditions": named}) == []
    found = errors({"conditions": [{"type": "a b", "observedGeneration": -1}]})
    assert begins(
        found,
        "conditions[0].observedGeneration: Invalid value: -1: must be a non-negative integer",
        'conditions[0].Type: Invalid value: "a b": name part must consist of',
    )


def test_observed_generation() -> None:
    assert errors({"observedGeneration": 3}) == []
    assert errors({"observedGeneration": -1}) == [
        "observedGeneration: Invalid value: -1: must be a non-negative integer"
    ]


def test_observed_generations_stay_when_a_client_does_not_know_them() -> None:
    before = {"observedGeneration": 3, "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]}
    after, _ = written({"observedGeneration": 0, "conditions": [{"type": "Ready", "status": "False"}]}, before)
    assert after["observedGeneration"] == 3
    assert after["conditions"] == [{"type": "Ready", "status": "False", "observedGeneration": 2}]
    after, _ = written({"observedGeneration": 4, "conditions": [{"type": "Ready", "observedGeneration": 5}]}, before)
    assert (after["observedGeneration"], after["conditions"][0]["observedGeneration"]) == (4, 5)


def test_nominated_node() -> None:
    assert errors({"nominatedNodeName": "node-1"}) == []
    assert begins(errors({"nominatedNodeName": "Node1"}), 'nominatedNodeName: Invalid value: "Node1": a lowercase')
    assert errors({"nominatedNodeName": "node-1"}, nodeName="node-2") == [
        "nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"
    ]
    # what is stored stays, and may go
    assert errors({"phase": "Running"}, {"nominatedNodeName": "node-1"}, nodeName="node-2") == []
    assert errors({"nominatedNodeName": ""}, {"nominatedNodeName": "node-1"}, nodeName="node-2") == []


def test_nominated_node_of_a_bound_pod_without_the_gate() -> None:
    gates = {"ClearingNominatedNodeNameAfterBinding": False}
    assert errors({"nominatedNodeName": "node-1"}, features=gates, nodeName="node-2") == []


def test_annotations_that_stay() -> None:
    old, key = pod(), "kubernetes.io/config.mirror"
    new = tree.copy(old)
    new["metadata"]["annotations"] = {key: "m"}
    STATUS.prepare_for_update(new, old, CTX)
    assert [str(error) for error in STATUS.validate_update(new, old, CTX)] == [
        f"metadata.annotations[{key}]: Forbidden: may not add mirror pod annotation",
        f'metadata.annotations[{key}]: Invalid value: "m": must set spec.nodeName if mirror pod annotation is set',
    ]


def test_quality_of_service() -> None:
    assert errors({"qosClass": "BestEffort"}) == []
    assert errors({"qosClass": "Burstable"}) == ['qosClass: Invalid value: "Burstable": field is immutable']
    after, found = written({"qosClass": ""})
    assert (after["qosClass"], found) == ("BestEffort", [])


# -- containers that end and run again ---------------------------------------------------------------------------------

FORBIDDEN = "state: Forbidden: may not be transitioned to non-terminated state"


def restarted(code: int = 1, name: str = "c", spec: Object | None = None, **options: Any) -> list[str]:
    before = {"containerStatuses": [{"name": name, "state": {"terminated": {"exitCode": code}}}]}
    return errors({"containerStatuses": [{"name": name, "state": RUNNING}]}, before, **(spec or {}), **options)


@pytest.mark.parametrize(
    ("policy", "code", "may"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_policy_of_the_pod(policy: str, code: int, may: bool) -> None:
    assert restarted(code, restartPolicy=policy) == ([] if may else [f"containerStatuses[0].{FORBIDDEN}"])


@pytest.mark.parametrize(
    ("container", "code", "may"),
    [
        ({"restartPolicy": "Always"}, 0, True),
        ({"restartPolicy": "Never"}, 1, False),
        ({"restartPolicy": "OnFailure"}, 0, False),
        ({"restartPolicy": "OnFailure"}, 1, True),
        ({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}]}, 3, True),
        ({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}]}, 4, False),
        ({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [3]}}]}, 4, True),
        ({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [3]}}]}, 3, False),
    ],
)
def test_policy_of_the_container(container: Object, code: int, may: bool) -> None:
    # the policy of the pod does not count when the container has one
    containers = [{"name": "c", "image": "i:1", "restartPolicy": "Never", **container}]
    policy = "Never" if may else "Always"
    found = restarted(code, containers=containers, restartPolicy=policy)
    assert found == ([] if may else [f"containerStatuses[0].{FORBIDDEN}"])


def test_a_missing_exit_code_is_zero() -> None:
    old = {"containerStatuses": [{"name": "c", "state": {"terminated": {}}}]}
    new = {"containerStatuses": [{"name": "c", "state": RUNNING}]}
    values = {"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [0]}}]}
    for container, may in (
        ({}, False),
        (values, True),
        ({"restartPolicy": "OnFailure"}, False),
        ({"restartPolicy": "Always"}, True),
    ):
        containers = [{"name": "c", "image": "i:1", "restartPolicy": "Never", **container}]
        found = errors(new, old, containers=containers, restartPolicy="OnFailure")
        assert found == ([] if may else [f"containerStatuses[0].{FORBIDDEN}"])


def test_other_states_may_change() -> None:
    def change(before: Object | None, after: Object | None) -> list[str]:
        entry = {"name": "c"}
        old = {"containerStatuses": [{**entry, "state": before}] if before else []}
        return errors({"containerStatuses": [{**entry, "state": after}] if after else []}, old, restartPolicy="Never")

    waiting = {"waiting": {"reason": "ContainerCreating"}}
    assert change(waiting, RUNNING) == change(RUNNING, TERMINATED) == change(RUNNING, waiting) == []
    assert change(TERMINATED, TERMINATED) == change(TERMINATED, None) == change(None, RUNNING) == []
    assert change(TERMINATED, waiting) == [f"containerStatuses[0].{FORBIDDEN}"]


def test_init_containers() -> None:
    def change(policy: str | None) -> list[str]:
        container = {"name": "i", "image": "i:1", **({"restartPolicy": policy} if policy else {})}
        before = {"initContainerStatuses": [{"name": "i", "state": TERMINATED}]}
        after = {"initContainerStatuses": [{"name": "i", "state": RUNNING}]}
        return errors(after, before, initContainers=[container], restartPolicy="Never")

    assert change("Always") == []
    assert change(None) == [f"initContainerStatuses[0].{FORBIDDEN}"]


def test_ephemeral_containers_never_run_again() -> None:
    before = {"ephemeralContainerStatuses": [{"name": "e", "state": TERMINATED}]}
    found = errors({"ephemeralContainerStatuses": [{"name": "e", "state": RUNNING}]}, before, restartPolicy="Always")
    assert found == [f"ephemeralContainerStatuses[0].{FORBIDDEN}"]


def test_a_rule_that_restarts_all_containers() -> None:
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}
    containers = [
        {"name": "c", "image": "i:1"},
        {"name": "d", "image": "i:1", "restartPolicy": "Never", "restartPolicyRules": [rule]},
    ]
    options: Any = {"containers": containers, "restartPolicy": "Never"}
    assert restarted(1, "c", **options) == []
    for name in ("ContainerRestartRules", "RestartAllContainersOnContainerExits"):
        found = restarted(1, "c", features={name: False}, **options)
        assert found == [f"containerStatuses[0].{FORBIDDEN}"]


def test_entries_for_no_container() -> None:
    assert restarted(1, "gone", restartPolicy="Always") == [f"containerStatuses[0].{FORBIDDEN}"]


def test_policies_of_containers_without_the_gate() -> None:
    options: Any = {"features": {"ContainerRestartRules": False}}
    own = [{"name": "c", "image": "i:1", "restartPolicy": "Always"}]
    assert restarted(1, containers=own, restartPolicy="Never", **options) == [f"containerStatuses[0].{FORBIDDEN}"]
    assert restarted(1, restartPolicy="OnFailure", **options) == []
    assert restarted(0, restartPolicy="OnFailure", **options) == [f"containerStatuses[0].{FORBIDDEN}"]
    assert restarted(1, "gone", restartPolicy="Always", **options) == []
    before = {"initContainerStatuses": [{"name": "i", "state": TERMINATED}]}
    after = {"initContainerStatuses": [{"name": "i", "state": RUNNING}]}
    for policy, found in (("Always", []), (None, [f"initContainerStatuses[0].{FORBIDDEN}"])):
        container = {"name": "i", "image": "i:1", **({"restartPolicy": policy} if policy else {})}
        assert errors(after, before, initContainers=[container], restartPolicy="Never", **options) == found


# -- claims ------------------------------------------------------------------------------------------------------------

CLAIMS = [{"name": "a", "resourceClaimTemplateName": "t"}, {"name": "b", "resourceClaimTemplateName": "t"}]


def of_claims(*entries: Object) -> list[str]:
    found = errors({"resourceClaimStatuses": list(entries)}, resourceClaims=CLAIMS)
    return [line.removeprefix("resourceClaimStatuses") for line in found]


def test_claims_of_the_pod() -> None:
    assert of_claims({"name": "a", "resourceClaimName": "p-a-x1"}, {"name": "b"}) == []
    assert of_claims({"name": "c"}) == [
        '[0].name: Invalid value: "c": must match the name of an entry in `spec.resourceClaims`'
    ]
    assert of_claims({"name": "a"}, {"name": "b"}, {"name": "a"}) == ['[2].name: Duplicate value: "a"']


def test_the_name_of_a_generated_claim() -> None:
    assert begins(
        of_claims({"name": "a", "resourceClaimName": "%!"}), '[0].resourceClaimName: Invalid value: "%!": a lowercase'
    )


def of_extended(mappings: list[Object], claim: str = "p-extended") -> list[str]:
    container = {
        "name": "c",
        "image": "i:1",
        "resources": {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}},
    }
    status = {"extendedResourceClaimStatus": {"requestMappings": mappings, "resourceClaimName": claim}}
    found = errors(status, features={"DRAExtendedResource": True}, containers=[container])
    return [line.removeprefix("extendedResourceClaimStatus.") for line in found]


MAPPING = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r-0"}


def test_claims_for_extended_resources() -> None:
    assert of_extended([MAPPING]) == []
    assert of_extended([]) == ["requestMappings: Required value: at least one request mapping is required"]
    assert of_extended([MAPPING], "") == ["resourceClaimName: Required value"]
    assert begins(of_extended([MAPPING], "A"), 'resourceClaimName: Invalid value: "A"')
    assert of_extended([{**MAPPING, "containerName": "d"}]) == [
        'requestMappings[0].containerName: Invalid value: "d": must match the name of an entry in '
        "spec.initContainers.name or spec.containers.name"
    ]
    assert of_extended([{**MAPPING, "resourceName": "example.com/a"}]) == [
        'requestMappings[0].resourceName: Invalid value: "example.com/a": must match the extended resource name of an '
        "entry in spec.initContainers.resources.requests or spec.containers.resources.requests"
    ]
    assert begins(of_extended([{**MAPPING, "requestName": "R"}]), 'requestName: Invalid value: "R"')
    assert of_extended([MAPPING, MAPPING]) == [
        'requestMappings[1].containerName: Duplicate value: "c"',
        'requestMappings[1].resourceName: Duplicate value: "example.com/gpu"',
        'requestMappings[1].requestName: Duplicate value: "r-0"',
    ]


# -- addresses ---------------------------------------------------------------------------------------------------------

PAIR = "may specify no more than one IP for each IP family"


@pytest.mark.parametrize("name", ["podIPs", "hostIPs"])
@pytest.mark.parametrize(
    ("addresses", "last"),
    [
        ([], ""),
        (["::1"], ""),
        (["10.0.0.1", "::1"], ""),
        (["::1", "10.0.0.1"], ""),
        (["nonsense"], "[0]: Invalid value"),
        (["::1", "::2"], PAIR),
        (["10.0.0.1", "10.0.0.1"], PAIR),
        (["10.0.0.1", "::1", "10.0.0.2"], PAIR),
    ],
)
def test_addresses(name: str, addresses: list[str], last: str) -> None:
    status: Object = {name: [{"ip": address} for address in addresses]}
    if addresses:
        status[name.removesuffix("s")] = addresses[0]
    found = errors(status)
    if last:
        assert found and last in found[-1] and found[-1].startswith(name)
    else:
        assert found == []


def test_the_first_host_address() -> None:
    assert errors({"hostIP": "10.0.0.2", "hostIPs": [{"ip": "10.0.0.1"}]}) == [
        'hostIPs[0].ip: Invalid value: "10.0.0.1": must be equal to `hostIP`'
    ]


# -- entries for containers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LISTS)
def test_users(name: str) -> None:
    def of_user(user: Object | None, **spec: Any) -> list[str]:
        return errors({name: [{"name": "c", **({"user": user} if user is not None else {})}]}, **spec)

    linux = {"uid": 1, "gid": 2, "supplementalGroups": [3]}
    assert of_user(None) == of_user({}) == of_user({"linux": {"uid": 0, "gid": 0}}) == of_user({"linux": linux}) == []
    text = "Invalid value: -1: must be between 0 and 2147483647, inclusive"
    path = f"{name}[0].user.linux"
    assert of_user({"linux": {"uid": -1, "gid": -1, "supplementalGroups": [0, -1]}}) == [
        f"{path}.uid: {text}", f"{path}.gid: {text}", f"{path}.supplementalGroups[1]: {text}",
    ]  # fmt: skip
    assert of_user({"linux": linux}, os={"name": "windows"}) == [f"{path}: Forbidden: cannot be set for a windows pod"]


DEVICE = {"resources": {"requests": {"example.com/d": "1"}, "limits": {"example.com/d": "1"}}}
CLAIMED = {"resources": {"claims": [{"name": "a"}, {"name": "b", "request": "r"}]}}
NO_CLAIM = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
    "'claim:<claimName>' if request is empty"
)


def of_health(container: Object, *allocated: Object, name: str = "containerStatuses") -> list[str]:
    found = errors(
        {name: [{"name": "c", "allocatedResourcesStatus": list(allocated)}]},
        features={"ResourceHealthStatus": True, "ResourceHealthStatusMessage": True},
        containers=[{"name": "c", "image": "i:1", **container}],
        resourceClaims=CLAIMS,
    )
    return [line.removeprefix(f"{name}[0].allocatedResourcesStatus") for line in found]


def device(**health: Any) -> Object:
    return {"name": "example.com/d", "resources": [{"resourceID": "1", "health": "Healthy", **health}]}


def test_health_of_devices() -> None:
    assert of_health(DEVICE, device()) == of_health(DEVICE, device(health="Unknown", message="m" * 1024)) == []
    assert of_health(DEVICE, device(health="Fine")) == [
        '[0].resources[0].health: Unsupported value: "Fine": supported values: "Healthy", "Unhealthy", "Unknown"'
    ]
    assert of_health(DEVICE, device(message="")) == [
        "[0].resources[0].message: Required value: must be non-empty if specified"
    ]
    assert of_health(DEVICE, device(message="m" * 1025)) == [
        "[0].resources[0].message: Too long: may not be more than 1024 bytes"
    ]
    twice = {"name": "example.com/d", "resources": device()["resources"] * 2}
    assert of_health(DEVICE, twice) == ['[0].resources[1].resourceID: Duplicate value: "1"']


def test_names_of_allocated_resources() -> None:
    assert of_health(CLAIMED, {"name": "claim:a"}, {"name": "claim:b/r"}) == []
    assert of_health(CLAIMED, {"name": "claim:b"}) == [f'[0].name: Invalid value: "claim:b": {NO_CLAIM}']
    assert of_health(DEVICE, {"name": "example.com/e"}) == [
        '[0].name: Invalid value: "example.com/e": must match one of the container\'s resource requests'
    ]
    assert of_health(DEVICE, device(), name="ephemeralContainerStatuses") == [
        ": Forbidden: must not be specified in container status"
    ]


def test_an_entry_for_no_container_is_judged_by_its_health_alone() -> None:
    found = errors(
        {"containerStatuses": [{"name": "gone", "allocatedResourcesStatus": [device(health="Fine")]}]},
        features={"ResourceHealthStatus": True},
    )
    assert begins(found, "containerStatuses[0].allocatedResourcesStatus[0].resources[0].health: Unsupported value")


@pytest.mark.parametrize("name", LISTS)
def test_images_of_mounted_volumes(name: str) -> None:
    def of_image(reference: str) -> list[str]:
        mount = {"name": "v", "mountPath": "/v", "volumeStatus": {"image": {"imageRef": reference}}}
        return errors({name: [{"name": "c", "volumeMounts": [mount]}]}, features={"ImageVolumeWithDigest": True})

    path = f"{name}[0].volumeMounts[0].volumeStatus.imageVolumeStatus.imageRef"
    assert of_image("i@sha256:1") == of_image("i" * 256) == []
    assert of_image("") == [f"{path}: Required value: imageRef must not be empty"]
    assert of_image("i" * 257) == [f"{path}: Too long: may not be more than 256 bytes"]


# -- claims of the node's own resources ------------------------------------------------------------------------------------

NODE_CLAIM = {"resourceClaimName": "n-1", "containers": ["c"], "resources": {"cpu": "1"}}


def of_node_claim(**change: Any) -> list[str]:
    entry = {key: value for key, value in {**NODE_CLAIM, **change}.items() if value is not None}
    found = errors(
        {
            "nodeAllocatableResourceClaimStatuses": [entry],
            "resourceClaimStatuses": [{"name": "a", "resourceClaimName": "p-a-x1"}],
        },
        features={"DRANodeAllocatableResources": True},
        resourceClaims=[*CLAIMS, {"name": "d", "resourceClaimName": "n-1"}],
    )
    return [line.removeprefix("nodeAllocatableResourceClaimStatuses[0].") for line in found]


def test_claims_of_node_resources() -> None:
    assert of_node_claim() == of_node_claim(resourceClaimName="p-a-x1") == []
    assert of_node_claim(resourceClaimName="x") == [
        'resourceClaimName: Invalid value: "x": no mapping found in pod reference'
    ]
    assert of_node_claim(resourceClaimName="") == [
        "resourceClaimName: Required value: must not be empty",
        'resourceClaimName: Invalid value: "": no mapping found in pod reference',
    ]
    assert of_node_claim(containers=None) == ["containers: Required value: must not be empty"]
    assert of_node_claim(resources=None) == ["resources: Required value: must not be empty"]
    assert of_node_claim(resources={"example.com/d": "1"}) == [
        'resources[example.com/d]: Invalid value: "example.com/d": must be a node allocatable resource name'
    ]
    assert of_node_claim(resources={"cpu": "-1"}) == ['resources[cpu]: Invalid value: "-1": must be non-negative']
