"""What an entry reads of its object without decoding it."""

from __future__ import annotations

import pytest

from kapi.watchcache.entry import ByteBudget, Entry, Scope

KEPT = ByteBudget(1000, Entry.forget_object)
SCOPE = Scope(KEPT, KEPT, {}, True)


def entry(name: str, metadata: bytes = b"") -> Entry:
    data = b'{"metadata":{"resourceVersion":"1"%s,"name":"%s"}}' % (metadata, name.encode())
    return Entry(SCOPE, f"n/{name}", "n", name, 1, data)


def test_equal_labels_are_kept_once() -> None:
    first, second, other = (
        entry(name, b',"labels":{"app":"%s"}' % app) for name, app in (("a", b"x"), ("b", b"x"), ("c", b"y"))
    )
    assert first.labels == {"app": "x"}
    assert other.labels == {"app": "y"}
    assert second.labels is first.labels


def test_an_object_that_is_dropped_while_it_is_decoded_is_still_returned() -> None:
    """Among what is kept is an earlier turn of the same entry, which is the oldest now."""
    one = entry("a", b',"labels":{"app":"%s"}' % (b"x" * 600))
    for _ in range(3):
        assert one.object["metadata"]["name"] == "a"
        one.forget_object()


@pytest.mark.parametrize("metadata", [b"", b',"labels":null', b',"labels":{}'])
def test_without_labels(metadata: bytes) -> None:
    assert entry("a", metadata).labels == {}


def test_large_labels_live_with_their_entry() -> None:
    text = b',"labels":{"app":"%s"}' % (b"x" * 5000)
    first, second = entry("a", text), entry("b", text)
    assert first.labels == second.labels
    assert first.labels is not second.labels


@pytest.mark.parametrize("labels", [b'"x"', b'{"a":1}', b'["a"]', b'{"a":null}'])
def test_labels_of_another_shape(labels: bytes) -> None:
    """Nothing remembers the mistake: each look at it fails."""
    wrong = entry("a", b',"labels":%s' % labels)
    for _ in range(2):
        with pytest.raises(ValueError):
            wrong.labels  # noqa: B018  what it raises
