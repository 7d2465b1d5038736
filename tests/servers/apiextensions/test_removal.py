"""The removal of a definition: what becomes of its instances, when it is looked whether they are gone, and what it says."""

from __future__ import annotations

import pytest

from kapi.admission.interface import DELETE, AdmissionChain, Attributes, Plugin
from kapi.machinery.status import bad_request
from kapi.machinery.tree import Object
from kapi.resources.apiextensions.internal import condition
from kapi.testing.memory_api import EPOCH, MemoryAPI
from tests.servers.apiextensions.definition_kit import DEFINITIONS, FOOS, create, definition, install
from tests.servers.apiextensions.test_serving import Held

CRD = f"{DEFINITIONS}/foos.example.com"
MERGE = "application/merge-patch+json"
COMPLETED = {"status": "False", "reason": "InstanceDeletionCompleted", "message": "removed all instances"}
IN_PROGRESS = {
    "status": "True", "reason": "InstanceDeletionInProgress", "message": "CustomResource deletion is in progress",
}  # fmt: skip


def remove(api: MemoryAPI, name: str = "foos.example.com") -> None:
    assert api.ask("DELETE", f"{DEFINITIONS}/{name}").code == 200
    for _ in range(3):
        api.turn()


def terminating(api: MemoryAPI, name: str = "foos.example.com") -> Object:
    found = condition(api.ask("GET", f"{DEFINITIONS}/{name}").json, "Terminating") or {}
    return {key: found[key] for key in ("status", "reason", "message")}


def turns(api: MemoryAPI, until: float) -> None:
    """One at each time for which something is planned, up to some seconds after the start."""
    while due := [call.time for call in api.clock.calls if call.time <= EPOCH + until]:
        api.turn(max(0.0, min(due) - api.clock.seconds()))
    api.turn(EPOCH + until - api.clock.seconds())


class Seen(Plugin):
    """Which objects are deleted, in order."""

    operations = frozenset({DELETE})

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.refused = 0  # so many are refused first

    def validate(self, attributes: Attributes) -> None:
        if attributes.resource.resource == "foos":
            self.deleted.append(f"{attributes.namespace}/{attributes.name}")
            if self.refused:
                self.refused -= 1
                raise bad_request("not yet")


@pytest.mark.parametrize(
    ("after", "gone"),  # seconds: until the last instance goes, until the definition goes
    [(0.2, 0.25), (0.27, 0.3), (0.32, 0.5), (0.6, 0.9), (1.6, 1.7), (1.8, 3.3), (3.4, 6.5), (6.6, 11.5), (11.6, 16.5)],
)  # fmt: skip
def test_it_is_looked_less_and_less_often_whether_the_instances_are_gone(
    api: MemoryAPI, after: float, gone: float
) -> None:
    """First after a quarter of a second; then after 0.05, 0.2, 0.4 ... and at last each five seconds."""
    install(api, definition())
    create(api, "a", {})
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    assert api.ask("PATCH", f"{FOOS}/a", held, type=MERGE).code == 200
    remove(api)
    turns(api, until=after)
    assert "deletionTimestamp" in api.ask("GET", f"{FOOS}/a").json["metadata"] or after < 0.25
    assert terminating(api) == IN_PROGRESS
    api.ask("PATCH", f"{FOOS}/a", {"metadata": {"finalizers": None}}, type=MERGE)
    turns(api, until=gone - 0.005)
    assert terminating(api) == IN_PROGRESS
    turns(api, until=gone + 0.005)
    assert api.ask("GET", CRD).code == 404


def test_a_definition_that_comes_again_is_looked_at_as_soon(api: MemoryAPI) -> None:
    for _ in range(2):
        install(api, definition())
        create(api, "a", {})
        api.ask("PATCH", f"{FOOS}/a", {"metadata": {"finalizers": ["example.com/held"]}}, type=MERGE)
        remove(api)
        start = api.clock.seconds() - EPOCH
        turns(api, until=start + 0.27)
        api.ask("PATCH", f"{FOOS}/a", {"metadata": {"finalizers": None}}, type=MERGE)
        assert api.ask("GET", CRD).code == 200
        turns(api, until=start + 0.31)
        assert api.ask("GET", CRD).code == 404


