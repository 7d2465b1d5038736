"""Parsing of a large JSON text with checkpoints, by the standard library's scanner in Python.

With a hook for pairs the scanner in C takes a tenth of a second for 3 MB and cannot be interrupted.  This one takes three times
as long, but other work runs meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]  # typeshed leaves them out
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.tree import Tree

LARGE = 256 * 1024  # characters from which it is used
_VALUES_PER_CHECKPOINT = 100
Scan = Callable[[str, int], tuple[Tree, int]]


class SteppingDecoder(json.JSONDecoder):
    """As ``json.JSONDecoder``, with the same hooks."""

    def __init__(self, **hooks: Any) -> None:
        super().__init__(**hooks)
        self._left = _VALUES_PER_CHECKPOINT
        self.parse_object = self._object
        self.parse_array = self._array
        self.scan_once = py_make_scanner(self)

    def _object(self, place: tuple[str, int], strict: bool, scan: Scan, *hooks: object) -> Tree:
        return JSONObject(place, strict, self._stepping(scan), *hooks)

    def _array(self, place: tuple[str, int], scan: Scan) -> Tree:
        return JSONArray(place, self._stepping(scan))

    def _stepping(self, scan: Scan) -> Scan:
        def step(text: str, position: int) -> tuple[Tree, int]:
            self._left -= 1
            if not self._left:
                self._left = _VALUES_PER_CHECKPOINT
                checkpoint()
            return scan(text, position)

        return step
