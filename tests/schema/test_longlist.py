"""Long lists under a JSON patch: the same results as with plain lists."""

from __future__ import annotations

import copy
from typing import Any
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from kapi.schema import jsonpatch
from kapi.schema.jsonpatch import LongList

TOKENS = st.sampled_from(["0", "1", "2", "-1", "-2", "5", "-", "a", "b", ""])
PATHS = st.lists(TOKENS, max_size=3).map(lambda tokens: "".join("/" + token for token in tokens))
LEAVES = st.sampled_from([1, "x", None])
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=12,
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
            "path": PATHS,
            "from": PATHS,
            "value": DOCUMENTS,
        }
    ),
    max_size=6,
)


def outcome(document: Any, operations: list[dict[str, Any]], *, sharing: bool = False) -> Any:
    try:
        return jsonpatch.patched(document, operations, sharing=sharing)
    except jsonpatch.PatchError as error:
        return str(error)


@given(DOCUMENTS, OPERATIONS)
@example(
    {"a": [1, [2], {"b": [3]}], "b": 4}, [{"op": "remove", "path": f"/a/{path}"} for path in ("1/0", "2/b/0", "0")]
)
@example(1, [{"op": "remove", "path": "/a/b"}])
@example([[1], 2], [{"op": "remove", "path": path} for path in ("/0/0", "/1")])
def test_patches_do_not_tell_long_lists_from_short_ones(document: Any, operations: list[dict[str, Any]]) -> None:
    expected = outcome(document, operations)
    with patch.object(jsonpatch, "LONG", 1), patch.object(jsonpatch, "_PIECE_ITEMS", 2):
        assert outcome(document, operations) == expected
        before = copy.deepcopy(document)
        assert outcome(document, operations, sharing=True) == expected
        assert document == before


@given(st.lists(st.tuples(st.sampled_from(["insert", "delete", "set"]), st.integers(0, 30)), max_size=60))
@example([("delete", 0)] * 10 + [("insert", 0)] * 12)
def test_a_long_list_is_a_list(steps: list[tuple[str, int]]) -> None:
    with patch.object(jsonpatch, "_PIECE_ITEMS", 3):
        plain: list[Any] = list(range(10))
        long = LongList(plain)
        for number, (step, at) in enumerate(steps):
            if step == "insert":
                plain.insert(min(at, len(plain)), number)
                long.insert(min(at, len(long)), number)
            elif at < len(plain) and step == "delete":
                del plain[at]
                del long[at]
            elif at < len(plain):
                plain[at] = long[at] = number
            assert list(long) == plain
            assert len(long) == len(plain)
        assert [long[at] for at in range(len(long))] == plain
