"""Flags that are lists: comma-separated, with quotes as in CSV.  The messages are kubectl's."""

from __future__ import annotations

from pathlib import Path

import pytest

from kapi.kubectl.flags import FILENAME, Flags, UsageError, read_record
from kapi.kubectl.messages import CommandError
from kapi.kubectl.visitor import expand_paths

BARE, UNBALANCED = 'bare " in non-quoted-field', 'extraneous or missing " in quoted-field'


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("a,b", ["a", "b"]), ('"a""b",c', ['a"b', "c"]), ("a,", ["a", ""]), (",", ["", ""]), ('""', [""]), ("a\r", ["a"]),
        ("a\nb", ["a"]), ("\n\na", ["a"]), ('"a\nb",c', ["a\nb", "c"]), ('"a,b"\r\nc', ["a,b"]),
    ],
)  # fmt: skip
def test_the_first_line_counts(text: str, fields: list[str]) -> None:
    assert read_record(text) == fields


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"a', f"parse error on line 1, column 3: {UNBALANCED}"),
        ('"a"b', f"parse error on line 1, column 3: {UNBALANCED}"),
        ('x,"é"y', f"parse error on line 1, column 6: {UNBALANCED}"),
        ('a"b', f"parse error on line 1, column 2: {BARE}"),
        ('"a\nb"c', f"record on line 1; parse error on line 2, column 2: {UNBALANCED}"),
        ("\n", "EOF"),
    ],
)
def test_quotes_that_are_not_balanced_are_a_usage_error(text: str, problem: str) -> None:
    shown = f'invalid argument "{text}" for "-f, --filename" flag: {problem}'
    with pytest.raises(UsageError) as caught:
        Flags(FILENAME).parse(["-f", text])
    assert str(caught.value) == shown


def test_a_directory_without_manifests_is_named_as_it_is(tmp_path: Path) -> None:
    """also when its name holds a comma or a quote"""
    directory = tmp_path / "it's, here"
    directory.mkdir()
    with pytest.raises(CommandError) as caught:
        expand_paths(str(directory), False)
    assert str(caught.value) == f"error reading [{directory}]: recognized file extensions are [.json .yaml .yml]"
