"""What a ResourceSlice may say: each rule with its text, at the last value that passes and the first that does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.resource.resourceslices import RESOURCE, _shortened
from tests.resources.strategy_kit import CTX, changes, made, problems, short

TERM: Object = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
SELECTOR: Object = {"nodeSelectorTerms": [TERM]}
COUNTERS: Object = {"c": {"value": "1"}}


def names(count: int) -> list[Object]:
    return [{"name": f"d{i}"} for i in range(count)]


def counters(count: int) -> Object:
    return {f"c{i:02}": {"value": "1"} for i in range(count)}


def of_spec(**spec: Any) -> list[str]:
    given = {"driver": "d.example.com", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n", **spec}
    found = problems(RESOURCE, spec={key: value for key, value in given.items() if value is not None})
    return short(found, "spec.")


def of_device(**device: Any) -> list[str]:
    found = of_spec(devices=[{"name": "d", **device}])
    return short(found, "devices[0].")


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({}, []),
        ({"driver": ""}, ["driver: Required value"]),
        ({"driver": "a/b"}, ['driver: Invalid value: "a/b": <subdomain>']),
        ({"driver": "a" * 63}, []),
        ({"driver": "a" * 64}, ["driver: Too long: may not be more than 63 bytes"]),
        ({"pool": None}, [
             "pool.name: Required value",
             "pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
         ]),
        ({"pool": {"name": "a/b", "resourceSliceCount": 1, "generation": 0}}, []),
        ({"pool": {"name": "a//b", "resourceSliceCount": 1}}, ['pool.name: Invalid value: "": <subdomain>']),
        ({"pool": {"name": "p", "resourceSliceCount": 1, "generation": -1}}, [
             "pool.generation: Invalid value: -1: must be greater than or equal to zero",
         ]),
        ({"pool": {"name": ".".join(["a" * 62] * 4) + "aa", "resourceSliceCount": 1}}, []),
        ({"pool": {"name": "/".join(["a" * 62] * 4) + "aaa", "resourceSliceCount": 1}}, [
             "pool.name: Too long: may not be more than 253 bytes",
         ]),
        ({"nodeName": "A"}, ['nodeName: Invalid value: "A": <subdomain>']),
        ({"nodeName": ""}, [
             'nodeName: Invalid value: "": must be either unset or set to a non-empty string',
             "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` "
             "is required",
         ]),
        ({"nodeName": None, "nodeSelector": SELECTOR}, []),
        ({"nodeName": None, "nodeSelector": {"nodeSelectorTerms": []}}, [
             "nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
             "nodeSelector.nodeSelectorTerms: Invalid value: []: must have exactly one node selector term",
         ]),
        ({"nodeName": None, "nodeSelector": {"nodeSelectorTerms": [TERM, TERM]}}, [
             "nodeSelector.nodeSelectorTerms: Invalid value: "
             '[{"MatchExpressions":[{"Key":"zone","Operator":"In","Values":["a"]}],"MatchFields":null},{"MatchExpressi'
             'ons":[{"Key":"zone","Operator":"In","Values":["a"]}],"MatchFields":null}]: must have exactly one node '
             "selector term",
         ]),
        ({"nodeName": None, "allNodes": True}, []),
        ({"nodeName": None, "allNodes": False}, [
             "allNodes: Invalid value: false: must be either unset or set to true",
             "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` "
             "is required",
         ]),
        ({"nodeName": None, "perDeviceNodeSelection": True}, []),
        ({"perDeviceNodeSelection": False}, [
             "perDeviceNodeSelection: Invalid value: false: must be either unset or set to true",
         ]),
        ({"nodeSelector": SELECTOR, "allNodes": True}, [
             'spec: Invalid value: "{`nodeName`, `nodeSelector`, `allNodes`}": exactly one of `nodeName`, '
             "`nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set",
         ]),
        ({"devices": names(128)}, []),
        ({"devices": names(129)}, ["devices: Too many: 129: must have at most 128 items"]),
        ({"devices": [{"name": "e", "taints": [{"key": "k", "effect": "None"}]}, *names(63)]}, []),
        ({"devices": [*names(64), {"name": "e", "taints": [{"key": "k", "effect": "None"}]}]}, [
             "devices: Too many: 65: must have at most 64 items",
         ]),
        ({"sharedCounters": [{"name": "s", "counters": COUNTERS}]}, []),
        ({"sharedCounters": [{"name": "s", "counters": COUNTERS}], "devices": []}, [
             'spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed',
         ]),
        ({"sharedCounters": [{"name": f"s{i}", "counters": COUNTERS} for i in range(8)]}, []),
        ({"sharedCounters": [{"name": f"s{i}", "counters": COUNTERS} for i in range(9)]}, [
             "sharedCounters: Too many: 9: must have at most 8 items",
         ]),
        ({"sharedCounters": [{"name": "s", "counters": counters(32)}] * 2}, [
             'sharedCounters[1]: Duplicate value: "s"',
         ]),
        ({"sharedCounters": [{"name": "s", "counters": counters(33)}]}, [
             "sharedCounters[0].counters: Too many: 33: must have at most 32 items",
         ]),
        ({"sharedCounters": [{"counters": {"A": {"value": "1"}}}, {"name": "S"}]}, [
             "sharedCounters[0].name: Required value",
             'sharedCounters[0].counters: Invalid value: "A": <label>',
             'sharedCounters[1].name: Invalid value: "S": <label>',
             "sharedCounters[1].counters: Required value",
         ]),
    ],
)  # fmt: skip
def test_spec(spec: Object, texts: list[str]) -> None:
    assert of_spec(**spec) == texts


CONSUMED: Object = {"counterSet": "s", "counters": COUNTERS}


@pytest.mark.parametrize(
    ("device", "texts"),
    [
        ({}, []),
        ({"name": "D"}, ['name: Invalid value: "D": <label>']),
        ({"name": ""}, ['name: Invalid value: "": <label>']),
        ({"attributes": {f"a{i}": {"int": 1} for i in range(31)}, "capacity": {"c": {"value": "1"}}}, []),
        ({"attributes": {f"a{i}": {"int": 1} for i in range(31)},
          "capacity": {"c": {"value": "1"}, "d": {"value": "1"}}}, [
             "devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32",
         ]),
        ({"attributes": {"a/b/c": {"int": 1}, "": {"int": 1}, "a.b/": {"int": 1}, "/c": {"int": 1}}}, [
             'attributes: Invalid value: "": <identifier>',
             'attributes: Invalid value: "": the domain must not be empty',
             'attributes: Invalid value: "": the name must not be empty',
         ]),
        ({"attributes": {"a.b/" + "c" * 32: {"int": 1}}}, []),
        ({"attributes": {"a.b/" + "c" * 33: {"int": 1}}}, ["attributes: Too long: may not be more than 32 bytes"]),
        ({"attributes": {"a-b": {"int": 1}}}, ['attributes: Invalid value: "a-b": <identifier>']),
        ({"attributes": {"a" * 63 + "/" + "c" * 33: {}}}, [
             "attributes: Too long: may not be more than 32 bytes",
             "attributes[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaa/cccccccccccccccccccccccccccccc"
             'ccc]: Invalid value: "": exactly one value must be specified',
         ]),
        ({"attributes": {"a" * 63 + "/" + "c" * 32: {}}}, [
             "attributes[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/ccccccccccccccccccccccccccccc"
             'ccc]: Invalid value: "": exactly one value must be specified',
         ]),
        ({"attributes": {"a": {}}}, ['attributes[a]: Invalid value: "": exactly one value must be specified']),
        ({"attributes": {"a": {"int": 0, "bool": False}}}, [
             "attributes[a]: Invalid value: "
             '{"IntValue":0,"BoolValue":false,"StringValue":null,"VersionValue":null,"IntValues":null,"BoolValues":nul'
             'l,"StringValues":null,"VersionValues":null}: exactly one value must be specified',
         ]),
        ({"attributes": {"a": {"string": "x" * 64}, "b": {"version": "1.2.3-" + "x" * 58}}}, []),
        ({"attributes": {"a": {"string": "x" * 65}, "b": {"version": "1.2.3-" + "x" * 59}}}, [
             "attributes[a].string: Too long: may not be more than 64 bytes",
             "attributes[b].version: Too long: may not be more than 64 bytes",
         ]),
        ({"attributes": {"a": {"version": "1.2"}, "b": {"version": "01.2.3"}, "c": {"version": "1.2.3-0a+b.c"}}}, [
             'attributes[a].version: Invalid value: "1.2": must be a string compatible with semver.org spec 2.0.0',
             'attributes[b].version: Invalid value: "01.2.3": must be a string compatible with semver.org spec 2.0.0',
         ]),
        ({"capacity": {"a-b": {"value": "1"}}}, ['capacity: Invalid value: "a-b": <identifier>']),
        ({"taints": [{"key": f"k{i}", "effect": "NoExecute"} for i in range(16)]}, []),
        ({"taints": [{"key": f"k{i}", "effect": "NoExecute"} for i in range(17)]}, [
             "taints: Too many: 17: must have at most 16 items",
         ]),
        ({"taints": [{"key": "", "effect": ""}, {"key": "k", "value": "-", "effect": "NoSchedule"}]}, [
             'taints[0].key: Invalid value: "": name part must be non-empty',
             'taints[0].key: Invalid value: "": <name part>',
             "taints[0].effect: Required value",
             'taints[1].value: Invalid value: "-": <label value>',
         ]),
        ({"consumesCounters": [CONSUMED, {**CONSUMED, "counterSet": "t"}]}, []),
        ({"consumesCounters": [CONSUMED, CONSUMED]}, ['consumesCounters[1]: Duplicate value: "s"']),
        ({"consumesCounters": [{**CONSUMED, "counterSet": name} for name in "stu"]}, [
             "consumesCounters: Too many: 3: must have at most 2 items",
         ]),
        ({"consumesCounters": [{}, {"counterSet": "S", "counters": counters(33)}]}, [
             "consumesCounters[0].counterSet: Required value",
             "consumesCounters[0].counters: Required value",
             'consumesCounters[1].counterSet: Invalid value: "S": <label>',
             "consumesCounters[1].counters: Too many: 33: must have at most 32 items",
         ]),
        ({"nodeName": "n"}, [
             "devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if "
             "`perDeviceNodeSelection` is set to true in the ResourceSlice spec",
         ]),
        ({"nodeName": ""}, [
             "devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if "
             "`perDeviceNodeSelection` is set to true in the ResourceSlice spec",
         ]),
        ({"nodeSelector": SELECTOR}, [
             "devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if "
             "`perDeviceNodeSelection` is set to true in the ResourceSlice spec",
         ]),
        ({"allNodes": False}, [
             "devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if "
             "`perDeviceNodeSelection` is set to true in the ResourceSlice spec",
         ]),
        ({"bindingConditions": ["a"], "bindingFailureConditions": ["b"]}, []),
        ({"bindingConditions": ["a"]}, [
             "bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use "
             "bindingConditions",
         ]),
        ({"bindingFailureConditions": ["b"]}, [
             "bindingConditions: Invalid value: null: bindingConditions are required to use bindingFailureConditions",
         ]),
        ({"bindingConditions": list("abcd"), "bindingFailureConditions": list("efgh")}, []),
        ({"bindingConditions": list("abcde"), "bindingFailureConditions": list("fghij")}, [
             "bindingConditions: Too many: 5: must have at most 4 items",
             "bindingFailureConditions: Too many: 5: must have at most 4 items",
         ]),
        ({"bindingConditions": ["a", "a", "-"], "bindingFailureConditions": ["b", "b", "a"]}, [
             'bindingConditions[2]: Invalid value: "-": <name part>',
             'bindingConditions[1]: Duplicate value: "a"',
             'bindingFailureConditions[1]: Duplicate value: "b"',
             'bindingFailureConditions[2]: Invalid value: "a": bindingFailureConditions must not overlap with '
             "bindingConditions",
         ]),
        ({"nodeAllocatableResourceMappings": {"cpu": {}}}, []),
        ({"nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "0"}}}, []),
    ],
)  # fmt: skip
def test_device(device: Object, texts: list[str]) -> None:
    assert of_device(**device) == texts


@pytest.mark.parametrize(
    ("device", "texts"),
    [
        ({}, [
             "devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
             "`perDeviceNodeSelection` is set to true in the ResourceSlice spec",
         ]),
        ({"nodeName": "n"}, []),
        ({"nodeName": "N"}, ['devices[0].nodeName: Invalid value: "N": <subdomain>']),
        ({"nodeName": ""}, [
             'devices[0].nodeName: Invalid value: "": must not be empty',
             "devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
             "`perDeviceNodeSelection` is set to true in the ResourceSlice spec",
         ]),
        ({"nodeSelector": {"nodeSelectorTerms": [TERM, TERM]}}, []),
        ({"nodeSelector": {}}, [
             "devices[0].nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
         ]),
        ({"allNodes": True}, []),
        ({"allNodes": False}, [
             "devices[0].allNodes: Invalid value: false: must be either unset or set to true",
             "devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
             "`perDeviceNodeSelection` is set to true in the ResourceSlice spec",
         ]),
        ({"nodeName": "n", "nodeSelector": SELECTOR, "allNodes": True}, [
             'devices[0]: Invalid value: "{`nodeName`, `nodeSelector`, `allNodes`}": exactly one of `nodeName`, '
             "`nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the "
             "ResourceSlice spec",
         ]),
    ],
)  # fmt: skip
def test_the_nodes_of_a_device(device: Object, texts: list[str]) -> None:
    found = of_spec(nodeName=None, perDeviceNodeSelection=True, devices=[{"name": "d", **device}])
    assert found == texts


@pytest.mark.parametrize(
    ("policy", "texts"),
    [
        ({}, []),
        ({"default": "1", "validValues": ["1", "2"], "validRange": {"min": "1"}}, [
             ': Forbidden: exactly one policy can be specified, cannot specify "validValues" and "validRange" at the '
             "same time",
         ]),
        ({"validValues": ["1"]}, [".default: Required value: required when validValues is defined"]),
        ({"validRange": {"min": "1"}}, [".default: Required value: required when validRange is defined"]),
        ({"default": "1", "validValues": ["1", "8"]}, []),
        ({"default": "1", "validValues": ["1", "9"]}, [
             '.validValues[1]: Invalid value: "9": option is larger than capacity value: 8',
         ]),
        ({"default": "1", "validValues": ["2", "1"]}, [
             '.validValues[1]: Invalid value: "1": values must be sorted in ascending order',
         ]),
        ({"default": "1", "validValues": ["1", "1"]}, ['.validValues[1]: Duplicate value: "1"']),
        ({"default": "3", "validValues": ["1", "2"]}, [
             '.validValues: Invalid value: "3": default value is not valid according to the requestPolicy',
         ]),
        ({"default": "1m", "validValues": [f"{i}m" for i in (1, 1001, 2001, 3001, 4001, 5001, 6001, 7001)]}, []),
        ({"default": "1", "validValues": ["1", "1100m", "1200m"]}, ['.validValues[2]: Duplicate value: "2"']),
        ({"default": "1", "validValues": [str(i) for i in range(1, 11)]}, [
             '.validValues[8]: Invalid value: "9": option is larger than capacity value: 8',
             '.validValues[9]: Invalid value: "10": option is larger than capacity value: 8',
         ]),
        ({"default": "1", "validValues": [str(i) for i in range(1, 12)]}, [
             ".validValues: Too many: 11: must have at most 10 items",
             '.validValues: Invalid value: "1": default value is not valid according to the requestPolicy',
         ]),
        ({"default": "1", "validRange": {"max": "2"}}, [
             ".validRange.min: Required value: required when validRange is defined",
         ]),
        ({"default": "1", "validRange": {"min": "1"}}, []),
        ({"default": "8", "validRange": {"min": "8", "max": "8"}}, []),
        ({"default": "9", "validRange": {"min": "9", "max": "9"}}, [
             '.validRange.min: Invalid value: "9": min is larger than capacity value: 8',
             '.validRange.max: Invalid value: "9": max is larger than capacity value: 8',
         ]),
        ({"default": "1", "validRange": {"min": "2", "max": "4"}}, [
             '.validRange.min: Invalid value: "1": default is less than min: 2',
         ]),
        ({"default": "5", "validRange": {"min": "2", "max": "4"}}, [
             '.validRange.max: Invalid value: "5": default is more than max: 4',
         ]),
        ({"default": "2", "validRange": {"min": "2", "max": "1"}}, [
             '.validRange.max: Invalid value: "2": min is larger than max: 1',
             '.validRange.max: Invalid value: "2": default is more than max: 1',
         ]),
        ({"default": "2", "validRange": {"min": "2", "max": "8", "step": "6"}}, []),
        ({"default": "2", "validRange": {"min": "2", "max": "8", "step": "7"}}, [
             '.validRange.step: Invalid value: "7": one step 9 is larger than capacity value: 8',
             '.validRange.step: Invalid value: "8": value is not a multiple of a given step (7) from (2)',
         ]),
        ({"default": "4", "validRange": {"min": "2", "max": "7", "step": "2"}}, [
             '.validRange.step: Invalid value: "7": value is not a multiple of a given step (2) from (2)',
         ]),
        ({"default": "3", "validRange": {"min": "2", "max": "8", "step": "2"}}, [
             '.validRange.step: Invalid value: "3": value is not a multiple of a given step (2) from (2)',
         ]),
        ({"default": "3", "validRange": {"min": "2", "step": "0"}}, []),
    ],
)  # fmt: skip
def test_the_policy_for_requests_of_a_capacity(policy: Object, texts: list[str]) -> None:
    capacity = {"m": {"value": "8", "requestPolicy": policy}}
    found = of_device(allowMultipleAllocations=True, capacity=capacity)
    assert [text.removeprefix("capacity[m].requestPolicy") for text in found] == texts


LISTS = type(CTX)("", "a", now=CTX.now, features={"DRAListTypeAttributes": True, "DRANodeAllocatableResources": True})


@pytest.mark.parametrize(
    ("device", "texts"),
    [
        ({"attributes": {"a": {"ints": list(range(24)), "bools": [True] * 24}}}, [
             "attributes[a]: Invalid value: "
             '{"IntValue":null,"BoolValue":null,"StringValue":null,"VersionValue":null,"IntValues":[0,1,2,3,4,5,6,7,8,'
             '9,10,11,12,13,14,15,16,17,18,19,20,21,22,23],"BoolValues":[true,true,true,true,true,true,true,true,true,'
             'true,true,true,true,true,true,true,true,true,true,true,true,true,true,true],"StringValues":null,"Version'
             'Values":null}: exactly one value must be specified',
         ]),
        ({"attributes": {"a": {"ints": list(range(48))}}}, []),
        ({"attributes": {"a": {"ints": list(range(48))}, "b": {"int": 1}}}, [
             "spec.devices[0]: Invalid value: 49: the total number of attribute values must not exceed 48",
         ]),
        ({"attributes": {"a": {"strings": []}, "b": {"strings": ["x" * 64, "x" * 65]}}}, [
             "attributes[a].strings: Invalid value: []: must not be empty if specified",
             "attributes[b].strings[1]: Too long: may not be more than 64 bytes",
         ]),
        ({"attributes": {"a": {"versions": ["1.0.0", "1"]}, "b": {"bools": [True], "string": "x"}}}, [
             'attributes[a].versions[1]: Invalid value: "1": must be a string compatible with semver.org spec 2.0.0',
             "attributes[b]: Invalid value: "
             '{"IntValue":null,"BoolValue":null,"StringValue":"x","VersionValue":null,"IntValues":null,"BoolValues":[t'
             'rue],"StringValues":null,"VersionValues":null}: exactly one value must be specified',
         ]),
        ({"nodeAllocatableResourceMappings": {"cpu": {}}}, []),
        ({"nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "0"}}}, [
             'nodeAllocatableResourceMappings[cpu].allocationMultiplier: Invalid value: "0": must be positive',
         ]),
        ({"nodeAllocatableResourceMappings": {"example.com/a": {"capacityKey": "m"}}}, [
             'nodeAllocatableResourceMappings[example.com/a]: Invalid value: "example.com/a": must be a node '
             "allocatable resource name",
             'nodeAllocatableResourceMappings[example.com/a].capacityKey: Not found: "m"',
         ]),
        ({"nodeAllocatableResourceMappings": {"memory": {"capacityKey": "m"}}, "capacity": {"m": {"value": "1"}}}, []),
        ({"nodeAllocatableResourceMappings": {"memory": {"capacityKey": ""}}}, [
             'nodeAllocatableResourceMappings[memory].capacityKey: Invalid value: "": capacityKey must not be an '
             "empty string",
         ]),
    ],
)  # fmt: skip
def test_what_gates_add_to_a_device(device: Object, texts: list[str]) -> None:
    spec = {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n"}
    found = problems(RESOURCE, LISTS, spec={**spec, "devices": [{"name": "d", **device}]})
    assert short(found, "spec.devices[0].") == texts


def test_devices_with_lists_of_values_are_fewer() -> None:
    spec = {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n"}
    listed = {"name": "e", "attributes": {"a": {"int": 1}, "b": {"ints": [1]}}}
    assert problems(RESOURCE, LISTS, spec={**spec, "devices": [listed, *names(63)]}) == []
    found = problems(RESOURCE, LISTS, spec={**spec, "devices": [listed, *names(64)]})
    assert found == ["spec.devices: Too many: 65: must have at most 64 items"]


def test_a_consumer_of_counters_is_one_of_few() -> None:
    consumer = {"name": "e", "consumesCounters": [CONSUMED]}
    assert of_spec(devices=[consumer, *names(63)]) == []
    assert of_spec(devices=[consumer, *names(64)]) == ["devices: Too many: 65: must have at most 64 items"]


TAINTED: Object = {"key": "k", "effect": "NoSchedule", "timeAdded": "2020-01-01T00:00:00Z"}
SLICE: Object = {
    "driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n",
    "devices": [{"name": "d", "taints": [{**TAINTED, "effect": "Later"}]}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ({"pool": {"name": "p", "resourceSliceCount": 2, "generation": 2}}, []),
        ({"pool": {"name": "q", "resourceSliceCount": 1}}, [
             'spec.pool.name: Invalid value: "q": field is immutable',
         ]),
        ({"driver": "e"}, ['spec.driver: Invalid value: "e": field is immutable']),
        ({"nodeName": "m"}, ['spec.nodeName: Invalid value: "m": field is immutable']),
        ({"devices": [{"name": "d", "taints": [{**TAINTED, "effect": "Other"}]}]}, [
             'spec.devices[0].taints[0].effect: Unsupported value: "Other": supported values: "NoExecute", '
             '"NoSchedule", "None"',
         ]),
        ({"devices": [{"name": "e", "taints": [{**TAINTED, "effect": "Later"}]}]}, [
             'spec.devices[0].taints[0].effect: Unsupported value: "Later": supported values: "NoExecute", '
             '"NoSchedule", "None"',
         ]),
    ],
)  # fmt: skip
def test_update(change: Object, texts: list[str]) -> None:
    assert changes(RESOURCE, made(RESOURCE, spec=SLICE), spec={**SLICE, **change}) == texts


@pytest.mark.parametrize(
    ("gates", "more", "generation"),
    [
        ({}, {}, 1),
        ({"DRADeviceBindingConditions": False}, {"bindsToNode": True}, 2),
        ({"DRAConsumableCapacity": False}, {"allowMultipleAllocations": True}, 2),
        ({"DRAConsumableCapacity": True}, {"allowMultipleAllocations": True}, 2),
    ],
)
def test_a_field_that_is_dropped_raises_the_generation(gates: dict[str, bool], more: Object, generation: int) -> None:
    ctx = msgspec.structs.replace(CTX, features=gates)
    old = made(RESOURCE, ctx, spec={**SLICE, "devices": names(1)})
    new = tree.copy(old)
    new["spec"]["devices"][0].update(more)
    RESOURCE.strategy.prepare_for_update(new, old, ctx)
    assert new["metadata"]["generation"] == generation
    assert (new["spec"] == old["spec"]) is (True not in gates.values())


def test_a_mapping_takes_one_for_one_and_a_taint_keeps_its_time() -> None:
    devices = [
        {
            "name": "d",
            "taints": [TAINTED],
            "nodeAllocatableResourceMappings": {"cpu": {}, "memory": {"allocationMultiplier": "2"}},
        }
    ]
    [device] = made(RESOURCE, LISTS, spec={**SLICE, "devices": devices})["spec"]["devices"]
    assert device["nodeAllocatableResourceMappings"] == {
        "cpu": {"allocationMultiplier": "1"}, "memory": {"allocationMultiplier": "2"},
    }  # fmt: skip
    assert device["taints"] == [TAINTED]


@pytest.mark.parametrize(
    ("gate", "device"),
    [
        ("DRADeviceTaints", {"taints": [TAINTED]}),
        ("DRAPartitionableDevices", {"consumesCounters": [CONSUMED]}),
        ("DRAPartitionableDevices", {"allNodes": True}),
        ("DRADeviceBindingConditions", {"bindingConditions": ["a"]}),
        ("DRAResourceClaimDeviceStatus", {"bindsToNode": True}),
        ("DRAConsumableCapacity", {"allowMultipleAllocations": True}),
    ],
)
def test_without_its_gate_a_field_goes_unless_it_was_there(gate: str, device: Object) -> None:
    spec, ctx = {**SLICE, "devices": [{"name": "d", **device}]}, type(CTX)("", "a", now=CTX.now, features={gate: False})
    assert made(RESOURCE, ctx, spec=spec)["spec"]["devices"] == [{"name": "d"}]
    old = made(RESOURCE, spec=spec)
    RESOURCE.strategy.prepare_for_update(kept := made(RESOURCE, spec=spec), old, ctx)
    assert kept["spec"]["devices"] == [{"name": "d", **device}]


@pytest.mark.parametrize(
    ("counter_sets", "devices"), [([{"name": "s", "counters": COUNTERS}], []), ([], names(1)), ([], [])]
)
def test_an_empty_list_that_a_client_sends_counts_beside_the_other(
    counter_sets: list[Object], devices: list[Object]
) -> None:
    spec = {"driver": "d.example.com", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n"}
    filled = {"sharedCounters": counter_sets, "devices": devices}
    obj = made(RESOURCE, spec={**spec, **{name: items for name, items in filled.items() if items}})
    sent = {"spec": {**spec, "sharedCounters": counter_sets, "devices": devices}}
    for given, count in ((sent, 1), (obj, 0), (None, 0)):
        context = msgspec.structs.replace(CTX, sent=lambda given=given: given)
        assert len(RESOURCE.strategy.validate(obj, context)) == count


@pytest.mark.parametrize(
    ("length", "shown"),
    [(95, "x" * 95), (96, "x" * 96), (97, "x" * 47 + "..." + "x" * 46), (500, "x" * 47 + "..." + "x" * 46)],
)
def test_long_names_in_paths_are_shortened(length: int, shown: str) -> None:
    assert _shortened("x" * length) == shown
    assert _shortened("a" + "x" * 200 + "b") == "a" + "x" * 46 + "..." + "x" * 45 + "b"


@pytest.mark.parametrize("values", [["-"], ["b"], ["b" * 64]])
def test_a_selector_of_nodes_has_values_of_labels(values: list[str]) -> None:
    term = {"matchExpressions": [{"key": "a", "operator": "In", "values": values}]}
    found = of_spec(nodeName=None, nodeSelector={"nodeSelectorTerms": [term]})
    path = "nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[0]"
    assert [text.partition(": ")[0] for text in found] == ([] if values == ["b"] else [path])
