"""How kubectl prints what a JSONPath template finds (``tests/machinery/test_jsonpath.py`` has what it finds)."""

from __future__ import annotations

from kapi.kubectl.jsonpath import Template


def test_null_is_shown_as_json_does() -> None:
    assert Template("{.a} {.b[*]}{.c}").expand({"a": None, "b": [None, 1], "c": {}}) == "null null 1{}"
