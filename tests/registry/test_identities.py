"""Uids and generated names by a seed."""

from __future__ import annotations

import uuid

import pytest

from kapi.registry import environment
from kapi.registry.environment import Identities
from kapi.testing.memory_api import MemoryAPI, succeed

KEY = "core/pods/ns/a"


def test_they_depend_on_the_seed_the_place_and_how_often_one_was_made_there() -> None:
    one, same, other, fork = Identities("x"), Identities("x"), Identities("y"), Identities("x", origin="base")
    first = one.uid(KEY)
    assert same.uid("core/pods/ns/b") not in (first, same.uid(KEY))  # in another order
    made = [first, one.uid(KEY), one.uid("core/pods/ns/b"), other.uid(KEY), fork.uid(KEY)]
    assert len(set(made)) == len(made)
    again = Identities("x")
    assert [again.uid(KEY), again.uid(KEY), again.uid("core/pods/ns/b")] == made[:3]
    assert all(str(uuid.UUID(each)) == each and uuid.UUID(each).version == 4 for each in made)


def test_generated_names_do_not_come_twice_at_once() -> None:
    one = Identities("x")
    made = [one.suffix("core/pods/ns/a-") for _ in range(100)]
    again = Identities("x")
    assert [again.suffix("core/pods/ns/a-") for _ in range(100)] == made
    assert len(set(made)) == 100
    assert all(len(each) == 5 and each.isalnum() for each in made)


def test_what_is_counted_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_MAX_KEYS", 10)
    one = Identities("x")
    made = [one.uid(KEY), *(one.uid(f"core/pods/ns/{number}") for number in range(30)), one.uid(KEY)]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize(("name", "dry"), [("a", False), ("", False), ("a", True)])
def test_objects_get_them(name: str, dry: bool) -> None:
    metadata = {"name": name} if name else {"generateName": "a-"}
    path = "/api/v1/namespaces/ns/configmaps"
    made = []
    for _ in range(2):
        api: MemoryAPI = succeed(MemoryAPI.started())
        api.environment.identities = Identities("x")
        for number in range(2):
            body = {"metadata": {**metadata, **({"name": f"{name}{number}"} if name else {})}}
            answer = api.ask("POST", f"{path}?dryRun=All" if dry else path, body)
            made.append((answer.json["metadata"]["name"], answer.json["metadata"]["uid"]))
    assert made[0] != made[1]
    assert (made[:2] == made[2:]) != dry
