"""Patterns of clients: what they may take, and for how long."""

from __future__ import annotations

import sys
from unittest.mock import patch

import pytest

from kapi.cel.errors import EvaluationError
from kapi.cel.standard import compile_pattern
from kapi.machinery import regexps
from kapi.machinery.regexps import MAX_PATTERN_LENGTH, matches, pattern_error

TOO_LARGE = "error parsing regexp: pattern too large - compile failed"


def test_a_pattern_that_is_too_long_is_not_compiled() -> None:
    assert pattern_error("(a|b)*" * 480_000) == TOO_LARGE
    assert pattern_error("(a|b)*" * 40_000) == ""
    assert pattern_error("(" + "a" * 9) == "error parsing regexp: missing closing ): `(aaaaaaaaa`"
    with patch.dict(sys.modules, {"re2": None}):  # nobody is asked
        assert pattern_error("a" * (MAX_PATTERN_LENGTH + 1)) == TOO_LARGE


def test_what_is_kept_has_a_limit() -> None:
    """A few characters can be a program of some MB."""
    regexps.programs.clear()
    with patch.object(regexps, "MAX_KEPT_INSTRUCTIONS", 50_000):
        kept = []
        for number in range(20):
            assert matches(rf"^\pL{{5}}{number}$", f"élève{number}")
            kept.append(regexps.programs.instructions)
    assert 5000 < max(kept) <= 50_000
    assert len(regexps.programs) < 20
    regexps.programs.clear()


def test_an_expression_of_a_user_gets_a_smaller_program_than_a_schema() -> None:
    """``matches`` in CEL is for everybody who may create a ResourceClaim; schemas are for administrators."""
    pattern = r"^[\pL\pN]{1,120}$"
    assert pattern_error(pattern) == ""
    with pytest.raises(EvaluationError, match="pattern too large"):
        compile_pattern(pattern)
    assert compile_pattern(r"^[\pL\pN]{1,60}$").search("élève")
