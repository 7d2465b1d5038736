"""What claims, their templates, their status and classes may say: each rule with its text."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery import tree
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import StrategyContext
from kapi.resources.resource import deviceclasses, devicetaintrules, resourceclaims
from kapi.resources.resource.resourceclaims import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.resources.strategy_kit import CTX, changes, made, problems, short

EXACTLY: Object = {"deviceClassName": "gpu"}
REQUEST: Object = {"name": "r", "exactly": EXACTLY}
CHOICE: Object = {"name": "s", "firstAvailable": [{"name": "a", **EXACTLY}, {"name": "b", **EXACTLY}]}
OPAQUE: Object = {"opaque": {"driver": "d", "parameters": {"a": 1}}}


def selectors(count: int) -> list[Object]:
    return [{"cel": {"expression": "true"}}] * count


def of_claim(**devices: Any) -> list[str]:
    found = problems(RESOURCE_CLAIM, spec={"devices": {"requests": [REQUEST, CHOICE], **devices}})
    template = problems(RESOURCE_CLAIM_TEMPLATE, spec={"spec": {"devices": {"requests": [REQUEST, CHOICE], **devices}}})
    assert [text.replace("spec.spec.", "spec.", 1) for text in template] == found
    return short(found, "spec.devices.")


@pytest.mark.parametrize(
    ("devices", "texts"),
    [
        ({}, []),
        ({"requests": [{"name": f"r{i}", "exactly": EXACTLY} for i in range(32)]}, []),
        ({"requests": [{"name": f"r{i}", "exactly": EXACTLY} for i in range(33)]}, [
             "requests: Too many: 33: must have at most 32 items",
         ]),
        ({"constraints": [{"matchAttribute": "a.b/c"}] * 32}, []),
        ({"constraints": [{"matchAttribute": "a.b/c"}] * 33}, [
             "constraints: Too many: 33: must have at most 32 items",
         ]),
        ({"constraints": [{"requests": ["r", "s", "s/b"], "distinctAttribute": "a.b/c"}]}, []),
        ({"constraints": [{"requests": ["r/a", "s/c", "s/a/b", "t", "S"], "matchAttribute": "a.b/c"}]}, [
             'constraints[0].requests[0]: Invalid value: "r/a": must be the name of a request in the claim or the '
             "name of a request and a subrequest separated by '/'",
             'constraints[0].requests[1]: Invalid value: "s/c": must be the name of a request in the claim or the '
             "name of a request and a subrequest separated by '/'",
             'constraints[0].requests[2]: Invalid value: "s/a/b": must be the name of a request in the claim or the '
             "name of a request and a subrequest separated by '/'",
             'constraints[0].requests[3]: Invalid value: "t": must be the name of a request in the claim or the name '
             "of a request and a subrequest separated by '/'",
             'constraints[0].requests[4]: Invalid value: "S": <label>',
             'constraints[0].requests[4]: Invalid value: "S": must be the name of a request in the claim or the name '
             "of a request and a subrequest separated by '/'",
         ]),
        ({"constraints": [{"requests": ["r", "r"], "matchAttribute": "c"}, {"distinctAttribute": "d"}]}, [
             'constraints[0].requests[1]: Duplicate value: "r"',
             'constraints[0].matchAttribute: Invalid value: "c": a fully qualified name must be a domain and a name '
             "separated by a slash",
             'constraints[1].distinctAttribute: Invalid value: "d": a fully qualified name must be a domain and a '
             "name separated by a slash",
         ]),
        ({"constraints": [{"matchAttribute": "a/b/c"}, {"matchAttribute": "/c"}, {"matchAttribute": "a/"}, {}]}, [
             'constraints[1].matchAttribute: Invalid value: "": the domain must not be empty',
             'constraints[2].matchAttribute: Invalid value: "": the name must not be empty',
             'constraints[3]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but '
             "multiple fields are set",
         ]),
        ({"constraints": [{"matchAttribute": "A_/c"}]}, ['constraints[0].matchAttribute: Invalid value: "A_": <subdomain>']),
        ({"config": [OPAQUE] * 32}, []),
        ({"config": [OPAQUE] * 33}, ["config: Too many: 33: must have at most 32 items"]),
        ({"config": [{**OPAQUE, "requests": ["t"]}, {"opaque": {}}]}, [
             'config[0].requests[0]: Invalid value: "t": must be the name of a request in the claim or the name of a '
             "request and a subrequest separated by '/'",
             "config[1].opaque.driver: Required value",
             "config[1].opaque.parameters: Required value",
         ]),
        ({"config": [{"opaque": {"driver": "d", "parameters": [1]}}, {"opaque": {"driver": "d", "parameters": "a"}}]}, [
             'config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object',
             'config[1].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object',
         ]),
    ],
)  # fmt: skip
def test_claim(devices: Object, texts: list[str]) -> None:
    assert of_claim(**devices) == texts


@pytest.mark.parametrize(
    ("request_", "texts"),
    [
        ({"name": "R"}, ['requests[0].name: Invalid value: "R": <label>']),
        ({"exactly": None}, [
             "requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
         ]),
        ({"firstAvailable": [{"name": "a", **EXACTLY}]}, [
             "requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but "
             "multiple fields are set",
         ]),
        ({"exactly": None, "firstAvailable": [{"name": f"a{i}", **EXACTLY} for i in range(8)]}, []),
        ({"exactly": None, "firstAvailable": [{"name": f"a{i}", **EXACTLY} for i in range(9)]}, [
             "requests[0].firstAvailable: Too many: 9: must have at most 8 items",
         ]),
        ({"exactly": None, "firstAvailable": [{"name": "a", **EXACTLY}, {"name": "a"}, {"name": "A", **EXACTLY}]}, [
             "requests[0].firstAvailable[1].deviceClassName: Required value",
             'requests[0].firstAvailable[2].name: Invalid value: "A": <label>',
             'requests[0].firstAvailable[1]: Duplicate value: "a"',
         ]),
    ],
)  # fmt: skip
def test_request(request_: Object, texts: list[str]) -> None:
    request = {key: value for key, value in {**REQUEST, **request_}.items() if value is not None}
    assert of_claim(requests=[request]) == texts


@pytest.mark.parametrize(
    ("wish", "texts"),
    [
        ({"deviceClassName": "", "count": 1}, ["deviceClassName: Required value"]),
        ({"deviceClassName": "A"}, ['deviceClassName: Invalid value: "A": <subdomain>']),
        ({"count": -1}, ["count: Invalid value: -1: must be greater than zero"]),
        ({"allocationMode": "All"}, []),
        ({"allocationMode": "All", "count": -1}, [
             "count: Invalid value: -1: must not be specified when allocationMode is 'All'",
         ]),
        ({"allocationMode": "Some", "count": 1}, [
             'allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"',
         ]),
        ({"selectors": selectors(32)}, []),
        ({"selectors": selectors(33)}, ["selectors: Too many: 33: must have at most 32 items"]),
        ({"selectors": [{}, {"cel": {"expression": "1"}}, {"cel": {"expression": "x" * 10_241}}]}, [
             "selectors[0].cel: Required value",
             'selectors[1].cel.expression: Invalid value: "1": must evaluate to bool or the unknown type, not int',
             "selectors[2].cel.expression: Too long: may not be more than 10240 bytes",
         ]),
        ({"selectors": [{"cel": {"expression": "true" + " " * 10_236}}]}, []),
        ({"tolerations": [{"key": "k", "value": "v", "effect": "None"}, {"operator": "Exists"}]}, []),
        ({"tolerations": [{"key": "-", "value": "-"}, {"operator": "Exists", "value": "v", "effect": "x"}]}, [
             'tolerations[0].key: Invalid value: "-": <name part>',
             'tolerations[0].value: Invalid value: "-": <label value>',
             'tolerations[1].value: Invalid value: "v": must be empty for operator `Exists`',
             'tolerations[1].effect: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None"',
         ]),
        ({"tolerations": [{"operator": "In"}, {"operator": "Equal", "effect": "NoSchedule"}]}, [
             'tolerations[0].operator: Unsupported value: "In": supported values: "Equal", "Exists"',
         ]),
    ],
)  # fmt: skip
def test_what_is_asked_for(wish: Object, texts: list[str]) -> None:
    found = of_claim(requests=[{"name": "r", "exactly": {**EXACTLY, **wish}}])
    assert short(found, "requests[0].exactly.") == texts
    choice = of_claim(requests=[{"name": "r", "firstAvailable": [{"name": "a", **EXACTLY, **wish}]}])
    assert short(choice, "requests[0].firstAvailable[0].") == texts


class Namespaces:
    """A lister of one namespace."""

    def __init__(self, labels: Object | None) -> None:
        self._found = None if labels is None else {"metadata": {"name": "default", "labels": labels}}

    def get(self, namespace: str, name: str) -> Object | None:
        return self._found if (namespace, name) == ("", "default") else None


LABEL = (
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
)
MISSING = 'Internal error: could not retrieve namespace to verify admin access: namespaces "default" not found'


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({"resource.kubernetes.io/admin-access": "true"}, ""),
        ({"resource.kubernetes.io/admin-access": "yes"}, f"Forbidden: {LABEL}"),
        ({}, f"Forbidden: {LABEL}"),
        (None, MISSING),
    ],
)
def test_access_as_administrator_needs_a_label_of_the_namespace(labels: Object | None, text: str) -> None:
    ctx = StrategyContext("default", "a", now=CTX.now, listers={GroupResource("", "namespaces"): Namespaces(labels)})
    spec = {"devices": {"requests": [REQUEST, {"name": "t", "exactly": {**EXACTLY, "adminAccess": True}}] * 2}}
    place = "spec.devices.requests[1].adminAccess"
    for row, given in ((RESOURCE_CLAIM, spec), (RESOURCE_CLAIM_TEMPLATE, {"spec": spec})):
        found = [each for each in problems(row, ctx, spec=given) if "Duplicate" not in each]
        assert found == ([f"{place}: {text}"] if text else [])
    without = {"devices": {"requests": [REQUEST]}}
    assert problems(RESOURCE_CLAIM, ctx, spec=without) == []
    old = made(RESOURCE_CLAIM, spec=without)
    sub = RESOURCE_CLAIM.subresource("status")
    assert sub is not None and sub.strategy is not None
    for admin, wanted in ((True, text), (None, "")):
        new = {**old, "status": {"allocation": {"devices": {"results": [result(adminAccess=admin)]}}}}
        found = [str(error) for error in sub.strategy.validate_update(new, old, ctx)]
        place = "status.allocation.devices.results[0].adminAccess"
        assert [each for each in found if "adminAccess" in each] == ([f"{place}: {wanted}"] if wanted else [])


def result(name: str = "x", **more: Any) -> Object:
    return {"request": "r", "driver": "d", "pool": "p", "device": name, **more}


def status_change(status: Object, before: Object, meta: Object | None = None) -> list[str]:
    old = made(RESOURCE_CLAIM, spec={"devices": {"requests": [REQUEST, CHOICE]}}, metadata=meta or {})
    found = changes(RESOURCE_CLAIM, {**old, "status": before}, subresource="status", status=status)
    return short(found, "status.")


def allocation(**more: Any) -> Object:
    return {"allocation": {"devices": {"results": [result()], **more}}}


SHARE = "12345678-1234-1234-1234-1234567890ab"
CONFIG: Object = {"source": "FromClass", **OPAQUE}


@pytest.mark.parametrize(
    ("status", "texts"),
    [
        (allocation(), []),
        (allocation(results=[result(f"x{i}") for i in range(32)]), []),
        (allocation(results=[result(f"x{i}") for i in range(33)]), [
             "allocation.devices.results: Too many: 33: must have at most 32 items",
         ]),
        (allocation(results=[{}, result("X", request="t", driver="D/", pool="P")]), [
             'allocation.devices.results[0].request: Invalid value: "": <label>',
             'allocation.devices.results[0].request: Invalid value: "": must be the name of a request in the claim or '
             "the name of a request and a subrequest separated by '/'",
             "allocation.devices.results[0].driver: Required value",
             "allocation.devices.results[0].pool: Required value",
             'allocation.devices.results[0].device: Invalid value: "": <label>',
             'allocation.devices.results[1].request: Invalid value: "t": must be the name of a request in the claim '
             "or the name of a request and a subrequest separated by '/'",
             'allocation.devices.results[1].driver: Invalid value: "D/": <subdomain>',
             'allocation.devices.results[1].pool: Invalid value: "P": <subdomain>',
             'allocation.devices.results[1].device: Invalid value: "X": <label>',
         ]),
        (allocation(results=[result(request="s/b", shareID=SHARE)]), []),
        (allocation(results=[result(shareID=SHARE.upper()), result(shareID="1")]), [
             'allocation.devices.results[0].shareID: Invalid value: "12345678-1234-1234-1234-1234567890AB": uid must '
             "be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
             "characters",
             'allocation.devices.results[1].shareID: Invalid value: "1": error validating uid: invalid UUID length: 1',
         ]),
        (allocation(results=[result(bindingConditions=["a"])]), [
             "allocation.devices.results[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions "
             "are required to use bindingConditions",
         ]),
        (allocation(config=[CONFIG] * 64), []),
        (allocation(config=[CONFIG] * 65), ["allocation.devices.config: Too many: 65: must have at most 64 items"]),
        (allocation(config=[{}, {**CONFIG, "source": "Odd", "requests": ["t"]}, {**CONFIG, "source": "FromClaim"}]), [
             "allocation.devices.config[0].source: Required value",
             "allocation.devices.config[0].opaque: Required value",
             'allocation.devices.config[1].source: Unsupported value: "Odd": supported values: "FromClaim", "FromClass"',
             'allocation.devices.config[1].requests[0]: Invalid value: "t": must be the name of a request in the '
             "claim or the name of a request and a subrequest separated by '/'",
         ]),
        ({"allocation": {"nodeSelector": {"nodeSelectorTerms": []}}}, [
             "allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
         ]),
        ({"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}, [
             "reservedFor: Forbidden: may not be specified when `allocated` is not set",
         ]),
    ],
)  # fmt: skip
def test_allocation(status: Object, texts: list[str]) -> None:
    assert status_change(status, {}) == texts


@pytest.mark.parametrize(
    ("users", "texts"),
    [
        ([{"resource": "pods", "name": "p", "uid": f"u{i}"} for i in range(256)], []),
        ([{"resource": "pods", "name": "p", "uid": f"u{i}"} for i in range(257)], [
             "reservedFor: Too many: 257: must have at most 256 items",
         ]),
        ([{"resource": "pods", "name": "p", "uid": "u"}, {"resource": "pods", "name": "q", "uid": "u"}, {}], [
             "reservedFor[2].resource: Required value",
             "reservedFor[2].name: Required value",
             "reservedFor[2].uid: Required value",
             'reservedFor[1]: Duplicate value: "u"',
         ]),
    ],
)  # fmt: skip
def test_users(users: list[Object], texts: list[str]) -> None:
    assert status_change({**allocation(), "reservedFor": users}, allocation()) == texts


def test_a_claim_that_is_deleted_gets_no_new_users() -> None:
    old, new = ({"resource": "pods", "name": name, "uid": name} for name in "pq")
    deleted = {"deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    before = {**allocation(), "reservedFor": [old]}
    detail = "Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
    assert status_change(before, before, deleted) == []
    assert status_change({**allocation(), "reservedFor": [new, old]}, before) == []
    assert status_change({**allocation(), "reservedFor": [new, old]}, before, deleted) == [f"reservedFor: {detail}"]


def report(**more: Any) -> Object:
    return {"driver": "d", "pool": "p", "device": "x", **more}


def condition(name: str) -> Object:
    return {"type": name, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("devices", "texts"),
    [
        ([report()], []),
        ([report(), report()], ['devices[1]: Duplicate value: {"Driver":"d","Pool":"p","Device":"x","ShareID":""}']),
        ([report(device="y")], [
             'devices[0]: Invalid value: {"Driver":"d","Pool":"p","Device":"y","ShareID":""}: must be an allocated '
             "device in the claim",
         ]),
        ([report(shareID=SHARE)], [
             "devices[0]: Invalid value: "
             '{"Driver":"d","Pool":"p","Device":"x","ShareID":"12345678-1234-1234-1234-1234567890ab"}: must be an '
             "allocated device in the claim",
         ]),
        ([report(driver="D/", pool="", device="X", shareID="1")], [
             'devices[0].driver: Invalid value: "D/": <subdomain>',
             "devices[0].pool: Required value",
             'devices[0].device: Invalid value: "X": <label>',
             'devices[0].shareID: Invalid value: "1": error validating uid: invalid UUID length: 1',
             'devices[0]: Invalid value: {"Driver":"D/","Pool":"","Device":"X","ShareID":"1"}: must be an allocated '
             "device in the claim",
         ]),
        ([report(conditions=[condition(f"C{i}") for i in range(8)])], []),
        ([report(conditions=[condition(f"C{i}") for i in range(9)])], [
             "devices[0].conditions: Too many: 9: must have at most 8 items",
         ]),
        ([report(conditions=[{**condition("C"), "reason": ""}])], ["devices[0].conditions[0].reason: Required value"]),
        ([report(data={"a": "x" * 10_232})], []),
        ([report(data={"a": "x" * 10_233})], ["devices[0].data: Too long: may not be more than 10240 bytes"]),
        ([report(data=1)], ['devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object']),
        ([report(networkData={"interfaceName": "i" * 256, "hardwareAddress": "h" * 128})], []),
        ([report(networkData={"interfaceName": "i" * 257, "hardwareAddress": "h" * 129})], [
             "devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes",
             "devices[0].networkData.hardwareAddress: Too long: may not be more than 128 bytes",
         ]),
        ([report(networkData={"ips": [f"10.0.0.{i}/8" for i in range(16)]})], []),
        ([report(networkData={"ips": [f"10.0.0.{i}/8" for i in range(17)]})], [
             "devices[0].networkData.ips: Too many: 17: must have at most 16 items",
         ]),
        ([report(networkData={"ips": ["10.0.0.1/8", "10.0.0.1/8", "10.0.0.1"]})], [
             'devices[0].networkData.ips[2]: Invalid value: "10.0.0.1": must be a valid address in CIDR form, (e.g. '
             "10.9.8.7/24 or 2001:db8::1/64)",
             'devices[0].networkData.ips[1]: Duplicate value: "10.0.0.1/8"',
         ]),
    ],
)  # fmt: skip
def test_reports_about_devices(devices: list[Object], texts: list[str]) -> None:
    assert status_change({**allocation(), "devices": devices}, allocation()) == texts


def test_specs_do_not_change() -> None:
    spec = {"devices": {"requests": [REQUEST]}}
    exactly = {**EXACTLY, "allocationMode": "ExactCount", "count": 2}
    other = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    for row, given, changed in (
        (RESOURCE_CLAIM, spec, other),
        (RESOURCE_CLAIM_TEMPLATE, {"spec": spec}, {"spec": other}),
    ):
        old = made(row, spec=given)
        assert changes(row, old) == []
        [text] = changes(row, old, spec=changed)
        assert text.startswith("spec: Invalid value: {") and text.endswith(": field is immutable")


@pytest.mark.parametrize(
    ("meta", "texts"),
    [
        ({"labels": {"a": "b"}, "annotations": {"a": "b"}}, []),
        ({"labels": {"-": "b"}}, ['labels: Invalid value: "-": <name part>']),
        ({"name": "n"}, ["name: Forbidden: cannot be set"]),
        (
            {"generation": 0, "deletionGracePeriodSeconds": 0},
            ["deletionGracePeriodSeconds: Forbidden: cannot be set"],
        ),
    ],
)  # fmt: skip
def test_metadata_of_a_template(meta: Object, texts: list[str]) -> None:
    found = problems(RESOURCE_CLAIM_TEMPLATE, spec={"metadata": meta, "spec": {"devices": {"requests": [REQUEST]}}})
    assert short(found, "spec.metadata.") == texts


def cells(status: Object, **meta: Any) -> str:
    assert RESOURCE_CLAIM.table is not None
    name, state, age = RESOURCE_CLAIM.table.cells({"metadata": {"name": "a", **meta}, "status": status}, 0)
    return str(state)


def test_the_state_that_is_printed() -> None:
    going, users = {"deletionTimestamp": "2024-01-01T00:00:00Z"}, [{"uid": "u"}]
    assert [cells({}), cells({}, **going)] == ["pending", "deleted"]
    assert cells({"allocation": {}}) == "allocated"
    assert cells({"allocation": {}, "reservedFor": users}) == "allocated,reserved"
    assert cells({"allocation": {}, "reservedFor": users}, **going) == "deleted,allocated,reserved"


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"selectors": selectors(32), "config": [OPAQUE] * 32, "extendedResourceName": "example.com/gpu"}, []),
        ({"selectors": selectors(33), "config": [OPAQUE] * 33, "extendedResourceName": "cpu"}, [
             "selectors: Too many: 33: must have at most 32 items",
             "config: Too many: 33: must have at most 32 items",
             'extendedResourceName: Invalid value: "cpu": must be a valid extended resource name',
         ]),
        ({"selectors": [{}], "config": [{}], "extendedResourceName": ""}, [
             "selectors[0].cel: Required value",
             "config[0].opaque: Required value",
             'extendedResourceName: Invalid value: "": must be a valid extended resource name',
         ]),
    ],
)  # fmt: skip
def test_class(spec: Object, texts: list[str]) -> None:
    assert short(problems(deviceclasses.RESOURCE, spec=spec), "spec.") == texts


TAINT: Object = {"key": "k", "value": "v", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"taint": TAINT}, []),
        ({}, [
             'taint.key: Invalid value: "": name part must be non-empty',
             'taint.key: Invalid value: "": <name part>',
             "taint.effect: Required value",
         ]),
        ({"deviceSelector": {"driver": "d", "pool": "p", "device": "x"}, "taint": TAINT}, []),
        ({"deviceSelector": {"driver": "", "pool": "", "device": ""}, "taint": TAINT}, [
             "deviceSelector.driver: Required value",
             "deviceSelector.pool: Required value",
             'deviceSelector.device: Invalid value: "": <label>',
         ]),
        ({"deviceSelector": {"driver": "D_", "pool": "P", "device": "X"}, "taint": {**TAINT, "effect": "Odd"}}, [
             'deviceSelector.driver: Invalid value: "D_": <subdomain>',
             'deviceSelector.pool: Invalid value: "P": <subdomain>',
             'deviceSelector.device: Invalid value: "X": <label>',
             'taint.effect: Unsupported value: "Odd": supported values: "NoExecute", "NoSchedule", "None"',
         ]),
    ],
)  # fmt: skip
def test_taint_rule(spec: Object, texts: list[str]) -> None:
    assert short(problems(devicetaintrules.RESOURCE, spec=spec), "spec.") == texts


def test_a_taint_rule_keeps_its_time_and_an_effect_it_had() -> None:
    row = devicetaintrules.RESOURCE
    obj = made(row, spec={"taint": TAINT})
    assert obj["spec"]["taint"]["timeAdded"] == CTX.now and obj["metadata"]["generation"] == 1
    timed = {**TAINT, "timeAdded": "2020-01-01T00:00:00Z"}
    assert made(row, spec={"taint": timed})["spec"]["taint"] == timed
    old = {**obj, "spec": {"taint": {**timed, "effect": "Old"}}}
    assert changes(row, old) == []
    [text] = changes(row, old, spec={"taint": {**timed, "effect": "New"}})
    assert text.startswith('spec.taint.effect: Unsupported value: "New"')


EARLY, LATE = "2020-01-01T00:00:00Z", "2020-01-01T00:00:05Z"


@pytest.mark.parametrize(
    ("change", "time", "generation"),
    [
        ({}, EARLY, 1),
        ({"value": "w"}, EARLY, 2),
        ({"key": "example.com/other"}, EARLY, 2),
        ({"timeAdded": LATE}, LATE, 2),
        ({"effect": "None"}, CTX.now, 2),
        ({"effect": "None", "timeAdded": LATE}, LATE, 2),
        ({"effect": "None", "timeAdded": None}, CTX.now, 2),
    ],
)
def test_a_new_effect_of_a_taint_rule_begins_now(change: Object, time: str, generation: int) -> None:
    row = devicetaintrules.RESOURCE
    old = made(row, spec={"taint": {**TAINT, "effect": "NoExecute", "timeAdded": EARLY}})
    new = tree.copy(old)
    new["spec"]["taint"].update(change)
    row.strategy.prepare_for_update(new, old, CTX)
    assert (new["spec"]["taint"]["timeAdded"], new["metadata"]["generation"]) == (time, generation)


@pytest.mark.parametrize(
    ("count", "texts"),
    [
        (8, []),
        (
            9,
            [
                "status.conditions: Too many: 9: must have at most 8 items",
            ],
        ),
    ],
)
def test_conditions_of_a_taint_rule(count: int, texts: list[str]) -> None:
    row = devicetaintrules.RESOURCE
    status = {"conditions": [condition(f"C{i}") for i in range(count)]}
    old = made(row, spec={"taint": TAINT})
    assert changes(row, old, subresource="status", status=status) == texts
    status["conditions"][0]["reason"] = ""
    found = changes(row, old, subresource="status", status=status)
    assert found == ["status.conditions[0].reason: Required value", *texts]


def test_defaults_of_requests() -> None:
    wish = {"tolerations": [{"key": "a"}, {"key": "b", "operator": "Exists"}]}
    spec = made(RESOURCE_CLAIM, spec={"devices": {"requests": [
        {"name": "r", "exactly": {**wish, "allocationMode": "All"}}, {"name": "s", "firstAvailable": [{"name": "a", "count": 2}]},
    ]}})["spec"]  # fmt: skip
    tolerations = [{"key": "a", "operator": "Equal"}, {"key": "b", "operator": "Exists"}]
    first, second = spec["devices"]["requests"]
    assert first["exactly"] == {"allocationMode": "All", "tolerations": tolerations}
    assert second["firstAvailable"] == [{"name": "a", "allocationMode": "ExactCount", "count": 2}]
    template = made(RESOURCE_CLAIM_TEMPLATE, spec={"spec": {"devices": {"requests": [tree.copy(REQUEST)]}}})
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1


def test_tolerations_of_results_have_the_default_operator() -> None:
    tolerations = [{"key": "a"}, {"key": "b", "operator": "Exists"}]
    claim = {"metadata": {"name": "a"}, "status": allocation(results=[result(tolerations=tolerations)])}
    resourceclaims.STATUS_STRATEGY.default(claim)
    assert [one["operator"] for one in tolerations] == ["Equal", "Exists"]


def test_labels_in_a_write_of_the_status_belong_to_nobody() -> None:
    """Since 1.36 (kubernetes/kubernetes#137689); their writer owned them before, though they are not written."""
    api: MemoryAPI = succeed(MemoryAPI.started(rows=BUILT_IN))
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    where = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    made = api.ask("POST", where, {"metadata": {"name": "c", "annotations": {"x": ""}}, "spec": {}}).json
    made["metadata"]["labels"] = {"a": "b"}
    metadata = api.ask("PUT", f"{where}/c/status", made).json["metadata"]
    assert "labels" not in metadata
    assert all("f:labels" not in entry["fieldsV1"]["f:metadata"] for entry in metadata["managedFields"])
