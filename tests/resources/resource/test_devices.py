"""Claims, classes and slices of devices."""

from __future__ import annotations

import pytest

from kapi.cel.sizes import Range
from kapi.cel.types import STRING
from kapi.machinery import tree
from kapi.machinery.field import FieldError, Path
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.resource import deviceclasses, resourceclaims, resourceslices
from kapi.resources.resource.devices import check_set
from kapi.resources.resource.expressions import _size_of, check_expression

CTX = StrategyContext("default", "a", now="2024-01-01T00:00:00Z")
REQUEST: Object = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
SLICE: Object = {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n"}


def made(row: Resource, spec: Object) -> Object:
    obj: Object = {"metadata": {"name": "a"}, "spec": tree.copy(spec)}
    if row.namespaced:
        obj["metadata"]["namespace"] = "default"
    row.strategy.default(obj)
    row.strategy.prepare_for_create(obj, CTX)
    return obj


def problems(row: Resource, spec: Object) -> list[str]:
    return [str(error) for error in row.strategy.validate(made(row, spec), CTX)]


def test_one_device_is_asked_for_unless_the_request_says_more() -> None:
    spec = made(resourceclaims.RESOURCE_CLAIM, {"devices": {"requests": [REQUEST]}})["spec"]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert spec["devices"]["requests"][0]["exactly"] == exactly


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        ({"requests": [{"name": "r"}]}, "spec.devices.requests[0]: Required value: exactly one of `exactly` or"),
        ({"requests": [REQUEST, REQUEST]}, 'spec.devices.requests[1]: Duplicate value: "r"'),
        (
            {"requests": [{**REQUEST, "exactly": {"deviceClassName": "c", "allocationMode": "All", "count": 2}}]},
            "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
        ),
        (
            {"requests": [REQUEST], "constraints": [{"requests": ["other"], "matchAttribute": "a/b"}]},
            'spec.devices.constraints[0].requests[0]: Invalid value: "other": must be the name of a request',
        ),
        ({"requests": [REQUEST], "config": [{}]}, "spec.devices.config[0].opaque: Required value"),
    ],
)
def test_what_a_claim_may_not_say(devices: Object, text: str) -> None:
    found = problems(resourceclaims.RESOURCE_CLAIM, {"devices": devices})
    assert found and found[0].startswith(text), found


def test_without_distinct_attributes_a_constraint_needs_an_attribute_to_match() -> None:
    row, spec = resourceclaims.RESOURCE_CLAIM, {"devices": {"requests": [REQUEST], "constraints": [{}]}}
    found = row.strategy.validate(
        made(row, spec), StrategyContext("default", "a", features={"DRAConsumableCapacity": False})
    )
    assert [str(error) for error in found] == ["spec.devices.constraints[0].matchAttribute: Required value"]


@pytest.mark.parametrize(("count", "texts"), [(5116, 0), (5117, 1)])
def test_parameters_are_measured_in_bytes_of_utf_8(count: int, texts: int) -> None:
    opaque = {"driver": "d.example.com", "parameters": {"a": "\N{LATIN SMALL LETTER E WITH ACUTE}" * count}}
    devices = {"requests": [REQUEST], "config": [{"opaque": opaque}]}
    found = problems(resourceclaims.RESOURCE_CLAIM, {"devices": devices})
    assert found == ["spec.devices.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"] * texts


def test_the_addresses_of_a_device_are_in_canonical_form() -> None:
    ips = ["::ffff:1.2.3.4/24", "::ffff:1.2.3.4/120", "1.2.3.4/24"]
    devices = [{"driver": "d", "pool": "p", "device": "one", "networkData": {"ips": ips}}]
    _, found = status_change({"allocation": allocated("one")}, {"allocation": allocated("one"), "devices": devices})
    place, detail = "status.devices[0].networkData.ips", 'must be in canonical form ("1.2.3.4/24")'
    assert found == [f'{place}[{i}]: Invalid value: "{text}": {detail}' for i, text in enumerate(ips[:2])]


def allocated(*names: str) -> Object:
    results = [{"request": "r", "driver": "d", "pool": "p", "device": name} for name in names]
    return {"devices": {"results": results}}


