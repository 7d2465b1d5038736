"""Finds the extension for a command line; without ``--testbed`` nothing of ``kapi.testbed`` is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kapi.machinery.golang import parse_bool

if TYPE_CHECKING:
    from kapi.assembly.extension import Extension

_SWITCH = "--testbed"


def extension_for(arguments: Sequence[str]) -> Extension | None:
    """The testbed if ``--testbed`` is set, else None.  The parser of the flags reports an invalid value."""
    given = next((flag for flag in reversed(arguments) if flag.partition("=")[0] == _SWITCH), f"{_SWITCH}=false")
    try:
        if not parse_bool(given.partition("=")[2] or "true"):
            return None
    except ValueError:
        return None
    from kapi.testbed.extension import Testbed

    return Testbed()