def test_all_instances_are_deleted_once_and_through_admission(api: MemoryAPI) -> None:
    seen = Seen()
    api.registry.admit_by(AdmissionChain([seen]))
    install(api, definition())
    for namespace in ("n", "m"):
        for name in "ab":
            body = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}}
            assert api.ask("POST", FOOS.replace("/n/", f"/{namespace}/"), body).code == 201
    api.ask("PATCH", f"{FOOS}/a", {"metadata": {"finalizers": ["example.com/held"]}}, type=MERGE)
    remove(api)
    api.turn(0.25)
    assert sorted(seen.deleted) == ["m/a", "m/b", "n/a", "n/b"]
    api.turn(0.05)
    api.turn(0.1)
    assert len(seen.deleted) == 4, "what is being deleted is deleted again"
    api.ask("PATCH", f"{FOOS}/a", {"metadata": {"finalizers": None}}, type=MERGE)
    api.turn(0.2)
    assert api.ask("GET", CRD).code == 404


def test_an_instance_that_is_refused_to_be_deleted_is_deleted_later(api: MemoryAPI) -> None:
    seen = Seen()
    seen.refused = 2
    api.registry.admit_by(AdmissionChain([seen]))
    install(api, definition())
    create(api, "a", {})
    remove(api)
    turns(api, until=0.26)
    assert (set(seen.deleted), terminating(api)) == ({"n/a"}, IN_PROGRESS)
    turns(api, until=1.0)
    assert (len(seen.deleted), api.ask("GET", CRD).code) == (3, 404)


def test_an_instance_that_somebody_else_has_deleted_is_no_obstacle(api: MemoryAPI) -> None:
    class Deletes(Plugin):
        """With the first, all others."""

        operations = frozenset({DELETE})

        def validate(self, attributes: Attributes) -> None:
            if attributes.resource.resource == "foos" and (names := {"a", "b", "c"} - {attributes.name}):
                api.registry.admit_by(AdmissionChain([]))
                for name in names:
                    api.ask("DELETE", f"{FOOS}/{name}")

    install(api, definition())
    for name in "abc":
        create(api, name, {})
    api.registry.admit_by(AdmissionChain([Deletes()]))
    remove(api)
    api.turn(0.25)
    assert api.ask("GET", CRD).code == 404


def test_what_others_hold_stays_as_it_was_left(api: MemoryAPI) -> None:
    crd = definition()
    crd["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    install(api, crd)
    remove(api)
    api.turn(0.25)
    found = api.ask("GET", CRD).json
    assert found["metadata"]["finalizers"] == ["example.com/one", "example.com/two"]
    assert terminating(api) == COMPLETED
    create(api, "later", {})
    api.turn(10)
    assert api.ask("GET", f"{FOOS}/later").code == 200
    assert api.ask("GET", CRD).json["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    api.ask("PATCH", CRD, {"metadata": {"finalizers": None}}, type=MERGE)
    api.turn()
    assert (api.ask("GET", CRD).code, api.ask("GET", FOOS).code) == (404, 404)


def test_a_definition_without_names_goes_at_once(api: MemoryAPI) -> None:
    install(api, definition())
    other = definition(plural="bars")
    other["metadata"]["finalizers"] = ["example.com/held"]
    install(api, other)
    remove(api, "bars.example.com")
    assert terminating(api, "bars.example.com") == {
        "status": "False", "reason": "NeverEstablished", "message": "resource was never established",
    }  # fmt: skip
    assert api.ask("GET", f"{DEFINITIONS}/bars.example.com").json["metadata"]["finalizers"] == ["example.com/held"]


@pytest.mark.parametrize("removed", [False, True])
def test_so_many_are_written_at_once(api: MemoryAPI, removed: bool) -> None:
    """Admission of what the controllers write may be slow; others wait behind so many."""
    names = [f"r{number}s" for number in range(7)]
    held = Held(*(f"{name}.example.com" for name in names))
    if not removed:
        api.registry.admit_by(AdmissionChain([held]))
    for number, name in enumerate(names):
        install(api, definition(plural=name, kind=f"R{number}"))
    if removed:
        api.registry.admit_by(AdmissionChain([held]))
        for name in names:
            remove(api, f"{name}.example.com")
    assert len(held.waiting) == 5
    while held.waiting:
        assert len(held.waiting) <= 5
        held.waiting.pop(0).callback(None)
        turns(api, until=api.clock.seconds() - EPOCH + 1)
    paths = [path for name in names for path in (f"/apis/example.com/v1/{name}", f"{DEFINITIONS}/{name}.example.com")]
    assert {api.ask("GET", path).code for path in paths} == {404 if removed else 200}
