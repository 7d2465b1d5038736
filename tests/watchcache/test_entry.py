"""What an entry reads of its object without decoding it."""

from __future__ import annotations

import pytest

from kapi.watchcache.entry import ByteBudget, Entry, Scope, SharedScope

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


def test_the_newest_keep_their_second_form_and_the_last_one_always() -> None:
    size = len(entry("a").data)
    large = "x" * 2 * size
    gone: list[str] = []
    budget = ByteBudget(2 * size, lambda entry: gone.append(entry.name))
    for name, wanted in (("a", ""), ("b", ""), ("c", "a"), (large, "abc"), ("d", f"abc{large}")):
        budget.add(entry(name))
        assert "".join(gone) == wanted


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


def test_a_uid_of_another_shape() -> None:
    assert entry("a", b',"uid":"u"').uid == "u"
    with pytest.raises(ValueError):
        entry("a", b',"uid":1').uid  # noqa: B018  what it raises


def test_fields_of_an_object_without_the_shape_of_its_kind() -> None:
    scope = Scope(KEPT, KEPT, {"spec.nodeName": lambda obj: obj["spec"]["nodeName"]}, False)
    with pytest.raises(KeyError):
        Entry(scope, "a", "", "a", 1, b'{"metadata":{"name":"a"}}').fields  # noqa: B018  what it raises


def test_an_object_whose_metadata_has_another_shape() -> None:
    for value, fits in ((b'{"a":"b"}', True), (b"1", False)):
        data = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":%s}}' % value
        found = Entry(SCOPE, "n/a", "n", "a", 1, data)
        if fits:
            found.check()
        else:
            with pytest.raises(ValueError, match="annotations"):
                found.check()


def test_the_fields_of_a_resource_are_the_same_in_all_stores() -> None:
    scope = SharedScope(KEPT, KEPT, {}, True, ("apps", "deployments"))
    assert not scope.change(scope.fields, True)
    for fields, namespaced in (({"spec": str}, None), (None, False)):
        with pytest.raises(ValueError, match="the fields of apps/deployments are the same in all stores"):
            scope.change(fields, namespaced)