def status_change(old: Object, new: Object) -> tuple[Object, list[str]]:
    row = resourceclaims.RESOURCE_CLAIM
    sub = row.subresource("status")
    assert sub is not None and sub.strategy is not None
    before = {**made(row, {"devices": {"requests": [REQUEST]}}), "status": old}
    before["metadata"].update(uid="u", resourceVersion="1")
    after = {**tree.copy(before), "status": tree.copy(new)}
    sub.strategy.prepare_for_update(after, before, CTX)
    return after["status"], [str(error) for error in sub.strategy.validate_update(after, before, CTX)]


def test_a_claim_is_reserved_only_while_it_is_allocated() -> None:
    user = {"resource": "pods", "name": "p", "uid": "u"}
    _, found = status_change({}, {"reservedFor": [user]})
    assert found == ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]
    assert status_change({}, {"reservedFor": [user], "allocation": allocated("x")})[1] == []


def test_an_allocation_does_not_change() -> None:
    _, found = status_change({"allocation": allocated("x")}, {"allocation": allocated("y")})
    assert len(found) == 1 and found[0].startswith(
        'status.allocation: Invalid value: {"Devices":{"Results":[{"Request"'
    )


def test_reports_about_devices_that_were_given_back_go() -> None:
    report = {"driver": "d", "pool": "p", "device": "x"}
    status, found = status_change({"allocation": allocated("x"), "devices": [report]}, {"devices": [report]})
    assert (status, found) == ({}, [])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"nodeName": None}, "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`,"),
        ({"allNodes": True}, 'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of'),
        ({"pool": {"name": "p"}}, "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"),
        ({"devices": [{"name": "a"}, {"name": "a"}]}, 'spec.devices[1]: Duplicate value: "a"'),
        (
            {"devices": [{"name": "a", "attributes": {"v": {"version": "v1"}}}]},
            'spec.devices[0].attributes[v].version: Invalid value: "v1": must be a string compatible with semver.org',
        ),
        (
            {"devices": [{"name": "a", "attributes": {"v": {"int": 1, "bool": True}}}]},
            'spec.devices[0].attributes[v]: Invalid value: {"IntValue":1,"BoolValue":true,',
        ),
        (
            {"devices": [{"name": "a", "capacity": {"m": {"value": "1", "requestPolicy": {}}}}]},
            "spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true",
        ),
        (
            {"devices": [{"name": "a", "taints": [{"key": "k", "effect": "Odd"}]}]},
            'spec.devices[0].taints[0].effect: Unsupported value: "Odd"',
        ),
    ],
)
def test_what_a_slice_may_not_say(change: Object, text: str) -> None:
    found = problems(
        resourceslices.RESOURCE, {key: value for key, value in {**SLICE, **change}.items() if value is not None}
    )
    assert found and found[0].startswith(text), found


def test_a_taint_remembers_when_it_came() -> None:
    taints = [{"key": "k", "effect": "NoSchedule"}]
    device = made(resourceslices.RESOURCE, {**SLICE, "devices": [{"name": "a", "taints": taints}]})["spec"]["devices"][
        0
    ]
    assert device["taints"][0]["timeAdded"] == CTX.now


def test_expressions_are_compiled_and_weighed() -> None:
    assert check_expression("device.driver == 'd' && device.attributes['d'].model == 'x'") == ("", False)
    assert check_expression("device.driver")[0] == "must evaluate to bool or the unknown type, not string"
    assert check_expression("device == device") == ("", False)
    assert check_expression("int('x')")[0] == "must evaluate to bool or the unknown type, not int"
    assert (
        "expression of type 'any' cannot be range of a comprehension"
        in check_expression("device.attributes['d'].list.exists(x, x == 1)")[0]
    )
    assert "was given google.protobuf.Any" in check_expression("'%s'.format([device.attributes['d'].a]) == 'b'")[0]
    assert check_expression("nope")[0].startswith(
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope'"
    )
    nested = (
        "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a == d))))"
    )
    assert check_expression(nested) == ("", True)


SHARED = "device.allowMultipleAllocations && device.driver == 'd'"
HAS = "device.attributes['d'].models.includes('x')"


def selected(expression: str, **gates: bool) -> list[str]:
    ctx = StrategyContext("", "a", features=gates)
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    found = deviceclasses.RESOURCE.strategy.validate(made(deviceclasses.RESOURCE, spec), ctx)
    return [str(error) for error in found]


