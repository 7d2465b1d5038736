"""Which names a definition gets: conflicts, what becomes free, what stays held."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from kapi.machinery.tree import Object
from kapi.process.slices import Slices
from kapi.resources.apiextensions.internal import condition, is_true
from kapi.servers.apiextensions import names
from tests.growth.counting import lines
from tests.turns import one_turn


def definition(plural: str, kind: str, **more: Any) -> Object:
    wanted = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List", **more}
    return {"metadata": {"name": f"{plural}.example.com"}, "spec": {"group": "example.com", "names": wanted}}


def accept(crd: Object, taken: names.GroupNames) -> bool:
    changed = names.accept_names(crd, taken, "now")
    taken.update(crd)
    return changed


def test_free_names_are_accepted_and_installing_begins() -> None:
    taken, crd = names.GroupNames(), definition("foos", "Foo", shortNames=["f"])
    assert accept(crd, taken)
    assert crd["status"]["acceptedNames"] == crd["spec"]["names"]
    assert is_true(crd, "NamesAccepted")
    assert (condition(crd, "Established") or {})["reason"] == "Installing"
    assert not accept(crd, taken)  # a second look changes nothing
    assert not taken.waiting


def test_what_another_one_holds_is_refused_by_its_name() -> None:
    taken = names.GroupNames()
    accept(definition("foos", "Foo", shortNames=["f", "fo"]), taken)
    second = definition("bars", "Bar", shortNames=["f", "b", "fo"])
    accept(second, taken)
    naming = condition(second, "NamesAccepted") or {}
    assert (naming["status"], naming["reason"]) == ("False", "ShortNamesConflict")
    assert naming["message"] == '["f" is already in use, "fo" is already in use]'
    assert "shortNames" not in second["status"]["acceptedNames"]
    assert second["status"]["acceptedNames"]["plural"] == "bars"
    assert (condition(second, "Established") or {})["status"] == "False"
    assert taken.waiting == {"bars.example.com"}


def test_kinds_and_resources_are_different_names() -> None:
    taken = names.GroupNames()
    accept(definition("foos", "Foo"), taken)
    third = definition("others", "foos")  # a kind may be called as another's resource
    third["spec"]["names"]["singular"] = "other"
    assert accept(third, taken) and is_true(third, "NamesAccepted")
    fourth = definition("fourths", "Foo", singular="fourth")
    accept(fourth, taken)
    assert (condition(fourth, "NamesAccepted") or {})["reason"] == "ListKindConflict"
    assert (condition(fourth, "NamesAccepted") or {})["message"] == '"FooList" is already in use'


def test_a_name_becomes_free_when_its_holder_goes() -> None:
    taken = names.GroupNames()
    accept(definition("foos", "Foo", shortNames=["f"]), taken)
    second = definition("bars", "Bar", shortNames=["f"])
    accept(second, taken)
    taken.remove("foos.example.com")
    assert accept(second, taken)
    assert is_true(second, "NamesAccepted") and not taken.waiting


def test_a_name_that_is_given_up_is_free_and_one_that_is_refused_stays_as_it_was() -> None:
    taken = names.GroupNames()
    first, second = definition("foos", "Foo", shortNames=["f"]), definition("bars", "Bar", shortNames=["b"])
    accept(first, taken)
    accept(second, taken)
    second["spec"]["names"]["shortNames"] = ["f"]
    accept(second, taken)
    assert second["status"]["acceptedNames"]["shortNames"] == ["b"]  # still its own
    first["spec"]["names"]["shortNames"] = ["x"]
    accept(first, taken)
    assert accept(second, taken)
    assert second["status"]["acceptedNames"]["shortNames"] == ["f"]


def test_a_singular_may_be_the_plural() -> None:
    taken = names.GroupNames()
    crd = definition("fish", "Fish", singular="fish", shortNames=["fish"])
    assert accept(crd, taken)
    taken.remove("fish.example.com")
    assert not taken.resources.used_by_others("other.example.com", "fish")


def test_thousands_of_short_names_are_held_at_once() -> None:
    """As few lines as for a thousand: nobody sees a half of them, and nobody waits."""
    taken = names.GroupNames()
    many = definition("foos", "Foo", shortNames=[f"n{number}" for number in range(20_000)])
    accept(many, taken)
    assert sum(lines(lambda: names.GroupNames().update(many)).values()) < 1000
    other = definition("bars", "Bar", shortNames=["n7", "b"])
    accept(other, taken)
    assert (condition(other, "NamesAccepted") or {})["message"] == '"n7" is already in use'
    assert not accept(many, taken), "its own names are no conflict"
    taken.remove("foos.example.com")
    assert accept(other, taken) and is_true(other, "NamesAccepted")


def test_a_definition_may_come_to_have_more_names_and_fewer_again() -> None:
    taken = names.NameIndex()
    for count in (3, 2000, 5, 3000, 0):
        taken.update("a", tuple(f"n{number}" for number in range(count)))
        assert [taken.used_by_others("b", f"n{number}") for number in (0, 4, 1999)] == [
            count > 0,
            count > 4,
            count > 1999,
        ]
        assert not taken.used_by_others("a", "n0")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "object"}, ""),
        ({"type": "object", "properties": {"a": {}}}, "spec.validation.openAPIV3Schema.properties[a].type: Required"),
        ({"type": "object", "definitions": {"a": {}}}, "OpenAPIV3Schema 'definitions' is not supported"),
    ],
)
def test_a_schema_from_before_schemas_were_structural_is_told_about(schema: Object, message: str) -> None:
    crd = definition("foos", "Foo")
    crd["spec"]["versions"] = [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]
    before = {"type": "NonStructuralSchema", "status": "True", "message": "of an earlier schema"}
    crd["status"] = {"conditions": [before]}
    assert names.structural_condition(crd, "now")
    found = condition(crd, "NonStructuralSchema")
    assert (found is None) if not message else (found is not None and found["message"].startswith(message))


@pytest.mark.parametrize(
    ("spec", "before", "changed", "message"),
    [
        ({}, None, False, None),
        ({"preserveUnknownFields": True}, None, True, "spec.preserveUnknownFields: Invalid value: true: must be false"),
        ({"preserveUnknownFields": True}, ("True", "spec.preserveUnknownFields: Invalid value: true: must be false"), False,
         "spec.preserveUnknownFields: Invalid value: true: must be false"),
        ({"preserveUnknownFields": True}, ("False", "spec.preserveUnknownFields: Invalid value: true: must be false"), True,
         "spec.preserveUnknownFields: Invalid value: true: must be false"),
        ({"preserveUnknownFields": True}, ("True", "another"), True,
         "spec.preserveUnknownFields: Invalid value: true: must be false"),
        ({}, ("True", "another"), True, None),
    ],
)  # fmt: skip
def test_a_definition_that_keeps_unknown_fields_is_not_structural(
    spec: Object, before: tuple[str, str] | None, changed: bool, message: str | None
) -> None:
    crd = definition("foos", "Foo")
    crd["spec"] |= spec
    other = {"type": "Established", "status": "True"}
    crd["status"] = {"conditions": [other]}
    if before is not None:
        status, text = before
        crd["status"]["conditions"].append({"type": "NonStructuralSchema", "status": status, "message": text})
    assert names.structural_condition(crd, "now") is changed
    found = condition(crd, "NonStructuralSchema")
    assert (found or {}).get("message") == message
    if changed and found is not None:
        assert (found["status"], found["reason"]) == ("True", "Violations")
    assert crd["status"]["conditions"][0] == other


def test_thousands_of_names_are_taken_up_in_steps_and_what_begins_later_counts() -> None:
    clock, taken = Clock(), names.NameIndex()
    call = Slices(clock, length=-1.0).call
    first, second = (tuple(f"{start}{number}" for number in range(5000)) for start in "ab")
    held, turns = call(taken.update, "one", first), 0
    while not held.called:
        assert not taken.used_by_others("two", "a7")
        one_turn(clock)
        turns += 1
    assert turns > 50
    assert taken.used_by_others("two", "a7")
    earlier, later = call(taken.update, "one", second), call(taken.update, "one", ("c",))
    assert later.called
    while not earlier.called:
        one_turn(clock)
    assert [name for name in ("a7", "b7", "c") if taken.used_by_others("two", name)] == ["c"]


@pytest.mark.parametrize(
    ("before", "new", "wanted"),
    [
        (None, ("True", "R", "M"), ("True", "R", "M", "now")),
        (("True", "old", "old", "then"), ("True", "R", "M"), ("True", "R", "M", "then")),
        (("True", "old", "old", None), ("True", "R", "M"), ("True", "R", "M", "now")),
        (("False", "old", "old", "then"), ("True", "R", "M"), ("True", "R", "M", "now")),
    ],
)
def test_the_time_of_a_condition_changes_with_its_status_alone(
    before: tuple[str, ...] | None, new: tuple[str, ...], wanted: tuple[str, ...]
) -> None:
    keys = ("status", "reason", "message", "lastTransitionTime")
    others = [{"type": "A", "status": "True"}, {"type": "Z", "status": "False"}]
    held = others if before is None else [others[0], {"type": "T", **dict(zip(keys, before, strict=True))}, others[1]]
    crd: Object = {"status": {"conditions": list(held)}}
    names.set_condition(crd, {"type": "T", **dict(zip(keys, new, strict=False))}, "now")
    index = 2 if before is None else 1
    found = crd["status"]["conditions"]
    assert found[index] == {"type": "T", **dict(zip(keys, wanted, strict=True))}
    assert [item for item in found if item["type"] != "T"] == others


@pytest.mark.parametrize("state", [{}, {"conditions": None}])
def test_the_first_condition_may_bring_its_time(state: Object) -> None:
    crd: Object = {"status": state}
    new = {"type": "T", "status": "True", "reason": "R", "message": "M", "lastTransitionTime": "then"}
    names.set_condition(crd, new, "now")
    assert crd["status"]["conditions"] == [new]


@pytest.mark.parametrize(
    ("taken", "reason", "message"),
    [
        ({"plural": "bars"}, "PluralConflict", '"bars" is already in use'),
        ({"singular": "bars"}, "PluralConflict", '"bars" is already in use'),
        ({"shortNames": ["x", "bar"]}, "SingularConflict", '"bar" is already in use'),
        ({"plural": "b"}, "ShortNamesConflict", '"b" is already in use'),
        ({"shortNames": ["b", "br"]}, "ShortNamesConflict", '["b" is already in use, "br" is already in use]'),
        ({"kind": "Bar"}, "KindConflict", '"Bar" is already in use'),
        ({"listKind": "Bar"}, "KindConflict", '"Bar" is already in use'),
        ({"kind": "BarList"}, "ListKindConflict", '"BarList" is already in use'),
        # the last one is told
        ({"plural": "bars", "singular": "bar"}, "SingularConflict", '"bar" is already in use'),
        ({"plural": "bars", "kind": "Bar", "listKind": "BarList"}, "ListKindConflict", '"BarList" is already in use'),
        ({"categories": ["all"], "shortNames": ["Bar"], "kind": "bar"}, "", ""),
    ],
)
def test_each_name_is_taken_by_one_definition(taken: Object, reason: str, message: str) -> None:
    held = names.GroupNames()
    holder = definition("foos", "Foo")
    holder["spec"]["names"] |= taken
    accept(holder, held)
    crd = definition("bars", "Bar", shortNames=["b", "br"], categories=["all"])
    assert accept(crd, held)
    naming = condition(crd, "NamesAccepted")
    wanted = ("False", reason, message) if reason else ("True", "NoConflicts", "no conflicts found")
    assert naming is not None
    assert (naming["status"], naming["reason"], naming["message"]) == wanted
    established = condition(crd, "Established") or {}
    assert (established["reason"], established["message"]) == (
        ("NotAccepted", "not all names are accepted")
        if reason
        else ("Installing", "the initial names have been accepted")
    )
    accepted = crd["status"]["acceptedNames"]
    assert accepted["categories"] == ["all"]
    assert (accepted == crd["spec"]["names"]) is not bool(reason)
    assert bool(held.waiting) is bool(reason)


def test_what_was_accepted_stays_established_when_a_new_name_is_taken() -> None:
    held = names.GroupNames()
    crd = definition("bars", "Bar")
    accept(crd, held)
    assert names.establish(crd, "now")
    accept(definition("foos", "Foo", shortNames=["f"]), held)
    crd["spec"]["names"]["shortNames"] = ["f"]
    assert accept(crd, held)
    assert is_true(crd, "Established") and not is_true(crd, "NamesAccepted")
    assert not names.establish(crd, "later")


@pytest.mark.parametrize(
    ("naming", "established", "changed", "wanted"),
    [
        (None, None, False, None),
        ("False", None, False, None),
        ("True", None, True, ("True", "InitialNamesAccepted", "the initial names have been accepted")),
        ("True", "False", True, ("True", "InitialNamesAccepted", "the initial names have been accepted")),
        ("True", "True", False, ("True", "", "")),
    ],
)
def test_a_definition_with_its_names_is_established(
    naming: str | None, established: str | None, changed: bool, wanted: tuple[str, ...] | None
) -> None:
    crd = definition("foos", "Foo")
    conditions = [{"type": "NamesAccepted", "status": naming}] if naming else []
    if established:
        conditions.append({"type": "Established", "status": established, "reason": "", "message": ""})
    crd["status"] = {"conditions": conditions}
    assert names.establish(crd, "now") is changed
    found = condition(crd, "Established")
    assert (found and tuple(found[key] for key in ("status", "reason", "message"))) == wanted


SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
ANNOTATION = 'protected groups must have approval annotation "api-approved.kubernetes.io"'


@pytest.mark.parametrize(
    ("group", "value", "wanted"),
    [
        ("example.com", None, None),
        ("notk8s.io", None, None),
        ("notkubernetes.io", None, None),
        ("k8s.io", None, ("False", "MissingAnnotation", f"{ANNOTATION}, {SEE}")),
        ("a.k8s.io", "", ("False", "MissingAnnotation", f"{ANNOTATION}, {SEE}")),
        ("kubernetes.io", "unapproved, tests", ("False", "UnapprovedAnnotation", 'not approved: "unapproved, tests"')),
        ("a.kubernetes.io", "https://x/1", ("True", "ApprovedAnnotation", "approved in https://x/1")),
        *(
            ("k8s.io", value,
             ("False", "InvalidAnnotation", f'{ANNOTATION} with either a URL or a reason starting with "unapproved", {SEE}'))
            for value in ("x/1", "//x/1", "https:///1", "%zz", "an unapproved one")
        ),
    ],
)  # fmt: skip
def test_groups_of_the_community_are_approved_by_an_annotation(
    group: str, value: str | None, wanted: tuple[str, ...] | None
) -> None:
    crd = definition("foos", "Foo")
    crd["spec"]["group"] = group
    crd["status"] = {}
    if value is not None:
        crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": value}
    assert names.approval_condition(crd, "now") is (wanted is not None)
    found = condition(crd, "KubernetesAPIApprovalPolicyConformant")
    assert (found and tuple(found[key] for key in ("status", "reason", "message"))) == wanted
    assert not names.approval_condition(crd, "later")
    if wanted is not None:
        crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, of late"}
        assert names.approval_condition(crd, "later")
        assert (condition(crd, "KubernetesAPIApprovalPolicyConformant") or {})["reason"] == "UnapprovedAnnotation"


def test_all_schemas_of_a_definition_are_looked_at() -> None:
    crd = definition("foos", "Foo")
    wrong: Object = {"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}
    right: Object = {"openAPIV3Schema": {"type": "object"}}
    crd["spec"]["versions"] = [{"name": "v1", "schema": right}, {"name": "v2"}, {"name": "v3", "schema": wrong}]
    crd["spec"]["preserveUnknownFields"] = True
    crd["status"] = {}
    assert names.structural_condition(crd, "now")
    assert (condition(crd, "NonStructuralSchema") or {})["message"] == (
        "[spec.preserveUnknownFields: Invalid value: true: must be false, "
        "spec.versions[2].schema.openAPIV3Schema.properties[a].type: Required value: "
        "must not be empty for specified object fields]"
    )


def test_a_definition_waits_until_its_names_are_accepted_or_it_goes() -> None:
    held = names.GroupNames()
    crd = definition("foos", "Foo")
    held.update(crd)
    assert held.waiting == {"foos.example.com"}
    held.remove("foos.example.com")
    assert not held.waiting
    crd["status"] = {
        "conditions": [{"type": "NamesAccepted", "status": "True"}],
        "acceptedNames": {"plural": "p", "kind": "K"},
    }
    held.update(crd)
    assert not held.waiting
    taken = [name for name in ("p", "K", "", "foos", "Foo") if held.resources.used_by_others("x", name)]
    assert (taken, held.kinds.used_by_others("x", "K")) == (["p"], True)
    assert not held.resources.used_by_others("foos.example.com", "p")
