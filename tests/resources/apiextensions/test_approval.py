"""Definitions in groups of Kubernetes itself need an approval, or a reason why there is none."""

from __future__ import annotations

import pytest

from kapi.machinery.tree import Object
from kapi.resources.apiextensions.approval import APPROVED, approval_errors

KEP = "https://github.com/kubernetes/enhancements/pull/1111"
MISSING = f'Required value: protected groups must have approval annotation "{APPROVED}", see {KEP}'
INVALID = (
    f'protected groups must have approval annotation "{APPROVED}" with either a URL or a reason starting with "unapproved", '
    f"see {KEP}"
)


def crd(value: str | None, group: str = "a.k8s.io") -> Object:
    return {"metadata": {} if value is None else {"annotations": {APPROVED: value}}, "spec": {"group": group}}


def texts(new: Object, old: Object | None = None) -> list[str]:
    return [str(error).removeprefix(f"metadata.annotations[{APPROVED}]: ") for error in approval_errors(new, old)]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, [MISSING]),
        ("", [MISSING]),
        ("unapproved, an experiment", []),
        (KEP, []),
        ("/a/path", [f'Invalid value: "/a/path": {INVALID}']),
        ("x", [f'Invalid value: "x": {INVALID}']),
    ],
)
def test_approval(value: str | None, wanted: list[str]) -> None:
    assert texts(crd(value)) == wanted


@pytest.mark.parametrize(
    ("group", "protected"),
    [
        ("k8s.io", True), ("kubernetes.io", True), ("a.k8s.io", True), ("a.kubernetes.io", True), ("ak8s.io", False),
        ("example.com", False),
    ],
)  # fmt: skip
def test_protected_groups(group: str, protected: bool) -> None:
    assert texts(crd(None, group)) == ([MISSING] if protected else [])


def test_what_was_wrong_may_stay_but_not_become_wrong_otherwise() -> None:
    assert texts(crd(None), crd(None)) == []
    assert texts(crd("x"), crd("y")) == []
    assert texts(crd("x"), crd(None)) == [f'Invalid value: "x": {INVALID}']
    assert texts(crd(None), crd(KEP)) == [MISSING]
