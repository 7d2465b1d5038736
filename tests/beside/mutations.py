"""Objects that a kube-apiserver has accepted, and what becomes of them when one value is odd."""

from __future__ import annotations

import copy
import functools
import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.beside.samples import parent_of, places

_REQUESTS = Path(__file__).parent.parent / "golden" / "requests"
_CREATE = re.compile(r"/(apis?/[^?]*?)(?:/namespaces/[^/]+)?/([a-z]+)(?:\?.*)?")
_ANYTHING: tuple[Any, ...] = (None, "", 0, 1, True, False, {}, [], "x", [None], ["x"], [{}], {"a": "b"}, {"": ""})
_TEXTS = (
    "", "A_b", "-x", "a b", "x" * 64, "x" * 260, "a/b", "é", "1.2.3.4", "::1", "10.0.0.0/8", "0", "a.b", "*", "/", "a=b", "x/y/z",
    "http://a", "1e100", "10000000000000001", "100m", "1Ki", "-1", "2024-01-02", "50%", "a\nb",
)  # fmt: skip
_NUMBERS = (-1, 0, 1, 101, 65536, 2**31 - 1, 2**31, 2**63, 1.5, 1e3)
_KEYS = ("", "A b", "x/y/z", "a" * 64, "-a", "example.com/" + "a" * 64, "kubernetes.io/a", "é")


@functools.cache
def accepted() -> Mapping[tuple[str, str], list[Any]]:
    """Bodies of creates, by the path of the group version ("apis/apps/v1") and the resource."""
    found: dict[tuple[str, str], list[Any]] = {}
    for file in sorted(_REQUESTS.iterdir()):
        for line in file.read_text().splitlines():
            request = json.loads(line)
            match = _CREATE.fullmatch(request["path"])
            if match is not None and request.get("status") == 201 and isinstance(request.get("body"), dict):
                found.setdefault((match[1], match[2]), []).append(request["body"])
    return found


def mutated(tree: Any, chance: random.Random) -> Any:
    """A copy of an object with one value that is odd, missing, repeated, or under an odd key; type and name stay."""
    known = [
        at
        for at in places(tree)
        if at[0] not in ("apiVersion", "kind") and at not in (("metadata",), ("metadata", "name"))
    ]
    changed = copy.deepcopy(tree)
    if not known:
        return changed
    at = chance.choice(known)
    parent = parent_of(changed, at)
    if chance.random() < 0.1:
        del parent[at[-1]]
    else:
        parent[at[-1]] = _odd(parent[at[-1]], chance)
    return changed


def _odd(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.25:
        return chance.choice(_ANYTHING)
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return chance.choice(_NUMBERS)
    if isinstance(value, str):
        return chance.choice(_TEXTS)
    if isinstance(value, list) and value:
        return chance.choice(([], [*value, value[0]], [*value, None], [*value, {}], [value[-1]] * 21))
    if isinstance(value, dict) and value:
        return {**value, chance.choice(_KEYS): chance.choice(list(value.values()))}
    return chance.choice(_ANYTHING)
