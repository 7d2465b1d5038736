"""The fields of a request answer as those of ``twisted.web`` do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.web.http_headers import Headers

from kapi.serving.request import RequestHeaders, canonical

_NAMES = st.sampled_from([b"host", b"Host", b"HOST", b"x-remote-user", b"X-Remote-User", b"accept", b"user-agent"])
_FIELDS = st.lists(st.tuples(_NAMES, st.sampled_from([b"", b"one", b"two", b"a b"])))


@given(_FIELDS, _NAMES)
def test_reading_and_removing_is_as_with_twisted(fields: list[tuple[bytes, bytes]], name: bytes) -> None:
    ours, theirs = RequestHeaders(), Headers()
    ours.add(fields)
    for field in fields:
        theirs.addRawHeader(*field)
    for _ in range(2):
        assert list(ours.getAllRawHeaders()) == list(theirs.getAllRawHeaders())
        assert ours.getRawHeaders(name) == theirs.getRawHeaders(name)
        assert ours.getRawHeaders(name, ()) == theirs.getRawHeaders(name, ())
        assert ours.hasHeader(name) == theirs.hasHeader(name)
        ours.removeHeader(name)
        theirs.removeHeader(name)


@given(_FIELDS, _NAMES)
def test_writing_is_as_with_twisted(fields: list[tuple[bytes, bytes]], name: bytes) -> None:
    ours, theirs = RequestHeaders(), Headers()
    for headers in (ours, theirs):
        for field in fields:
            headers.addRawHeader(*field)
        headers.setRawHeaders(name, [b"new"])
    assert list(ours.getAllRawHeaders()) == list(theirs.getAllRawHeaders())


@pytest.mark.parametrize(
    ("name", "written"),
    [(b"content-md5", b"Content-Md5"), (b"ETAG", b"Etag"), ("x-Real-ip", b"X-Real-Ip"), (b"-", b"-"), (b"", b"")],
)
def test_names_are_written_as_by_go(name: bytes | str, written: bytes) -> None:
    assert canonical(name) == written


def test_names_that_clients_make_up_are_not_kept_for_ever() -> None:
    headers = RequestHeaders()
    headers.add((b"x-%d" % number, b"") for number in range(5000))
    assert canonical.cache_info().currsize <= 1000
    before = canonical.cache_info()
    headers.add([(b"x" * 10_000, b"long")])
    headers.addRawHeader(b"y" * 10_000, b"long")
    assert headers.fields[b"X" + b"x" * 9_999] == headers.fields[b"Y" + b"y" * 9_999] == [b"long"]
    headers.removeHeader(b"X" + b"x" * 9_999)
    assert b"X" + b"x" * 9_999 not in headers.fields
    assert canonical.cache_info() == before, "none but short ones are"
