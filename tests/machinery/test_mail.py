"""Which texts are one mail address."""

from __future__ import annotations

import pytest

from kapi.machinery.mail import is_address


@pytest.mark.parametrize(
    "text",
    [
        "a@b",
        " \ta.b+c@d.example ",
        "é@b",
        '"a b"@c',
        r'"a\"b"@c',
        "a@ b",
        "a@b (a comment (in a comment \\)))",
        "<a@b>",
        "A. Person <a@b>",
        '"Person, A" <a@b>',
        "A (the first) Person <a@b> (on leave)",
        "group: a@b;",
        "group: A <a@b> ; (alone)",
        "a@[127.0.0.1]",
        "a@[::ffff:127.0.0.1]",
        "a@[IPv6:::1]",
    ],
)
def test_an_address(text: str) -> None:
    assert is_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a",
        "a@",
        "@b",
        "a@b@c",
        ".a@b",
        "a.@b",
        "a..b@c",
        "a@b.",
        "a@b..c",
        "a b@c",
        "a @b",
        "a@b c",
        "a\n@b",
        "a@b\n",
        "a@b, c@d",
        '""@b',
        '"a@b',
        '"a"b@c',
        "(a comment) a@b",
        "a@b (open",
        "<a@b",
        "<>",
        "A Person",
        "A Person <a@b> c",
        "A Person (open <a@b>",
        "group:;",
        "group: a@b",
        "group: a@b, c@d;",
        "group: inner: a@b;;",
        "a@[localhost]",
        "a@[::1]",
        "a@[127.0.0.01]",
        "a@[IPv6:fe80::1%eth0]",
        "a@[127.0.0.1",
    ],
)
def test_no_address(text: str) -> None:
    assert not is_address(text)
