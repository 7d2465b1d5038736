"""Heads of outgoing requests are what was meant, or are not written."""

from __future__ import annotations

import pytest

from kapi.request.user import UserInfo
from kapi.wire.head import BadHead, checked, identity_headers, request_head


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


def test_a_user_in_headers() -> None:
    user = UserInfo("jürgen", "u-1", ("a", "b"), {"example.com/scopes": ("x", "y")})
    assert identity_headers(user) == [
        (b"X-Remote-User", b"j\xc3\xbcrgen"),
        (b"X-Remote-Uid", b"u-1"),
        (b"X-Remote-Group", b"a"),
        (b"X-Remote-Group", b"b"),
        (b"X-Remote-Extra-example.com%2Fscopes", b"x"),
        (b"X-Remote-Extra-example.com%2Fscopes", b"y"),
    ]
    assert identity_headers(UserInfo("ann")) == [(b"X-Remote-User", b"ann")]


@pytest.mark.parametrize(
    ("user", "header"),
    [
        (UserInfo("ann\nX-Remote-Group: system:masters"), 'value for "X-Remote-User"'),
        (UserInfo("ann "), 'value for "X-Remote-User"'),
        (UserInfo("\ud800"), 'value for "X-Remote-User"'),
        (UserInfo("ann", uid="\t1"), 'value for "X-Remote-Uid"'),
        (UserInfo("ann", groups=("a\r",)), 'value for "X-Remote-Group"'),
        (UserInfo("ann", extra={"k": ("\0",)}), 'value for "X-Remote-Extra-k"'),
        (UserInfo("ann", extra={"\ud800": ("a",)}), "name"),
    ],
)
def test_a_user_that_headers_cannot_hold_is_refused(user: UserInfo, header: str) -> None:
    with pytest.raises(BadHead) as caught:
        identity_headers(user)
    assert str(caught.value) == f"net/http: invalid header field {header}"
