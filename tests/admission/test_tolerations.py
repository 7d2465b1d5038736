"""Which tolerations stay when two lists are merged, and that thousands are merged at once."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kapi.admission.plugins.tolerations import Toleration, TolerationIndex, merged
from tests.growth.counting import effort, texts

TOLERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["", "a", "b"]),
        "operator": st.sampled_from(["Exists", "Equal", "Lt"]),
        "value": st.sampled_from(["1", "2"]),
        "effect": st.sampled_from(["", "NoExecute", "NoSchedule"]),
        "tolerationSeconds": st.integers(0, 3),
    },
)
LISTS: Any = st.lists(TOLERATIONS, max_size=6)


def covers(wide: Toleration, narrow: Toleration) -> bool:
    """What upstream calls a superset."""
    if wide == narrow:
        return True
    operator = wide.get("operator") or "Equal"
    if narrow.get("key", "") != wide.get("key", "") and (wide.get("key") or operator != "Exists"):
        return False
    if wide.get("effect") and narrow.get("effect", "") != wide["effect"]:
        return False
    if wide.get("effect") == "NoExecute" and wide.get("tolerationSeconds") is not None:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator == "Equal":
        return narrow.get("operator") == "Equal" and wide.get("value", "") == narrow.get("value", "")
    return operator == "Exists"


@given(LISTS, LISTS)
def test_what_another_one_covers_goes(first: list[Toleration], second: list[Toleration]) -> None:
    everything, kept = [*first, *second], []
    for i, toleration in enumerate(everything):
        wider = [other for other in everything[i + 1 :] if other != toleration]
        if not any(covers(other, toleration) for other in (*kept, *wider)):
            kept.append(toleration)
    assert merged(first, second) == kept


@given(LISTS, TOLERATIONS)
def test_one_of_a_list_covers_it(wide: list[Toleration], narrow: Toleration) -> None:
    assert TolerationIndex(wide).covers(narrow) == any(covers(each, narrow) for each in wide)


def test_many_are_merged_at_once() -> None:
    many = [{"key": f"k{number}", "operator": "Exists"} for number in range(2_000)]
    other = {"operator": "Exists", "effect": "NoExecute"}
    assert merged(many, [*many, other]) == [*many, other]
    counted = texts(many)  # its comparisons are seen
    assert effort(lambda: merged(counted, [*counted, other])) < 200 * len(many)
