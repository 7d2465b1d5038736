"""The texts of errors of fields."""

from __future__ import annotations

from kapi.machinery import field


def test_unsupported_values_are_shown_as_json_since_their_go_types_have_names() -> None:
    error = field.not_supported("spec.policy", "<a\u202e>", ["B"])
    assert error.body() == 'Unsupported value: "\\u003ca\u202e\\u003e": supported values: "B"'
    assert "<a\\u202e>" in field.invalid("spec.policy", "<a\u202e>", "no").body(), "others are quoted as Go quotes"
