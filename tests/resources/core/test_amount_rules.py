"""What amounts may be: of containers, in limit ranges and in quotas.  Each rule with its text."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.core.limitranges import RESOURCE as RANGES
from kapi.resources.core.limitranges import _ratio
from kapi.resources.core.pods import RESOURCE as PODS
from kapi.resources.core.resourcequotas import RESOURCE as QUOTAS
from tests.resources.strategy_kit import changes, made, problems, short


def of_container(**resources: Any) -> list[str]:
    container = {"name": "c", "image": "i:1", "resources": resources}
    claims = [{"name": "a", "resourceClaimName": "x"}, {"name": "b", "resourceClaimName": "y"}]
    found = problems(PODS, spec={"containers": [container], "resourceClaims": claims})
    return [text.removeprefix("spec.containers[0].resources") for text in found]


PAGES = "hugepages-2Mi"


@pytest.mark.parametrize(
    ("resources", "texts"),
    [
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}, []),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "1001m"}},
         ['.requests: Invalid value: "1001m": must be less than or equal to cpu limit of 1']),
        ({"requests": {"cpu": "-1"}}, ['.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"limits": {"cpu": "-1"}, "requests": {"cpu": "-1"}},
         ['.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
          '.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"limits": {"example.com/gpu": "2"}}, []),
        ({"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "1"}},
         ['.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2']),
        ({"requests": {"example.com/gpu": "1"}},
         [".limits: Required value: Limit must be set for non overcommitable resources"]),
        ({"limits": {"example.com/gpu": "1500m"}},  # which is the request, too
         ['.limits[example.com/gpu]: Invalid value: "1500m": must be an integer',
          '.requests[example.com/gpu]: Invalid value: "1500m": must be an integer']),
        ({"limits": {PAGES: "4Mi", "cpu": "1"}}, []),
        ({"limits": {PAGES: "4Mi"}}, [": Forbidden: HugePages require cpu or memory"]),
        ({"limits": {PAGES: "3Mi", "memory": "1"}},
         [f'.limits[{PAGES}]: Invalid value: "3Mi": 3Mi is not positive integer multiple of {PAGES}',
          f'.requests[{PAGES}]: Invalid value: "3Mi": 3Mi is not positive integer multiple of {PAGES}']),
        ({"claims": [{"name": "a", "request": "r"}, {"name": "a", "request": "s"}, {"name": "b"}]}, []),
        ({"claims": [{"name": "a"}, {"name": "a"}]}, ['.claims[1]: Duplicate value: "a"']),
        ({"claims": [{"name": "a", "request": "r"}] * 2}, ['.claims[1]: Duplicate value: "a/r"']),
        ({"claims": [{"name": "a", "request": "r"}, {"name": "a"}]}, ['.claims[1]: Duplicate value: "a"']),
        ({"claims": [{"name": "a", "request": "a.b"}]}, ['.claims[0].request: Invalid value: "a.b": must not contain dots']),
        ({"claims": [{"name": ""}]}, [".claims[0]: Required value"]),
        ({"claims": [{"name": "c"}]},
         ['.claims[0]: Not found: "c": must be one of the names in pod.spec.resourceClaims: a, b']),
    ],
)  # fmt: skip
def test_container(resources: Object, texts: list[str]) -> None:
    assert of_container(**resources) == texts


def of_range(**item: Any) -> list[str]:
    found = problems(RANGES, spec={"limits": [{"type": "Container", **item}]})
    return short(found, "spec.limits[0].")


def cpu(**amounts: str) -> Object:
    return {name: {"cpu": amount} for name, amount in amounts.items()}


@pytest.mark.parametrize(
    ("item", "texts"),
    [
        (cpu(min="1", defaultRequest="2", default="3", max="4"), []),
        (cpu(min="2", max="2"), []),
        ({"type": "X"}, ['type: Invalid value: "X": must be a standard limit type or fully qualified']),
        ({"type": "example.com/x"}, []),
        ({"type": "-"}, ['type: Invalid value: "-": <name part>']),
        ({"type": "Pod", "max": {"x": "1"}},
         ['max[x]: Invalid value: "x": must be a standard resource type or fully qualified',
          'max[x]: Invalid value: "x": must be a standard resource for containers']),
        ({"type": "PersistentVolumeClaim", "max": {"a b": "1", "storage": "1"}}, ['max[a b]: Invalid value: "a b": <name part>']),
        ({"type": "Pod", **cpu(default="1")}, ["default: Forbidden: may not be specified when `type` is 'Pod'"]),
        ({"type": "Pod", **cpu(defaultRequest="1")}, ["defaultRequest: Forbidden: may not be specified when `type` is 'Pod'"]),
        ({"type": "PersistentVolumeClaim", "min": {"storage": "1"}}, []),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "1"}}, []),
        ({"type": "PersistentVolumeClaim"},
         ["limits: Required value: either minimum or maximum storage value is required, but neither was provided"]),
        ({"type": "Pod", **cpu(min="2", max="1")}, ['min[cpu]: Invalid value: "2": min value 2 is greater than max value 1']),
        (cpu(min="2", defaultRequest="1"),
         ['defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1']),
        (cpu(defaultRequest="2", default="1"),
         ['defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than default limit value 1']),
        (cpu(defaultRequest="3", default="4", max="2"),
         ['defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than max value 2',
          'default[cpu]: Invalid value: "2": default value 4 is greater than max value 2']),
        (cpu(min="2", default="1", defaultRequest="2"),
         ['defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than default limit value 1',
          'default[cpu]: Invalid value: "2": min value 2 is greater than default value 1']),
        (cpu(maxLimitRequestRatio="1"), []),
        (cpu(maxLimitRequestRatio="900m"), ['maxLimitRequestRatio[cpu]: Invalid value: "900m": ratio 900m is less than 1']),
        (cpu(min="1", max="2", maxLimitRequestRatio="2"), []),
        (cpu(min="1", max="2", maxLimitRequestRatio="2100m"),
         ['maxLimitRequestRatio[cpu]: Invalid value: "2100m": ratio 2100m is greater than max/min = 2.000000']),
        (cpu(min="1", max="1e100", maxLimitRequestRatio="2"),
         ['maxLimitRequestRatio[cpu]: Invalid value: "2": ratio 2 is greater than max/min = 0.000000']),
        (cpu(min="1", max="2", maxLimitRequestRatio="1e100"), []),
        ({"default": {"example.com/a": "2"}, "defaultRequest": {"example.com/a": "1"}},
         ['defaultRequest[example.com/a]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in '
          "example.com/a"]),
    ],
)  # fmt: skip
def test_limit_range(item: Object, texts: list[str]) -> None:
    assert of_range(**item) == texts


def test_kinds_of_a_limit_range_are_different() -> None:
    found = problems(RANGES, spec={"limits": [{"type": "Pod"}, {"type": "Container"}, {"type": "Pod"}]})
    assert found == ['spec.limits[2].type: Duplicate value: "Pod"']


def of_quota(hard: Object | None = None, **spec: Any) -> list[str]:
    found = problems(QUOTAS, spec={"hard": hard or {"pods": "1"}, **spec})
    return short(found, "spec.")


def term(scope: str, operator: str = "Exists", **more: Any) -> Object:
    return {"scopeSelector": {"matchExpressions": [{"scopeName": scope, "operator": operator, **more}]}}


HERE = "scopeSelector.matchExpressions"


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"hard": {"pods": "-1"}}, ['hard[pods]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"hard": {"x": "1"}},
         ['hard[x]: Invalid value: "x": must be a standard resource type or fully qualified',
          'hard[x]: Invalid value: "x": must be a standard resource for quota']),
        ({"hard": {"a b/c": "1"}}, ['hard[a b/c]: Invalid value: "a b/c": prefix part <subdomain>']),
        ({"scopes": ["BestEffort", "Terminating"]}, []),
        ({"scopes": ["X"]}, ['scopes: Invalid value: ["X"]: unsupported scope']),
        ({"scopes": ["BestEffort", "NotBestEffort"]},
         ['scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes']),
        ({"scopes": ["Terminating", "NotTerminating"]},
         ['scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes']),
        ({"scopes": ["BestEffort"], "hard": {"cpu": "1"}},
         ['scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource']),
        ({"scopes": ["NotBestEffort"], "hard": {"cpu": "1"}}, []),
        ({"scopes": ["Terminating"], "hard": {"services": "1"}},
         ['scopes: Invalid value: ["Terminating"]: unsupported scope applied to resource']),
        (term("BestEffort"), []),
        ({"scopeSelector": {"matchExpressions": [
            {"scopeName": scope, "operator": "Exists"} for scope in ("BestEffort", "NotBestEffort")]}},
         [f"{HERE}: Invalid value: null: conflicting scopes"]),
        (term("PriorityClass", "In", values=["a"]), []),
        (term("VolumeAttributesClass", "In", values=["a"]) | {"hard": {"requests.storage": "1"}}, []),
        (term("PriorityClass", "In"),
         [f"{HERE}.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"]),
        (term("PriorityClass", "DoesNotExist", values=["a"]),
         [f"{HERE}.values: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope "
          "selector"]),
        (term("PriorityClass", "X"), [f'{HERE}.operator: Invalid value: "X": not a valid selector operator']),
        (term("X"), [f'{HERE}.scopeName: Invalid value: "X": unsupported scope']),
    ],
)  # fmt: skip
def test_quota(spec: Object, texts: list[str]) -> None:
    assert of_quota(**spec) == texts


def test_scopes_in_selectors() -> None:
    (found,) = of_quota(**term("Terminating", "In", values=["a"]))
    assert found.startswith(f"{HERE}.operator: Invalid value: \"In\": must be 'Exists' when scope is any of ")
    (found,) = of_quota(hard={"services": "1"}, **term("PriorityClass"))
    assert found.startswith(f"{HERE}: Invalid value: ") and found.endswith(": unsupported scope applied to resource")


def test_scopes_stay() -> None:
    old = made(QUOTAS, spec={"hard": {"pods": "1"}, "scopes": ["BestEffort", "Terminating"]})
    assert changes(QUOTAS, old, spec={"hard": {"pods": "2"}, "scopes": ["Terminating", "BestEffort"]}) == []
    assert changes(QUOTAS, old, spec={"hard": {"pods": "1"}, "scopes": ["BestEffort"]}) == [
        'spec.scopes: Invalid value: ["BestEffort"]: field is immutable'
    ]


@pytest.mark.parametrize("part", ["hard", "used"])
def test_amounts_in_the_status_of_a_quota(part: str) -> None:
    old = made(QUOTAS, spec={"hard": {"pods": "1"}})
    found = changes(QUOTAS, old, subresource="status", status={part: {"pods": "-1"}})
    assert found == [f'status.{part}[pods]: Invalid value: "-1": must be greater than or equal to 0']


@pytest.mark.parametrize(
    ("ratio", "low", "high", "text"),
    [
        ("2", "1", "2", None), ("1999m", "1", "2", None), ("2001m", "1", "2", "2.000000"), ("3", "1m", "2m", "2.000000"),
        ("3", "0", "2", None), ("2", "2", "1", "0.500000"), ("2", "3", "4", "1.333333"), ("3", "1", "0", "0.000000"),
        # in whole units where thousandths do not fit into 64 bits
        ("1500m", "9000P", "9000P", "1.000000"), ("900m", "9223372036854776", "9223372036854776", None),
        ("900m", "9223372036854774", "9223372036854774", None), ("1100m", "9223372036854774", "9223372036854774", "1.000000"),
    ],
)  # fmt: skip
def test_the_ratio_of_a_limit_range(ratio: str, low: str, high: str, text: str | None) -> None:
    assert _ratio(ratio, low, high) == text
