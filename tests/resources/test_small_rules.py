"""Events, leases and API services: each rule refuses one thing, with its text."""

from __future__ import annotations

import msgspec
import pytest

from kapi.machinery.tree import Object
from kapi.resources import events
from kapi.resources.apiregistration import API_SERVICE
from kapi.resources.coordination import LEASE
from kapi.resources.core.events import RESOURCE as CORE_EVENT
from kapi.resources.node import RUNTIME_CLASS
from tests.resources.strategy_kit import CTX, changes, made, problems, short

NOW = "2024-01-01T00:00:00.000000Z"
OLD_EVENT: Object = {"involvedObject": {"namespace": "default"}}
EVENT: Object = {
    **OLD_EVENT, "eventTime": NOW, "reportingComponent": "a.b/c", "reportingInstance": "i", "action": "a", "reason": "r",
    "type": "Normal",
}  # fmt: skip


@pytest.mark.parametrize(
    ("event", "texts"),
    [
        (OLD_EVENT, []),
        (EVENT, []),
        ({"involvedObject": {}}, []),
        ({"involvedObject": {"namespace": "n"}},
         ['involvedObject.namespace: Invalid value: "n": does not match event.namespace']),
        ({**EVENT, "reportingComponent": ""},
         ["reportingComponent: Required value", 'reportingComponent: Invalid value: "": name part must be non-empty',
          'reportingComponent: Invalid value: "": <name part>']),
        ({"metadata": {"namespace": "N"}, "involvedObject": {"namespace": "N"}},
         ['namespace: Invalid value: "N": <subdomain>']),
        ({**EVENT, "reportingComponent": "-"}, ['reportingComponent: Invalid value: "-": <name part>']),
        *[({**EVENT, name: ""}, [f"{name}: Required value"]) for name in ("reportingInstance", "action", "reason")],
        *[
            ({**EVENT, name: "x" * (limit + 1)}, [f'{name}: Invalid value: "": can have at most {limit} characters'])
            for name, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024))
        ],
    ],
)  # fmt: skip
def test_an_event_of_the_core_api(event: Object, texts: list[str]) -> None:
    assert short(problems(CORE_EVENT, **event)) == texts


@pytest.mark.parametrize(
    ("part", "texts"),
    [
        ({"series": {"count": 2, "lastObservedTime": NOW}}, []),
        ({"series": {"count": 1}},
         ['series.count: Invalid value: "": should be at least 2', "series.lastObservedTime: Required value"]),
        ({"type": "X"}, ['type: Invalid value: "": has invalid value: X']),
        ({"firstTimestamp": NOW}, ['firstTimestamp: Invalid value: "": needs to be unset']),
        ({"count": 1}, ['count: Invalid value: "": needs to be unset']),
        ({"source": {"component": "c"}}, ['source: Invalid value: "": needs to be unset']),
        ({"metadata": {"labels": {"-": ""}}}, ['metadata.labels: Invalid value: "-": <name part>']),
        ({"eventTime": None}, ["eventTime: Required value"]),
    ],
)  # fmt: skip
def test_an_event_of_the_newer_api(part: Object, texts: list[str]) -> None:
    assert short(problems(events.RESOURCE, **{**EVENT, **part})) == texts


def test_a_changed_event_is_checked_as_a_new_one() -> None:
    assert changes(events.RESOURCE, made(events.RESOURCE, **{**EVENT, "reason": ""})) == ["reason: Required value"]


def test_the_name_of_an_event_stays() -> None:
    old = made(events.RESOURCE, **EVENT)
    metadata = {**old["metadata"], "name": "b", "uid": "u", "resourceVersion": "1"}
    assert changes(events.RESOURCE, old, metadata=metadata) == ['metadata.name: Invalid value: "b": field is immutable']


