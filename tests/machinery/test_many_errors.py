"""What a 422 says has a bound, however much is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery import checkpoint, field, status
from kapi.machinery.field import ErrorType, FieldError
from kapi.machinery.gvk import GroupKind
from kapi.resources.shared.internal import difference

KIND = GroupKind("", "Pod")


def details(errors: list[FieldError]) -> tuple[str, list[dict[str, str]]]:
    found = status.invalid(KIND, "x", errors)
    assert found.status["message"] == found.message
    return found.message, found.status["details"]["causes"]


def test_causes_end_where_they_are_too_long_and_the_others_are_counted() -> None:
    value = "v" * (status.MAX_CAUSES // 4)
    errors = [field.invalid(f"spec.f{number}", value, "is wrong") for number in range(10)]
    message, causes = details(errors)
    assert [cause["field"] for cause in causes] == ["spec.f0", "spec.f1", "spec.f2", "spec.f3"]
    assert message.endswith('": is wrong, and 6 more errors]')
    assert len(message) < 1.1 * status.MAX_CAUSES


def test_errors_that_just_fit_are_all_named() -> None:
    errors = [field.invalid(f"spec.f{number}", "v" * (status.MAX_CAUSES // 4), "is wrong") for number in range(4)]
    message, causes = details(errors)
    assert len(causes) == 4 and "more errors" not in message


def test_equal_errors_are_causes_each_and_named_once() -> None:
    message, causes = details([field.required("spec.a")] * 3)
    assert len(causes) == 3 and message == 'Pod "x" is invalid: spec.a: Required value'


@pytest.mark.parametrize(("times", "kept"), [(3, 5), (field.MAX_ERRORS, field.MAX_ERRORS), (10**12, field.MAX_ERRORS)])
def test_an_error_is_repeated_as_often_as_an_answer_may_name_it(times: int, kept: int) -> None:
    errors = [field.required("a"), field.required("b")]
    field.repeat(errors, field.required("c"), times)
    assert len(errors) == kept
    field.repeat(errors, field.required("d"), 10**12)
    assert len(errors) == field.MAX_ERRORS


def spec(count: int, *changed: int) -> dict[str, object]:
    return {"nodeSelector": {f"k{number:05}": "b" if number in changed else "a" for number in range(count)}}


def test_a_difference_of_few_lines_is_shown_change_by_change() -> None:
    text = difference("PodSpec", spec(100), spec(100, 10, 90))
    assert text.count("@@ -") == 2 and text.count("\n-") == 2 and text.count("\n+") == 2


def test_a_difference_of_many_lines_is_shown_as_one_change() -> None:
    text = difference("PodSpec", spec(2000), spec(2000, 10, 1990))
    lines = text.splitlines()
    assert sum(line.startswith("@@") for line in lines) == 1
    assert [line[0] for line in lines[1:4]] == [line[0] for line in lines[-3:]] == [" "] * 3
    removed, added = ([line[1:] for line in lines if line.startswith(sign)] for sign in "-+")
    assert len(removed) == len(added) == 1981
    assert [(one, other) for one, other in zip(removed, added, strict=True) if one != other] == [
        ('  "k00010": "a",', '  "k00010": "b",'), ('  "k01990": "a",', '  "k01990": "b",'),
    ]  # fmt: skip
    assert difference("PodSpec", spec(2000), spec(2000)) == ""


def test_joining_and_writing_the_causes_are_pieces_of_their_own() -> None:
    """Each may be a call on megabytes."""
    seen: list[str] = []

    class Slice:
        until = float("-inf")

        def pause(self) -> None:
            seen.append("others")

        def commit(self) -> None: ...

        def engage(self) -> bool:
            return True

    class Cause(FieldError):
        def cause(self) -> dict[str, Any]:
            seen.append("cause")
            return {"message": "x"}

    before = checkpoint.running
    checkpoint.running = Slice()
    try:
        errors = [Cause(ErrorType.INVALID, "f", n, "") for n in range(2)]
        status.invalid(KIND, "x", errors)
    finally:
        checkpoint.running = before
    assert seen[seen.index("cause") :] == ["cause", "cause", "others", "others"]