def test_a_selector_may_name_its_parts() -> None:
    assert selected("cel.bind(own, device.attributes['d'], own.fast && own.size > 3)") == []
    [error] = selected("cel.bind('own', 1, true)")
    assert "cel.bind() variable names must be simple identifiers" in error
    [error] = selected("dyn(1).bind(x, 1, true)")
    assert "undeclared reference to 'x'" in error


def test_gates_decide_what_selectors_know() -> None:
    assert selected(SHARED) == []
    [error] = selected(SHARED, DRAConsumableCapacity=False)
    assert "undefined field 'allowMultipleAllocations'" in error
    assert selected(HAS, DRAListTypeAttributes=True) == []
    [error] = selected(HAS)
    assert "undeclared reference to 'includes'" in error
    [error] = selected("device.attributes[true].fast")
    assert "'(map(string, map(string, any)), bool)'" in error


@pytest.mark.parametrize("selector", [SHARED, HAS])
def test_a_stored_selector_may_use_what_a_gate_would_add(selector: str) -> None:
    ctx = StrategyContext("", "a", features={"DRAConsumableCapacity": False, "DRAListTypeAttributes": False})
    selectors = [{"cel": {"expression": selector}}]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "selectors": selectors}
    claim: Object = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    for row, spec in (
        (deviceclasses.RESOURCE, {"selectors": selectors}),
        (resourceclaims.RESOURCE_CLAIM, claim),
        (resourceclaims.RESOURCE_CLAIM_TEMPLATE, {"spec": claim}),
    ):
        old = made(row, spec)
        assert len(row.strategy.validate(old, ctx)) == 1
        old["metadata"]["resourceVersion"] = "1"
        assert row.strategy.validate_update(tree.copy(old), old, ctx) == []
    new, old = (made(deviceclasses.RESOURCE, {"selectors": selectors * count}) for count in (2, 1))
    new["metadata"]["resourceVersion"] = "1"
    assert len(deviceclasses.RESOURCE.strategy.validate_update(new, old, ctx)) == 2


@pytest.mark.parametrize(
    ("expression", "lists", "name"),
    [
        ("dyn(true)", False, "dyn"),
        ("dyn(true)", True, ""),
        ("device.attributes['d'].a", False, ""),
        ("device.attributes['d'].a", True, ""),
        ("device.attributes['d'].a.b", False, "dyn"),
        ("device.attributes['d']", False, "map(string, google.protobuf.Any)"),
        ("device.attributes['d']", True, "map(string, dyn)"),
        ("device", False, "kubernetes.DRADevice"),
        ("null", False, "null_type"),
        ("duration('1s')", False, "google.protobuf.Duration"),
    ],
)
def test_the_result_of_a_selector_is_a_bool_or_an_attribute(expression: str, lists: bool, name: str) -> None:
    text = f"must evaluate to bool or the unknown type, not {name}" if name else ""
    assert check_expression(expression, lists=lists)[0] == text


def test_a_search_in_a_list_of_attributes_has_a_bounded_cost() -> None:
    numbers = ", ".join(str(number) for number in range(500))
    once = f"[{numbers}].all(x, {HAS})"
    assert selected(once, DRAListTypeAttributes=True) == []
    [error] = selected(f"[{numbers}].all(y, {once})", DRAListTypeAttributes=True)
    assert error.endswith("Forbidden: too complex, exceeds cost limit")


def test_a_class_counts_changes_of_its_spec() -> None:
    row = deviceclasses.RESOURCE
    old = made(row, {})
    new = {**tree.copy(old), "spec": {"extendedResourceName": "example.com/gpu"}}
    row.strategy.prepare_for_update(new, old, CTX)
    assert (old["metadata"]["generation"], new["metadata"]["generation"]) == (1, 2)


def test_lists_of_values_are_dropped_unless_there_were_some() -> None:
    attributes = {"a": {"string": "x", "strings": ["y"]}, "b": {"ints": [1]}}
    obj = made(resourceslices.RESOURCE, {**SLICE, "devices": [{"name": "one", "attributes": attributes}]})
    assert obj["spec"]["devices"][0]["attributes"] == {"a": {"string": "x"}, "b": {}}
    old = tree.copy(obj)
    old["spec"]["devices"][0]["attributes"] = {"b": {"ints": [1]}}
    new = tree.copy(old)
    new["spec"]["devices"][0]["attributes"]["b"] = {"ints": [2]}
    resourceslices.RESOURCE.strategy.prepare_for_update(new, old, CTX)
    assert new["spec"]["devices"][0]["attributes"] == {"b": {"ints": [2]}}