def test_the_series_of_an_event_is_checked_when_it_changes() -> None:
    old = {**made(events.RESOURCE, **EVENT), "series": {"count": 1}}
    assert changes(events.RESOURCE, old) == []
    assert changes(events.RESOURCE, old, series={"count": 0, "lastObservedTime": NOW}) == [
        'series.count: Invalid value: "": should be at least 2'
    ]


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"strategy": "OldestEmulationVersion", "preferredHolder": "h", "leaseTransitions": 0}, []),
        ({"strategy": "a.b/c"}, []),
        ({"leaseDurationSeconds": 0}, ["leaseDurationSeconds: Invalid value: 0: must be greater than 0"]),
        ({"leaseTransitions": -1}, ["leaseTransitions: Invalid value: -1: must be greater than or equal to 0"]),
        ({"strategy": "X"}, ['strategy.strategy: Unsupported value: "X": supported values: "OldestEmulationVersion"']),
        ({"strategy": "a.b/-"}, ['strategy.strategy: Invalid value: "a.b/-": <name part>']),
        ({"preferredHolder": "h"}, ["preferredHolder: Forbidden: may only be specified if `strategy` is defined"]),
    ],
)  # fmt: skip
def test_the_spec_of_a_lease(spec: Object, texts: list[str]) -> None:
    ctx = msgspec.structs.replace(CTX, features={"CoordinatedLeaderElection": True})
    assert short(problems(LEASE, ctx, spec=spec), "spec.") == texts


SERVICE: Object = {"namespace": "n", "name": "s"}


@pytest.mark.parametrize(
    ("name", "spec", "texts"),
    [
        ("v1.a.b", {"service": SERVICE, "caBundle": "YQ=="}, []),
        ("v2.", {"group": "", "version": "v2"},
         ["group: Required value: only v1 may have an empty group and it better be legacy kube"]),
        ("v1.A", {"group": "A"}, ['group: Invalid value: "A": <subdomain>']),
        ("V.a.b", {"version": "V"}, ['version: Invalid value: "V": <DNS-1035 label>']),
        ("v1.a.b", {"groupPriorityMinimum": 20001},
         ["groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000"]),
        ("v1.a.b", {"versionPriority": 0}, ["versionPriority: Invalid value: 0: must be positive and less than 1000"]),
        ("v1.a.b", {"caBundle": "YQ=="},
         ['caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle']),
        ("v1.a.b", {"insecureSkipTLSVerify": True},
         ["insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify"]),
        ("v1.a.b", {"service": {}}, ["service.namespace: Required value", "service.name: Required value"]),
        ("v1.a.b", {"service": {**SERVICE, "port": 65536}},
         ["service.port: Invalid value: 65536: port is not valid: must be between 1 and 65535, inclusive"]),
        ("v1.a.b", {"service": SERVICE, "caBundle": "YQ==", "insecureSkipTLSVerify": True},
         ["insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"]),
    ],
)  # fmt: skip
def test_the_spec_of_an_api_service(name: str, spec: Object, texts: list[str]) -> None:
    given = {"group": "a.b", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, **spec}
    found = short(problems(API_SERVICE, metadata={"name": name}, spec=given), "spec.")
    assert [text for text in found if not text.startswith("metadata.")] == texts


def test_the_conditions_of_an_api_service() -> None:
    spec = {"group": "a.b", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    old = made(API_SERVICE, metadata={"name": "v1.a.b"}, spec=spec)
    for status, text in (("True", ""), ("X", 'Unsupported value: "X": supported values: "True", "False", "Unknown"')):
        conditions = [{"type": "Available", "status": status}]
        found = changes(API_SERVICE, old, subresource="status", status={"conditions": conditions})
        assert found == ([f"status.conditions[0].status: {text}"] if text else [])


def test_tolerations_of_a_runtime_class_that_differ() -> None:
    first = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
    others: list[Object] = [{**first, "key": "l"}, {**first, "value": "w"}, {**first, "effect": "NoExecute"}]
    others.append({"key": "k", "operator": "Exists", "effect": "NoSchedule"})

    def of(*tolerations: Object) -> list[str]:
        return problems(RUNTIME_CLASS, handler="h", scheduling={"tolerations": list(tolerations)})

    assert of(first, *others) == []
    for each in (first, *others):
        [text] = of(first, *others, each)
        assert text.startswith("scheduling.tolerations[5]: Duplicate value: {")
