"""What a scope knows of entries before they are served."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kapi.endpoints.scope import RequestScope
from kapi.machinery.tree import Object
from kapi.registry.conversion import Unconverted
from kapi.resources.definition import Resource
from kapi.testing.memory_api import succeed
from kapi.watchcache.entry import ByteBudget, Entry, Scope

_BUDGET = ByteBudget(1000, Entry.forget_object)


def _unchanged(obj: Object) -> Object:
    return obj


def test_a_custom_object_that_is_served_as_it_is_stored_needs_slices_only_once() -> None:
    resource = Resource(
        "example.com", "v1", "Thing", "things", "thing", True, ("get",), typed_items=True, from_storage=_unchanged
    )
    scope = RequestScope(resource, cast(Any, None))
    entry = Entry(Scope(_BUDGET, _BUDGET, {}, True), "ns/a", "ns", "a", 1, b'{"kind":"Thing","metadata":{"name":"a"}}')
    assert scope.may_take_long(entry, plain=True)
    assert scope.served(entry) == entry.data
    assert not scope.may_take_long(entry, plain=True)
    assert scope.may_take_long(entry, plain=False)


def scope_of(typed: bool = True, **more: Any) -> RequestScope:
    resource = Resource("example.com", "v1", "Thing", "things", "thing", True, ("get",), typed_items=typed, **more)
    return RequestScope(resource, cast(Any, None))


def entry() -> Entry:
    return Entry(Scope(_BUDGET, _BUDGET, {}, True), "ns/a", "ns", "a", 1, b'{"kind":"Thing","metadata":{"name":"a"}}')


def _renamed(obj: Object) -> Object:
    return {**obj, "kind": "Other"}


def test_an_object_is_converted_where_its_version_is_another_one() -> None:
    stored = {"kind": "Thing", "metadata": {"name": "a"}}
    for typed, more, same, served, kind in (
        (True, {}, True, b'{"kind":"Thing","metadata":{"name":"a"}}', "Thing"),
        (True, {"from_storage": _renamed}, False, b'{"kind":"Other","metadata":{"name":"a"}}', "Thing"),
        (False, {"from_storage": _renamed}, False, b'{"kind":"Other","metadata":{"name":"a"}}', "Other"),
    ):
        scope = scope_of(typed, **more)  # type: ignore[arg-type]
        assert (scope.same_version, scope.served(entry())) == (same, served)
        copied = scope.current(stored)
        assert copied["kind"] == kind  # the registry passes custom resources in the version of the request
        copied["metadata"]["name"] = "b"
        assert stored["metadata"] == {"name": "a"}
        assert succeed(scope.answered(stored)) == scope.from_storage(stored)


def test_what_is_served_as_it_is_stored_is_noted_only_where_nothing_is_converted() -> None:
    for storage_version, noted in (("", True), ("v2", False)):
        scope, one = scope_of(from_storage=_unchanged, storage_version=storage_version), entry()
        scope.served(one)
        assert (one.served_as is scope.resource.identity) == noted
    scope, one = scope_of(from_storage=_renamed), entry()
    scope.served(one)
    assert one.served_as is not scope.resource.identity
    assert not scope_of(typed=False, from_storage=_renamed).may_take_long(one, plain=False)


def test_which_objects_must_be_converted_by_a_webhook() -> None:
    def convert(obj: Object) -> Object:
        if obj["kind"] == "Thing":
            raise Unconverted(obj, "example.com/v1")
        return obj

    things = [{"kind": "Other"}, {"kind": "Thing", "n": 1}, {"kind": "Other"}, {"kind": "Thing", "n": 2}]
    assert scope_of(from_storage=convert).unconverted(things) == [things[1], things[3]]


def test_ages_are_by_the_clock_of_the_store_or_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 5.0)
    assert scope_of().now == 5.0
    store: Any = SimpleNamespace(environment=SimpleNamespace(clock=lambda: 7.0))
    assert RequestScope(scope_of().resource, store).now == 7.0
