"""What a controller computes from objects of clients grows linearly with them, and holds the thread no longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kapi.controllers.clusterroleaggregation import aggregated_rules
from kapi.controllers.flowschemas import condition_patch
from kapi.controllers.namespaces import Remains, conditions_after
from kapi.controllers.resourcequota import corrected, limits_of, resources_of
from kapi.machinery.tree import Object
from kapi.schema.structural.celtypes import declare
from kapi.servers.apiextensions.names import GroupNames, accept_names
from tests.growth.counting import lines, steepest, stretches

ENTRIES = 200
LINES = 1600  # that may run between two checkpoints
FACTOR = 6.0  # for four times as many entries


Work = Callable[[], None]


def rule(number: int) -> Object:
    return {"verbs": ["get"], "apiGroups": [""], "resources": [f"r{number}"]}


def role(name: str, count: int = 0, **more: Any) -> Object:
    return {"metadata": {"name": name, "labels": {"in": "1"}}, "rules": [rule(n) for n in range(count)], **more}


def selecting(*selectors: Object) -> Object:
    return role("total", aggregationRule={"clusterRoleSelectors": list(selectors)})


def many_rules(count: int) -> Work:
    total, fed = selecting({"matchLabels": {"in": "1"}}), [role("a", count), role("b", count)]
    return lambda: aggregates(total, fed, count)


def many_selectors(count: int) -> Work:
    total, fed = selecting(*({"matchLabels": {"in": "1"}} for _ in range(count))), [role("a", 100)]
    return lambda: aggregates(total, fed, 100)


def many_selectors_of_none(count: int) -> Work:
    total, fed = selecting(*({"matchLabels": {f"k{n}": "1"}} for n in range(count))), [role("a", 1), role("b", 1)]
    return lambda: aggregates(total, fed, 0)


def many_requirements(count: int) -> Work:
    expressions = [{"key": f"k{n}", "operator": "DoesNotExist"} for n in range(count)]
    total, fed = selecting({"matchExpressions": expressions}), [role("a", 1), role("b", 1)]
    return lambda: aggregates(total, fed, 1)


def aggregates(total: Object, fed: list[Object], count: int) -> None:
    assert len(aggregated_rules(total, [total, *fed]) or ()) == count


def many_limits(count: int) -> Work:
    quota: Object = {"spec": {"hard": {f"count/r{n}.example.com": "1" for n in range(count)}}}

    def work() -> None:
        found = corrected(quota, {resource: () for resource in resources_of(limits_of(quota))}, 0.0)
        assert found is not None
        assert len(found["status"]["used"]) == count

    return work


def many_conditions(count: int) -> Work:
    conditions = [{"type": f"t{n}", "status": "True"} for n in range(count)]

    def work() -> None:
        assert condition_patch({"spec": {}, "status": {"conditions": conditions}}, {"a"}, "now") is not None
        assert conditions_after({"status": {"conditions": conditions}}, Remains(), "now") is not None

    return work


def many_names(count: int) -> Work:
    """Of a definition that had as many."""
    names = {"plural": "foos", "kind": "Foo", "shortNames": [f"n{n}" for n in range(count)]}
    held = {**names, "shortNames": [f"o{n}" for n in range(count)]}
    crd: Object = {"metadata": {"name": "foos.g"}, "spec": {"names": names}, "status": {"acceptedNames": held}}

    def work() -> None:
        crd["status"] = {"acceptedNames": held}
        assert accept_names(crd, GroupNames(), "now")

    return work


def many_properties(count: int) -> Work:
    schema: Object = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(count)}}

    def work() -> None:
        found = declare(schema)
        assert found is not None
        assert len(found.fields) == count

    return work


WORK = (
    many_rules,
    many_selectors,
    many_selectors_of_none,
    many_requirements,
    many_limits,
    many_conditions,
    many_names,
    many_properties,
)


@pytest.mark.parametrize("work", WORK)
def test_it_grows_linearly(work: Callable[[int], Work]) -> None:
    few, many = lines(work(ENTRIES)), lines(work(4 * ENTRIES))
    factor, where = steepest(few, many, 4 * ENTRIES)
    assert factor < FACTOR, where


@pytest.mark.parametrize("work", WORK)
def test_it_has_checkpoints(work: Callable[[int], Work]) -> None:
    found = stretches(work(4 * ENTRIES))
    assert found.longest < LINES, found.where
