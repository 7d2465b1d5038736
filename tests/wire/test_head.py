"""Heads of outgoing requests are what was meant, or are not written."""

from __future__ import annotations

import pytest

from kapi.wire.head import BadHead, checked, request_head


def test_a_head_is_its_lines() -> None:
    headers = [(b"Host", b"a"), (b"X", b"b\tc \xc3\xbc")]
    assert request_head(b"GET", b"/a?b", headers) == b"GET /a?b HTTP/1.1\r\nHost: a\r\nX: b\tc \xc3\xbc\r\n\r\n"


@pytest.mark.parametrize("value", [b"a\r\nb", b"a\nb", b"a\rb", b"a\x00b", b"a\x0bb", b"a\x7fb", b"a\r\n b"])
def test_control_characters_are_refused(value: bytes) -> None:
    with pytest.raises(BadHead) as caught:
        checked([(b"X-Secret", value)])
    assert str(caught.value) == 'net/http: invalid header field value for "X-Secret"'


@pytest.mark.parametrize("name", [b"", b"a b", b"a:", b"a\r\nb", b"\xc3\xbc", b"a\x00"])
def test_names_are_tokens(name: bytes) -> None:
    with pytest.raises(BadHead, match="invalid header field name"):
        checked([(name, b"x")])


@pytest.mark.parametrize("target", [b"", b"/a b", b"/a\r\nX: y", b"/\x00", b"/a\tb"])
def test_a_target_stays_on_its_line(target: bytes) -> None:
    with pytest.raises(BadHead):
        request_head(b"GET", target, [])


def test_a_method_is_a_token() -> None:
    with pytest.raises(BadHead):
        request_head(b"GET / HTTP/1.1\r\n", b"/", [])
