"""Entries of ``metadata.managedFields``: what is read, how they are written, and which are merged."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.schema.apply.conflict import Conflict, Conflicts, Manager, message
from kapi.schema.apply.updater import Owned
from kapi.schema.managedfields import is_reset, only_timestamps_differ
from kapi.schema.managedfields_entries import MAX_UPDATE_MANAGERS, InvalidManagedFields, capped, decode, encode


def entry(**more: Any) -> dict[str, Any]:
    given = {"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "t", "fieldsType": "FieldsV1"}
    return {key: value for key, value in {**given, "fieldsV1": {"f:a": {}}, **more}.items() if value is not None}


OPERATION = "operation must be `Apply` or `Update`"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"operation": None}, OPERATION),
        ({"operation": ""}, OPERATION),
        ({"operation": "apply"}, OPERATION),
        ({"apiVersion": None}, "apiVersion must not be empty"),
        ({"apiVersion": ""}, "apiVersion must not be empty"),
        ({"fieldsType": None}, "missing fieldsType in managed fields entry 1"),
        ({"fieldsType": "FieldsV2"}, 'invalid fieldsType "FieldsV2" in managed fields entry 1'),
        ({"fieldsV1": []}, "error decoding versioned set: error decoding set: expect { or n"),
    ],
)
def test_an_entry_that_cannot_be_read(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidManagedFields) as caught:
        decode([entry(), entry(**changes)])
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("given", "manager"),
    [
        (entry(), Manager("m", "Update", "v1")),
        (entry(manager=None, time=None), Manager("", "Update", "v1")),
        (entry(time="", subresource="status"), Manager("m", "Update", "v1", "status")),
        (entry(operation="Apply", apiVersion="v2"), Manager("m", "Apply", "")),
        (entry(fieldsV1=None), Manager("m", "Update", "v1")),
    ],
)
def test_an_entry_is_read_and_written(given: dict[str, Any], manager: Manager) -> None:
    managers, times = decode([given])
    owned = Owned(given.get("fieldsV1", {}), given["apiVersion"], given["operation"] == "Apply")
    assert managers == {manager: owned}
    assert times == ({manager: "t"} if given.get("time") else {})
    written = {key: value for key, value in {"fieldsV1": {}, **given}.items() if value}
    keys = ("manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource")
    [found] = encode(managers, times)
    assert found == {"fieldsV1": {}, **written}
    assert list(found) == [key for key in keys if key in found]


def test_entries_come_by_operation_time_name_version_and_subresource() -> None:
    wanted = [
        entry(operation="Apply", time="2", manager="z"),
        entry(operation="Apply", time="3", manager="a"),
        entry(time=None, manager="z"),
        entry(time="1", manager="y"),
        entry(time="2", manager="a", apiVersion="v2", subresource="a"),
        entry(time="2", manager="b"),
        entry(time="2", manager="b", subresource="status"),
        entry(time="2", manager="b", apiVersion="v2"),
    ]
    assert encode(*decode(wanted[::-1])) == encode(*decode(wanted), canonical=True) == wanted


def owners(*given: tuple[str, str, str]) -> Any:
    """Of (name, version, time): each owns a field of its name."""
    return decode(
        [entry(manager=name, apiVersion=v, time=t or None, fieldsV1={f"f:{name}": {}}) for name, v, t in given]
    )


def capped_names(*given: tuple[str, str, str]) -> list[tuple[str, str, str, str]]:
    managers, times = capped(*owners(*given))
    return [(e["manager"], e["apiVersion"], e.get("time", ""), "".join(sorted(name[2:] for name in e["fieldsV1"])))
            for e in encode(managers, times)]  # fmt: skip


TEN = [(name, "v1", f"2{name}") for name in "klmnopqrst"]
KEPT = [(name, version, time, name) for name, version, time in TEN]


@pytest.mark.parametrize(
    ("more", "first"),
    [
        ([], KEPT),
        # the two oldest of a version become one, with the time of the later
        ([("a", "v1", "1a")], [("ancient-changes", "v1", "2k", "ak"), *KEPT[1:]]),
        ([("a", "v1", "1a"), ("b", "v1", "1b")], [("ancient-changes", "v1", "2k", "abk"), *KEPT[1:]]),
        ([("a", "v1", "")], [("ancient-changes", "v1", "2k", "ak"), *KEPT[1:]]),
        ([("b", "v1", ""), ("a", "v1", "")], [("ancient-changes", "v1", "2k", "abk"), *KEPT[1:]]),
        # each version has its own
        ([("a", "v2", "1a")], [("a", "v2", "1a", "a"), ("ancient-changes", "v1", "2l", "kl"), *KEPT[2:]]),
        ([("a", "v2", "1a"), ("b", "v2", "1b")],
         [("ancient-changes", "v2", "1b", "ab"), ("ancient-changes", "v1", "2l", "kl"), *KEPT[2:]]),
        # by name where the times are equal
        ([("b", "v1", "1"), ("a", "v1", "1")], [("ancient-changes", "v1", "2k", "abk"), *KEPT[1:]]),
    ],
)  # fmt: skip
def test_the_oldest_updates_are_merged(more: list[tuple[str, str, str]], first: list[tuple[str, ...]]) -> None:
    assert len(TEN) == MAX_UPDATE_MANAGERS
    assert capped_names(*TEN[::-1], *more) == first


def test_applies_are_not_counted_and_nothing_is_changed_in_place() -> None:
    managers, times = owners(*TEN, ("a", "v1", "1a"))
    applied, applied_at = decode([entry(operation="Apply", manager=name) for name in "abc"])
    before = dict(managers), dict(times)
    found, _ = capped({**managers, **applied}, {**times, **applied_at})
    assert (managers, times) == before
    assert len(found) == MAX_UPDATE_MANAGERS + 3 and applied.items() <= found.items()
    few = dict(list(managers.items())[:7])
    assert capped({**few, **applied}, times) == ({**few, **applied}, times)


@pytest.mark.parametrize(
    ("time", "first"),
    [
        ("0", [("ancient-changes", "v1", "2k", "ancient-changesk"), *KEPT[1:]]),
        # merged into itself it is no more, as upstream
        ("2ka", KEPT),
        ("3", [KEPT[0], ("ancient-changes", "v1", "2l", "ancient-changesl"), *KEPT[2:]]),
    ],
)
def test_what_was_merged_before_takes_more(time: str, first: list[tuple[str, ...]]) -> None:
    assert capped_names(*TEN, ("ancient-changes", "v1", time)) == first


def conflicts(*given: tuple[Manager, str]) -> list[Conflict]:
    return [Conflict(manager, (f"f:{name}",)) for manager, name in given]


A, B = Manager("a", "Apply", ""), Manager("b", "Update", "v1", "status")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([(A, "x")], 'Apply failed with 1 conflict: conflict with "a": .x'),
        ([(B, "x")], 'Apply failed with 1 conflict: conflict with "b" with subresource "status" using v1: .x'),
        ([(B, "x"), (A, "y"), (B, "z")],
         'Apply failed with 3 conflicts: conflicts with "a":\n- .y\nconflicts with "b" with subresource "status" using v1:\n'
         "- .x\n- .z"),
        ([(Manager("a", "Update", "v1"), "x"), (A, "y")],
         'Apply failed with 2 conflicts: conflicts with "a":\n- .y\nconflicts with "a" using v1:\n- .x'),
    ],
)  # fmt: skip
def test_conflicts_are_listed_by_manager(given: list[tuple[Manager, str]], text: str) -> None:
    found = Conflicts(conflicts(*given))
    assert str(found) == message(found.conflicts) == found.status().message == text
    assert found.fields == {f"f:{name}": {} for _, name in given}
    causes = found.status().details["causes"]
    assert [(cause["reason"], cause["field"]) for cause in causes] == [
        ("FieldManagerConflict", f".{n}") for _, n in given
    ]
    assert causes[0]["message"] == f"conflict with {given[0][0]}"


def stored(fields: Any = None, time: str = "1", **more: Any) -> dict[str, Any]:
    metadata = {
        "name": "a",
        "resourceVersion": time,
        "managedFields": [entry(time=time), entry(manager="n", fieldsV1=fields or {})],
    }
    return {"metadata": {**metadata, **more.pop("metadata", {})}, "data": {"a": "1"}, **more}


@pytest.mark.parametrize(
    ("new", "alike"),
    [
        (stored(time="2"), True),
        (stored(), False),  # nothing differs: the stored entries are the same ones
        (stored(time="2", data={"a": "2"}), False),
        (stored(time="2", more=1), False),
        (stored({"f:b": {}}, time="2"), False),
        (stored(time="2", metadata={"labels": {"a": "b"}}), False),
        (stored(time="2", metadata={"name": "b"}), False),
        (stored(time="2", metadata={"managedFields": [entry(time="2")]}), False),
        (stored(time="2", metadata={"managedFields": []}), False),
        (stored(time="2", metadata={"managedFields": None}), False),
    ],
)
def test_a_write_that_changes_only_times(new: dict[str, Any], alike: bool) -> None:
    assert only_timestamps_differ(new, stored()) is alike
    assert only_timestamps_differ(stored(), new) is alike
    assert not only_timestamps_differ({key: value for key, value in new.items() if key != "data"}, stored())


@pytest.mark.parametrize(
    ("entries", "resets"),
    [([], True), ([{}], True), ([{"manager": "", "time": None}], True), ([{"manager": "a"}], False), ([{}, {}], False),
     (None, False), ({}, False), ([None], False), ("x", False)],
)  # fmt: skip
def test_ownership_is_reset_by_no_entry_or_an_empty_one(entries: Any, resets: bool) -> None:
    assert is_reset(entries) is resets
