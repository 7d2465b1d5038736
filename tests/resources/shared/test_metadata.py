"""Metadata on create and on update."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.shared.metadata import validate_conditions, validate_metadata, validate_metadata_update
from tests.resources.strategy_kit import short


def told(metadata: Object) -> list[str]:
    errors: list[Any] = []
    validate_metadata({"metadata": {"name": "a", "namespace": "n"} | metadata}, errors)
    return [str(error) for error in errors]


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"name": ""}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "A_b"}, 'metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of'),
        ({"name": "a" * 254}, "metadata.name: Invalid value: "),
        ({"namespace": ""}, "metadata.namespace: Required value"),
        ({"labels": {"a b": "c"}}, 'metadata.labels: Invalid value: "a b": name part must consist of'),
        ({"labels": {"a": "-"}}, 'metadata.labels: Invalid value: "-": a valid label must be an empty string'),
        ({"annotations": {"/": ""}}, 'metadata.annotations: Invalid value: "/": '),
        ({"annotations": {"a": "x" * (1 << 18)}}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        ({"finalizers": ["a b"]}, 'metadata.finalizers: Invalid value: "a b": name part must consist of'),
        ({"namespace": "A"}, 'metadata.namespace: Invalid value: "A": a lowercase RFC 1123 label must'),
        ({"generation": -1}, "metadata.generation: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"finalizers": ["orphan", "foregroundDeletion"]},
            'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
            "finalizer orphan and foregroundDeletion cannot be both set",
        ),
        ({"ownerReferences": [{}]}, "metadata.ownerReferences.apiVersion: Invalid value"),
        ({"ownerReferences": [{}]}, 'metadata.ownerReferences.kind: Invalid value: "": must not be empty'),
        ({"ownerReferences": [{}]}, 'metadata.ownerReferences.name: Invalid value: "": must not be empty'),
        ({"ownerReferences": [{}]}, 'metadata.ownerReferences.uid: Invalid value: "": must not be empty'),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]},
            'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e","uid":"u"}: '
            "/v1, Kind=Event is disallowed from being an owner",
        ),
        (
            {"managedFields": [{"operation": "Create", "fieldsType": "FieldsV1"}]},
            'metadata.managedFields[0].operation: Invalid value: "Create": must be `Apply` or `Update`',
        ),
        (
            {"managedFields": [{"operation": "Apply", "fieldsType": "FieldsV2"}]},
            'metadata.managedFields[0].fieldsType: Invalid value: "FieldsV2": must be `FieldsV1`',
        ),
        (
            {"managedFields": [{"operation": "Apply", "fieldsType": "FieldsV1", "manager": "a" * 129}]},
            "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
        ),
        (
            {"managedFields": [{"operation": "Apply", "fieldsType": "FieldsV1", "manager": "a\t"}]},
            'metadata.managedFields[0].manager: Invalid value: "a\\t": invalid character U+0009 (at position 1)',
        ),
        (
            {"managedFields": [{"operation": "Apply", "fieldsType": "FieldsV1", "subresource": "a" * 257}]},
            "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
        ),
    ],
)
def test_what_metadata_may_not_be(metadata: Object, text: str) -> None:
    assert any(line.startswith(text) for line in told(metadata)), told(metadata)


def test_plain_metadata_is_fine() -> None:
    assert (
        told({"labels": {"example.com/a": "b"}, "annotations": {"A.b/c": "anything: \n"}, "finalizers": ["a/b"]}) == []
    )


def test_one_controller_at_most() -> None:
    owner = {"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u", "controller": True}
    assert told({"ownerReferences": [owner]}) == []
    lines = told({"ownerReferences": [owner, owner | {"name": "p"}]})
    assert len(lines) == 1 and "Only one reference can have Controller set to true" in lines[0]


def test_names_and_uids_stay() -> None:
    old = {"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"}}
    new = {"metadata": {"name": "b", "namespace": "n", "uid": "w", "resourceVersion": "1"}}
    errors: list[Any] = []
    validate_metadata_update(new, old, errors)
    assert [error.field for error in errors] == ["metadata.name", "metadata.uid"]
    assert all(error.detail == "field is immutable" for error in errors)


def test_an_object_without_a_namespace_has_none() -> None:
    errors: list[Any] = []
    validate_metadata({"metadata": {"name": "a", "namespace": "n"}}, errors, namespaced=False)
    assert [str(error) for error in errors] == ["metadata.namespace: Forbidden: not allowed on this type"]


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"resourceVersion": ""}, 'metadata.resourceVersion: Invalid value: "": must be specified for an update'),
        ({"generation": 1}, "metadata.generation: Invalid value: 1: must not be decremented"),
        ({"generation": 2}, ""),
        (
            {"managedFields": [{"operation": "X", "fieldsType": "FieldsV1"}]},
            'metadata.managedFields[0].operation: Invalid value: "X": must be `Apply` or `Update`',
        ),
    ],
)
def test_what_a_change_of_metadata_may_not_be(metadata: Object, text: str) -> None:
    old = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 2}
    errors: list[Any] = []
    validate_metadata_update({"metadata": old | metadata}, {"metadata": old}, errors)
    assert [str(error) for error in errors] == ([text] if text else [])


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (None, None, None), (0, None, None), (None, 0, None), (1, None, 0), (1, 0, 0), (1, 1, None), (1, 2, None), (2, 1, 1),
        (None, 1, None),
    ],
)  # fmt: skip
def test_generations_only_grow(before: int | None, after: int | None, shown: int | None) -> None:
    old, new = ({"resourceVersion": "1", **({} if each is None else {"generation": each})} for each in (before, after))
    errors: list[Any] = []
    validate_metadata_update({"metadata": new}, {"metadata": old}, errors)
    text = f"metadata.generation: Invalid value: {shown}: must not be decremented"
    assert [str(error) for error in errors] == ([] if shown is None else [text])


@pytest.mark.parametrize(
    ("manager", "subresource", "texts"),
    [
        ("\U0001f600" * 32, "s" * 32, []), ("\U0001f600" * 33, "", ["manager: Too long: may not be more than 128 bytes"]),
        ("m" * 128, "s" * 256, []), ("m" * 129, "", ["manager: Too long: may not be more than 128 bytes"]),
        ("m", "s" * 257, ["subresource: Too long: may not be more than 256 bytes"]),
    ],
)  # fmt: skip
def test_names_of_managers_are_short(manager: str, subresource: str, texts: list[str]) -> None:
    entry = {"manager": manager, "subresource": subresource, "operation": "Update", "fieldsType": "FieldsV1"}
    metadata = {"name": "a", "resourceVersion": "1", "managedFields": [entry]}
    errors: list[Any] = []
    validate_metadata_update({"metadata": metadata}, {"metadata": {**metadata, "managedFields": []}}, errors)
    assert [str(error) for error in errors] == [f"metadata.managedFields[0].{text}" for text in texts]


CONDITION = {"type": "Ready", "status": "True", "reason": "Good", "lastTransitionTime": "2024-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("condition", "texts"),
    [
        ({"message": "m" * (32 << 10), "reason": "R" * 1024, "observedGeneration": 0}, []),
        ({"type": "-"}, ['.type: Invalid value: "-": <name part>']),
        ({"status": "Yes"}, ['.status: Unsupported value: "Yes": supported values: "False", "True", "Unknown"']),
        ({"observedGeneration": -1}, [".observedGeneration: Invalid value: -1: must be greater than or equal to zero"]),
        ({"lastTransitionTime": None}, [".lastTransitionTime: Required value"]),
        ({"reason": ""}, [".reason: Required value"]),
        ({"reason": "R" * 1025}, [".reason: Too long: may not be more than 1024 bytes"]),
        ({"message": "m" * ((32 << 10) + 1)}, [".message: Too long: may not be more than 32768 bytes"]),
    ],
)  # fmt: skip
def test_conditions(condition: Object, texts: list[str]) -> None:
    errors: list[Any] = []
    validate_conditions([CONDITION | {"type": "Other"}, CONDITION | condition], Path("status"), errors)
    assert short([str(error) for error in errors], "status[1]") == texts


def test_a_condition_has_its_type_alone_and_a_reason_with_a_form() -> None:
    errors: list[Any] = []
    validate_conditions([CONDITION, CONDITION | {"reason": "no reason"}], Path("status"), errors)
    assert [str(error) for error in errors] == [
        'status[1].type: Duplicate value: "Ready"',
        'status[1].reason: Invalid value: "no reason": a condition reason must start with alphabetic character, optionally '
        "followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' "
        "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for "
        "validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
    ]


def test_no_finalizers_for_what_is_being_deleted() -> None:
    base = {"name": "a", "uid": "u", "resourceVersion": "1", "deletionTimestamp": "2024-01-01T00:00:00Z"}
    base["deletionGracePeriodSeconds"] = 0  # type: ignore[assignment]
    errors: list[Any] = []
    validate_metadata_update(
        {"metadata": base | {"finalizers": ["a/b", "a/c"]}}, {"metadata": base | {"finalizers": ["a/b"]}}, errors
    )
    assert [str(error) for error in errors] == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"a/c"}'
    ]
