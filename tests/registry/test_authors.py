"""The users of the newest writes, within bounds."""

from __future__ import annotations

from kapi.machinery.gvk import GroupResource
from kapi.registry.environment import Authors

MAPS, LIGHTS = GroupResource("", "configmaps"), GroupResource("example.com", "lights")


def test_resources_in_other_stores_have_revisions_of_their_own() -> None:
    authors = Authors()
    authors.note(MAPS, 7, "ann")
    authors.note(LIGHTS, 7, "ben")
    assert list(authors) == [(MAPS, 7, "ann"), (LIGHTS, 7, "ben")]


def test_the_oldest_go() -> None:
    authors = Authors()
    for revision in range(3000):
        authors.note(MAPS, revision, "ann")
    assert [revision for _, revision, _ in authors] == list(range(1000, 3000))


def test_a_long_name_is_cut() -> None:
    authors = Authors()
    authors.note(MAPS, 1, "a" * 60_000)
    assert [len(user) for *_, user in authors] == [256]