def test_what_is_given_twice_is_quoted_as_its_caller_says() -> None:
    errors: list[FieldError] = []
    check_set([1, 1], 9, lambda value, path: None, str, Path("x"), errors, lambda value: {"Number": value})
    assert [str(error) for error in errors] == ['x[1]: Duplicate value: {"Number":1}']


def test_names_of_drivers_should_be_in_lower_case() -> None:
    for driver, wanted in (
        ("a.example.com", []),
        (
            "A.example.com",
            ['spec.driver: driver names should be lowercase; "A.example.com" contains uppercase characters'],
        ),
    ):
        obj = made(resourceslices.RESOURCE, {**SLICE, "driver": driver})
        strategy = resourceslices.RESOURCE.strategy
        assert strategy.warnings_on_create(obj, CTX) == strategy.warnings_on_update(obj, obj, CTX) == wanted


@pytest.mark.parametrize(
    ("least", "step", "most", "text"),
    [
        ("1Gi", "10Gi", "10Gi", "one step 11Gi is larger than capacity value: 10Gi"),
        ("1500m", "1", "2", "one step 2500m is larger than capacity value: 2"),
        ("1G", "1Gi", "1G", "one step 2073741824 is larger than capacity value: 1G"),
    ],
)
def test_a_step_past_the_capacity_is_told_as_a_quantity(least: str, step: str, most: str, text: str) -> None:
    policy = {"default": least, "validRange": {"min": least, "step": step}}
    device = {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": most, "requestPolicy": policy}},
    }
    path = "spec.devices[0].capacity[memory].requestPolicy.validRange.step"
    assert problems(resourceslices.RESOURCE, {**SLICE, "devices": [device]}) == [
        f'{path}: Invalid value: "{step}": {text}'
    ]


UID = "ac051fac-2ead-46d9-b8b4-4e0fbeb7455d"
NOT_NORMAL = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
    "characters"
)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (UID, ""),
        (UID.upper(), NOT_NORMAL),
        ("{" + UID + "}", NOT_NORMAL),
        ("URN:uuid:" + UID, NOT_NORMAL),
        (UID.replace("-", ""), NOT_NORMAL),
        ("", "error validating uid: invalid UUID length: 0"),
        (UID + "0", "error validating uid: invalid UUID length: 37"),
        (UID[:-1] + "x", "error validating uid: invalid UUID format"),
        ("0" * 31 + "x", "error validating uid: invalid UUID format"),
        (UID.replace("-", "")[:4] + "-" + UID.replace("-", "", 1)[4:], "error validating uid: invalid UUID format"),
        ("(" + UID + ")", "error validating uid: invalid bracketed UUID format"),
        ("urn:uid::" + UID, 'error validating uid: invalid urn prefix: "urn:uid::"'),
    ],
)
def test_the_form_of_the_id_of_a_share(share: str, text: str) -> None:
    claim = made(resourceclaims.RESOURCE_CLAIM, {"devices": {"requests": [REQUEST]}})
    claim["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    result = {"request": "r", "driver": "d", "pool": "p", "device": "x", "shareID": share}
    new = {**tree.copy(claim), "status": {"allocation": {"devices": {"results": [result]}}}}
    strategy = resourceclaims.STATUS_STRATEGY
    strategy.prepare_for_update(new, claim, CTX)
    found = [str(error) for error in strategy.validate_update(new, claim, CTX)]
    path = "status.allocation.devices.results[0].shareID"
    assert found == ([f'{path}: Invalid value: "{share}": {text}'] if text else [])


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("device", 0), ("device.driver", 63), ("device.attributes", 32), ("device.capacity", 32), ("device.attributes.@keys", 63),
        ("device.capacity.@keys", 63), ("device.attributes.@values", 32), ("device.capacity.@values", 32),
        ("device.attributes.@values.@keys", 32), ("device.capacity.@values.@keys", 32), ("device.attributes.@values.@values", 64),
        ("device.capacity.@values.@values", 64), ("device.allowMultipleAllocations", 64), ("device.driver.x", 64),
    ],
)  # fmt: skip
def test_the_largest_sizes_of_the_parts_of_a_device(path: str, most: int) -> None:
    assert _size_of(tuple(path.split(".")), STRING) == Range(0, most)
    assert _size_of(("other", *path.split(".")[1:]), STRING) is None
