"""What a scope knows of entries before they are served."""

from __future__ import annotations

from typing import Any, cast

from kapi.endpoints.scope import RequestScope
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource
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
