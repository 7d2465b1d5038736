"""The graph and the decisions, with generated objects: without a server, and without Twisted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock

from kapi.controllers.garbagecollector import reconcile
from kapi.controllers.garbagecollector.graph import Graph
from kapi.controllers.garbagecollector.metadata import (
    FOREGROUND,
    ORPHAN,
    UNREADABLE,
    Metadata,
    Reference,
    concerned,
    owned,
    read,
    uid_of,
)
from kapi.controllers.garbagecollector.reconcile import Delete, Owner, Release, decide
from kapi.machinery.gvk import GroupResource
from kapi.process.slices import Slices
from tests.examples import examples
from tests.growth.counting import stretches
from tests.turns import one_turn

MAPS = GroupResource("", "configmaps")
MANY = 2000
NAMES = [f"u{number}" for number in range(7)]


def reference(uid: str, blocks: bool = False) -> Reference:
    return Reference("v1", "ConfigMap", uid, uid, blocks)


references = st.builds(reference, st.sampled_from(NAMES), st.booleans())
owner_lists = st.lists(references, max_size=3, unique_by=lambda one: one.uid).map(tuple)
finalizer_lists = st.sampled_from([(), (FOREGROUND,), (ORPHAN,), ("example.com/mine",)])
states = st.builds(
    Metadata, st.sampled_from(NAMES), owners=owner_lists, finalizers=finalizer_lists, going=st.booleans()
)


@given(st.lists(st.one_of(states, st.sampled_from(NAMES)), max_size=40))
def test_the_graph_knows_what_a_list_of_all_objects_tells(changes: list[Metadata | str]) -> None:
    """Whatever comes, changes and goes, in whatever order: a Metadata is seen, a uid is forgotten."""
    graph, there = Graph(), dict[str, Metadata]()
    for change in changes:
        if isinstance(change, Metadata):
            graph.observe(MAPS, "n", change.uid, change)
            there[change.uid] = change
        else:
            graph.forget(change)
            there.pop(change, None)
        for uid in NAMES:
            named = {seen.uid for seen in there.values() if any(one.uid == uid for one in seen.owners)}
            blocks = any(
                one.uid == uid and one.blocks for seen in there.values() for one in seen.owners if seen.uid != uid
            )
            assert {node.uid for node in graph.dependents(uid)} == named
            assert graph.blocked(uid) == blocks
        of_interest = {seen.uid for seen in there.values() if seen.owners or seen.waits or seen.orphans}
        assert set(graph.nodes) == of_interest


@given(st.lists(states, max_size=30))
def test_what_is_forgotten_leaves_nothing_behind(changes: list[Metadata]) -> None:
    graph = Graph()
    for seen in changes:
        graph.observe(MAPS, "n", seen.uid, seen)
    for uid in NAMES:
        graph.forget(uid)
    assert not graph
    assert [value for name, value in vars(graph).items() if value] == []


@given(st.lists(st.one_of(states, st.sampled_from(NAMES)), max_size=20))
def test_who_reads_it_while_it_changes_finds_what_was_before_and_what_comes(changes: list[Metadata | str]) -> None:
    """At each checkpoint: an owner that stays is named all the time, and one that comes or goes at most a little longer."""
    clock = Clock()
    call = Slices(clock, length=-1.0).call
    graph, there = Graph(), dict[str, Metadata]()
    for change in changes:
        before = dict(there)
        if isinstance(change, Metadata):
            changed = call(graph.observe, MAPS, "n", change.uid, change)
            there[change.uid] = change
        else:
            changed = call(graph.forget, change)
            there.pop(change, None)
        while not changed.called:
            for uid in NAMES:
                found = {node.uid for node in graph.dependents(uid)}
                assert dependents(before, uid) & dependents(there, uid) <= found
                assert found <= dependents(before, uid) | dependents(there, uid)
                assert graph.blocked(uid) or not blocks(before, uid) & blocks(there, uid)
                graph.set_gone(uid)  # by a decision meanwhile
            one_turn(clock)
        for uid in NAMES:
            assert {node.uid for node in graph.dependents(uid)} == dependents(there, uid)
            assert graph.blocked(uid) == bool(blocks(there, uid))
            assert not graph.gone(uid) or dependents(there, uid)


def dependents(there: dict[str, Metadata], uid: str) -> set[str]:
    return {seen.uid for seen in there.values() if any(one.uid == uid for one in seen.owners)}


def blocks(there: dict[str, Metadata], uid: str) -> set[str]:
    """Those that block an owner."""
    return {
        seen.uid for seen in there.values() if any(one.uid == uid != seen.uid and one.blocks for one in seen.owners)
    }


def test_thousands_of_owners_are_taken_in_in_steps() -> None:
    names = [f"{number}" for number in range(MANY)]
    first = Metadata("x", owners=tuple(reference(name, True) for name in names))
    second = Metadata("x", owners=tuple(reference(f"o{name}") for name in names))
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name} for name in names]
    data = orjson.dumps({"metadata": {"uid": "x", "ownerReferences": owners}})
    graph = Graph()
    for work in (
        lambda: read(data),
        lambda: graph.observe(MAPS, "n", "x", first),
        lambda: graph.observe(MAPS, "n", "x", second),
        lambda: graph.forget("x"),
    ):
        found = stretches(work)
        assert found.longest < MANY / 2, found.where


def test_thousands_of_dependents_are_walked_in_steps() -> None:
    graph = Graph()
    for number in range(MANY):
        graph.observe(MAPS, "n", f"{number}", Metadata(f"{number}", owners=(reference("x"),)))
    waiting = Metadata("x", finalizers=(FOREGROUND,), going=True)
    for work in (lambda: graph.observe(MAPS, "n", "x", waiting), lambda: graph.forget("x")):
        assert graph.has_many_dependents("x")
        found = stretches(work)
        assert found.longest < MANY / 2, found.where


@dataclass
class World:
    """Objects that a collector without a server looks after: it carries out at once what is decided."""

    objects: dict[str, Metadata] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    due: set[str] = field(default_factory=set)
    steps: int = 0

    def put(self, uid: str, **changes: Any) -> None:
        old = self.objects.get(uid, Metadata(uid))
        fields = {name: getattr(old, name) for name in Metadata.__struct_fields__}
        seen = Metadata(**{**fields, **changes})
        if seen.going and not seen.finalizers:
            self.objects.pop(uid, None)
            self.due |= self.graph.forget(uid)
        else:
            self.objects[uid] = seen
            self.due |= self.graph.observe(MAPS, "n", uid, seen)

    def delete(self, uid: str, propagation: str) -> None:
        if uid in self.objects:
            others = [name for name in self.objects[uid].finalizers if name not in (FOREGROUND, ORPHAN)]
            asked = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN], "Background": []}[propagation]
            self.put(uid, going=True, finalizers=tuple(others + asked))

    def settle(self, choose: Any) -> None:
        """Until nothing is due any more."""
        while self.due:
            self.steps += 1
            assert self.steps < 5000, "it never ends"
            uid = choose(sorted(self.due))
            self.due.discard(uid)
            seen, node = self.objects.get(uid), self.graph.nodes.get(uid)
            if seen is not None and node is not None:
                self.handle(seen)

    def handle(self, seen: Metadata) -> None:
        if seen.orphans:
            for dependent in self.graph.dependents(seen.uid):
                kept = tuple(one for one in self.objects[dependent.uid].owners if one.uid != seen.uid)
                self.put(dependent.uid, owners=kept)
            self.put(seen.uid, finalizers=tuple(name for name in seen.finalizers if name != ORPHAN))
        elif seen.waits:
            if not self.graph.blocked(seen.uid):
                self.put(seen.uid, finalizers=tuple(name for name in seen.finalizers if name != FOREGROUND))
        elif seen.owners:
            self.decide(seen)

    def decide(self, seen: Metadata) -> None:
        dependents = self.graph.dependents(seen.uid)
        circle = any(node.waits for node in dependents)
        owners = [self.state(one.uid) for one in seen.owners]
        decision = decide(seen, owners, has_dependents=bool(dependents), in_circle=circle)
        if isinstance(decision, Release):
            self.put(seen.uid, owners=tuple(one for one in seen.owners if one.uid not in decision.uids))
        elif isinstance(decision, Delete):
            if decision.unblock:
                self.put(seen.uid, owners=tuple(reference(one.uid) for one in seen.owners))
            self.delete(seen.uid, decision.propagation)

    def state(self, uid: str) -> Owner:
        seen = self.objects.get(uid)
        return Owner.ABSENT if seen is None else Owner.WAITING if seen.waits else Owner.SOLID


def doomed(owners: dict[str, list[str]], deleted: str) -> set[str]:
    """What goes when one object does: whoever has owners and loses the last of them."""
    gone = {deleted}
    while True:
        more = {uid for uid, named in owners.items() if uid not in gone and named and set(named) <= gone}
        if not more:
            return gone
        gone |= more


def acyclic(lists: list[list[int]]) -> dict[str, list[str]]:
    """Each object is owned by former ones."""
    return {NAMES[at]: [NAMES[one % at] for one in set(lists[at])] if at else [] for at in range(len(NAMES))}


def cyclic(lists: list[list[int]]) -> dict[str, list[str]]:
    """Each object is owned by any others."""
    return {NAMES[at]: [NAMES[one] for one in set(lists[at]) if one != at] for at in range(len(NAMES))}


numbers = st.lists(st.integers(0, len(NAMES) - 1), max_size=3)
lists = st.lists(numbers, min_size=len(NAMES), max_size=len(NAMES))


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@pytest.mark.parametrize("shape", [acyclic, cyclic])
@settings(max_examples=examples(150))
@given(data=st.data(), owners=lists, blocking=st.booleans())
def test_what_goes_with_an_object(shape: Any, propagation: str, data: Any, owners: Any, blocking: bool) -> None:
    """In whatever order things are done; circles, several owners and blocking references among them."""
    world, named = World(), shape(owners)
    for uid, others in named.items():
        world.put(uid, owners=tuple(reference(other, blocking) for other in set(others)))
    deleted = data.draw(st.sampled_from(NAMES))
    choose = lambda due: data.draw(st.sampled_from(due))  # noqa: E731
    world.settle(choose)
    assert set(world.objects) == set(NAMES)
    world.delete(deleted, propagation)
    world.settle(choose)
    if propagation == "Background" or shape is acyclic:
        assert set(NAMES) - set(world.objects) == doomed(named, deleted)
    else:
        assert doomed(named, deleted) <= set(NAMES) - set(world.objects)
    for seen in world.objects.values():
        assert {one.uid for one in seen.owners} <= set(world.objects)
        assert not seen.going


@settings(max_examples=examples(150))
@given(data=st.data(), owners=lists)
def test_an_orphaning_deletion_takes_nobody_along(data: Any, owners: Any) -> None:
    world = World()
    for uid, others in cyclic(owners).items():
        world.put(uid, owners=tuple(reference(other) for other in set(others)))
    deleted = data.draw(st.sampled_from(NAMES))
    world.delete(deleted, "Orphan")
    world.settle(lambda due: data.draw(st.sampled_from(due)))
    assert set(world.objects) == set(NAMES) - {deleted}
    assert all(one.uid != deleted for seen in world.objects.values() for one in seen.owners)


@pytest.mark.parametrize("state", [Owner.UNKNOWN, Owner.MISPLACED])
def test_nothing_is_done_while_something_about_an_owner_is_not_known(state: Owner) -> None:
    seen = Metadata("u", owners=(reference("a"), reference("b")))
    for other in Owner:
        assert decide(seen, [other, state], has_dependents=True, in_circle=False) == reconcile.KEEP


def test_patches_name_the_object_as_it_was_seen() -> None:
    tree = {"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": ["orphan", "x"], "ownerReferences": []}}
    patch = reconcile.without_finalizer(tree, "orphan")
    assert patch == {"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": ["x"]}}
    assert reconcile.without_finalizer(tree, "foregroundDeletion") is None
    assert reconcile.without_owners(tree, frozenset(["a"])) is None
    assert reconcile.unblocking(tree) is None


def test_most_objects_are_passed_by_on_their_bytes() -> None:
    fields = {"f:metadata": {"f:ownerReferences": {".": {}}, "f:finalizers": {'v:"foregroundDeletion"': {}}}}
    plain = orjson.dumps({"metadata": {"uid": "u", "managedFields": [{"fieldsV1": fields}]}, "data": {"uid": "x"}})
    assert not concerned(plain)
    assert uid_of(plain) == "u"
    with_owner = orjson.dumps({"metadata": {"uid": "u", "ownerReferences": [{"uid": "o", "blockOwnerDeletion": True}]}})
    assert owned(with_owner)
    assert read(with_owner).owners == (Reference("", "", "", "o", True),)
    for data in (b"{}", b"[]", b'{"metadata":{"uid":5}}', b'{"metadata":{"ownerReferences":{}}}', b"{"):
        with pytest.raises(UNREADABLE):
            read(data)
