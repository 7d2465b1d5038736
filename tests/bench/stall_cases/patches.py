"""Patches of every type, against objects that are large themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bench.stall_cases.case import (
    APPLY,
    MERGE,
    PATCH,
    SIZE,
    STORED,
    STRATEGIC,
    Case,
    Object,
    Place,
    Request,
    config,
    many,
    mapping,
)  # fmt: skip
from tests.bench.stall_cases.metadata import CORE, owner
from tests.bench.stall_cases.pods import APPS, container, env, pod

_HALF = STORED // 2


def _config(
    body: Callable[[], Any], kind: str, made: Callable[[], Object] = config, suffix: str = ""
) -> Callable[[Place], Case]:
    return lambda place: place.change(place.create(CORE, "configmaps", made()), body(), kind, suffix=suffix)


def _template(**spec: Any) -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**pod()["spec"], **spec}}
    return {"apiVersion": "apps/v1", "kind": "Deployment",
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "replicas": 0, "template": template}}  # fmt: skip


def _deployment(
    body: Callable[[], Any], kind: str, made: Callable[[], Object], suffix: str = ""
) -> Callable[[Place], Case]:
    return lambda place: place.change(place.create(APPS, "deployments", made()), body(), kind, suffix=suffix)


def _environment(size: int = STORED) -> Object:
    return _template(containers=[container(env=many(env, size))])


def _strategic(**spec: Any) -> Object:
    return {"spec": {"template": {"spec": spec}}}


def _finalized(size: int = STORED) -> Object:
    return config(finalizers=many(lambda i: f"a.b/{i}", size))


def _applied(place: Place, make: Callable[[], Object], other: Callable[[], Object]) -> Case:
    """What one manager has applied, another applies by force."""
    made = place.create(CORE, "configmaps", make())
    assert isinstance(made.request.body, dict)
    first = place.change(made, made.request.body, APPLY, suffix="?fieldManager=one")
    body = other()
    body["metadata"]["name"] = made.request.body["metadata"]["name"]
    path = first.request.path.partition("?")[0] + "?fieldManager=two&force=true"
    return Case(Request("PATCH", path, body, APPLY), before=[*first.before, first.request], after=first.after)


CASES: dict[str, Callable[[Place], Case]] = {
    "JSON patch: inserts": _config(
        lambda: [{"op": "add", "path": "/metadata/finalizers/0", "value": f"a.b/{index}"} for index in range(10_000)],
        PATCH, lambda: config(finalizers=["a.b/c"]),
    ),
    "JSON patch: inserts into a long list": _config(
        lambda: [{"op": "add", "path": "/metadata/finalizers/0", "value": f"a.b/x{index}"} for index in range(10_000)],
        PATCH, _finalized,
    ),
    "JSON patch: removals": _config(
        lambda: [{"op": "remove", "path": "/metadata/finalizers/0"}] * 10_000, PATCH, _finalized
    ),
    "JSON patch: tests": _config(
        lambda: [{"op": "test", "path": "/data", "value": mapping(lambda i: f"k{i}", size=100)}] + [
            {"op": "test", "path": "/data/k1", "value": ""}] * 9_999,
        PATCH, lambda: {**config(), "data": mapping(lambda i: f"k{i}", size=100)},
    ),
    "JSON patch: tests of a long list": _config(
        lambda: [{"op": "test", "path": "/metadata/finalizers", "value": many(lambda i: f"a.b/{i}", STORED)}], PATCH, _finalized
    ),
    "JSON patch: copies": _config(
        lambda: [{"op": "copy", "from": "/data", "path": f"/data/k{index}"} for index in range(10_000)],
        PATCH, lambda: {**config(), "data": {"a": "b"}},
    ),
    "JSON patch: moves": _config(
        lambda: [{"op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/-"}] * 10_000, PATCH, _finalized
    ),
    "JSON patch: deep path": _config(lambda: [{"op": "add", "path": "/a" * (SIZE // 2), "value": 1}], PATCH),
    "JSON patch: too many": _config(lambda: many(lambda i: {"op": "test", "path": "/kind", "value": "ConfigMap"}), PATCH),
    "merge patch: data": _config(
        lambda: {"data": mapping(lambda i: f"k{i}", "b")}, MERGE,
        lambda: {**config(), "data": mapping(lambda i: f"k{i}", "a", _HALF)}
    ),
    "merge patch: removals": _config(
        lambda: {"data": mapping(lambda i: f"k{i}", None)}, MERGE,
        lambda: {**config(), "data": mapping(lambda i: f"k{i}", "a", _HALF)}
    ),
    "merge patch: owners": _config(
        lambda: {"metadata": {"ownerReferences": many(owner)}}, MERGE, lambda: config(ownerReferences=many(owner, _HALF))
    ),
    "strategic: owners": _config(
        lambda: {"metadata": {"ownerReferences": many(owner)}}, STRATEGIC, lambda: config(ownerReferences=many(owner, _HALF))
    ),
    "strategic: new owners": _config(
        lambda: {"metadata": {"ownerReferences": many(lambda i: owner(-i - 1))}}, STRATEGIC,
        lambda: config(ownerReferences=many(owner, _HALF)),
    ),
    "strategic: owners deleted": _config(
        lambda: {"metadata": {"ownerReferences": many(lambda i: {"$patch": "delete", "uid": f"{i}"})}}, STRATEGIC,
        lambda: config(ownerReferences=many(owner, SIZE // 3 * 2)),
    ),
    "strategic: finalizers": _config(
        lambda: {"metadata": {"finalizers": many(lambda i: f"a.b/x{i}")}}, STRATEGIC, _finalized
    ),
    "strategic: $deleteFromPrimitiveList": _config(
        lambda: {"metadata": {"$deleteFromPrimitiveList/finalizers": many(lambda i: f"a.b/{i}")}}, STRATEGIC, _finalized
    ),
    "strategic: $setElementOrder of finalizers": _config(
        lambda: {"metadata": {"$setElementOrder/finalizers": many(lambda i: f"a.b/{i}", STORED)[::-1],
                              "finalizers": many(lambda i: f"a.b/{i}", STORED)[::-1]}}, STRATEGIC, _finalized,
    ),
    "strategic: $setElementOrder of others": _config(
        lambda: {"metadata": {"$setElementOrder/finalizers": many(lambda i: f"a.b/{i}", SIZE // 2)[::-1],
                              "finalizers": many(lambda i: f"a.b/{i}", SIZE // 2)}}, STRATEGIC, _finalized,
    ),
    "strategic: env": _deployment(
        lambda: _strategic(containers=[container(env=many(lambda i: {"name": f"E{i}", "value": "x"}))]), STRATEGIC, _environment
    ),
    "strategic: env deleted": _deployment(
        lambda: _strategic(containers=[container(env=many(lambda i: {"$patch": "delete", "name": f"E{i}"}))]), STRATEGIC,
        _environment,
    ),
    "strategic: env ordered": _deployment(
        lambda: _strategic(containers=[{**container(), "$setElementOrder/env": many(lambda i: {"name": f"E{i}"})[::-1]}]),
        STRATEGIC, _environment,
    ),
    "strategic: containers": _deployment(
        lambda: _strategic(containers=many(lambda i: container(i, command=["a"]))), STRATEGIC,
        lambda: _template(containers=many(container, STORED // 4)),
    ),
    "strategic: $retainKeys": _deployment(
        lambda: _strategic(volumes=[{"name": "v", "$retainKeys": many(lambda i: f"k{i}")}]), STRATEGIC,
        lambda: _template(volumes=[{"name": "v", "emptyDir": {}}]),
    ),
    "strategic: volumes": _deployment(
        lambda: _strategic(volumes=many(lambda i: {"name": f"v{i}", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}})),
        STRATEGIC, lambda: _template(volumes=many(lambda i: {"name": f"v{i}", "hostPath": {"path": "/"}}, STORED)),
    ),
    "apply: data": _config(
        lambda: {**config(), "data": mapping(lambda i: f"k{i}", "b", STORED)}, APPLY, lambda: {**config(), "data": {}},
        "?fieldManager=m",
    ),
    "apply: data by force": lambda place: _applied(
        place, lambda: {**config(), "data": mapping(lambda i: f"k{i}", "a", _HALF)},
        lambda: {**config(), "data": mapping(lambda i: f"k{i}", "b", _HALF)},
    ),
    "apply: conflicts": _config(
        lambda: {**config(), "data": mapping(lambda i: f"k{i}", "b", STORED)}, APPLY,
        lambda: {**config(), "data": mapping(lambda i: f"k{i}", "a", _HALF)}, "?fieldManager=m",
    ),
    "apply: finalizers": _config(_finalized, APPLY, suffix="?fieldManager=m"),
    "apply: owners": _config(
        lambda: config(ownerReferences=many(owner, STORED)), APPLY, suffix="?fieldManager=m"
    ),
    "apply: env": _deployment(
        _environment, APPLY, _template, suffix="?fieldManager=m&force=true"
    ),
    "apply: env, large": _deployment(
        lambda: _environment(SIZE), APPLY, _template, suffix="?fieldManager=m&force=true"
    ),
    "apply: containers": _deployment(
        lambda: _template(containers=many(container, STORED)), APPLY, _template, suffix="?fieldManager=m&force=true"
    ),
    "apply: ports": _deployment(
        lambda: _template(containers=[container(ports=many(
            lambda i: {"containerPort": i % 65535 + 1, "protocol": "TCP"}, STORED))]),
        APPLY, _template, suffix="?fieldManager=m&force=true",
    ),
    "update: env": lambda place: (lambda made: place.change(made, _named(_environment(SIZE), made), "application/json", "PUT"))(
        place.create(APPS, "deployments", _environment())),
}  # fmt: skip


def _named(obj: Object, made: Case) -> Object:
    assert isinstance(made.request.body, dict)
    obj["metadata"] = {"name": made.request.body["metadata"]["name"]}
    return obj
