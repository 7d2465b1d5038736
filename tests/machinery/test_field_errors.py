"""The texts of errors of fields."""

from __future__ import annotations

from kapi.machinery import field


def test_unsupported_values_are_shown_as_json_since_their_go_types_have_names() -> None:
    error = field.not_supported("spec.policy", "<a\u202e>", ["B"])
    assert error.body() == 'Unsupported value: "\\u003ca\u202e\\u003e": supported values: "B"'
    assert "<a\\u202e>" in field.invalid("spec.policy", "<a\u202e>", "no").body(), "others are quoted as Go quotes"


def test_limits_are_named_in_the_singular_or_not_at_all() -> None:
    assert str(field.too_long("a", 1)) == "a: Too long: may not be more than 1 byte"
    assert str(field.too_long("a", 0)) == "a: Too long: may not be more than 0 bytes"
    assert str(field.too_long("a", -1)) == "a: Too long: value is too long"
    assert str(field.too_many("a", 2, 1)) == "a: Too many: 2: must have at most 1 item"
    assert str(field.too_many("a", 0, 0)) == "a: Too many: 0: must have at most 0 items"
    assert str(field.too_many("a", -1, -1)) == "a: Too many: has too many items"
