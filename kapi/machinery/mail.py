"""Mail addresses, parsed as in Go (upstream: ``net/mail`` ParseAddress, after RFC 5322)."""

from __future__ import annotations

import re

from kapi.machinery.netip import parse_ip

_BLANK = re.compile(r"[ \t]*+")
_WORD_CHARACTER = r'[^\x00-\x20\x7f()<>\[\]:;@\\,".]'
#: no possessive group: Python before 3.11.5 counts the dot as matched after which no word comes
_DOT_ATOM = rf"{_WORD_CHARACTER}++(?:\.{_WORD_CHARACTER}++)*(?!\.)"
_QUOTED_CHARACTER = r'(?:[^\x00-\x08\x0a-\x1f\x7f"\\]|\\[^\x00-\x08\x0a-\x1f\x7f])'
_SPEC = re.compile(
    rf'[ \t]*+(?:{_DOT_ATOM}|"{_QUOTED_CHARACTER}++")@[ \t]*+'
    rf"(?:{_DOT_ATOM}|\[(?P<literal>[^\x00-\x20\x7f\[\]\\]*+)\])"
)
#: a word of the name before an address in angle brackets, in which dots may be anywhere
_WORD = re.compile(rf'(?:{_WORD_CHARACTER}|\.)++|"{_QUOTED_CHARACTER}*+"')
_COMMENT_SIGN = re.compile(r"\\.|[()]", re.DOTALL)


class _NoAddressError(ValueError):
    """A text that is not one address."""


def is_address(text: str) -> bool:
    """Whether a text is one address: ``a@b``, ``Name <a@b>``, or a group of one, ``name: a@b;``."""
    try:
        return _skipped(text, _address(text, 0, may_be_group=True)) == len(text)
    except _NoAddressError:
        return False


def _address(text: str, at: int, *, may_be_group: bool) -> int:
    """The position behind the address that begins there."""
    at = _after_blank(text, at)
    end = _spec_end(text, at)
    if end is not None:
        return end
    if not text.startswith("<", at):
        at = _name_end(text, at)
        if may_be_group and text.startswith(":", at):
            return _after(text, _skipped(text, _address(text, at + 1, may_be_group=False)), ";")
    end = _spec_end(text, _after(text, at, "<"))
    if end is None:
        raise _NoAddressError
    return _after(text, end, ">")


def _spec_end(text: str, at: int) -> int | None:
    """The position behind ``local@domain``; None when there is none."""
    match = _SPEC.match(text, at)
    if match is None or match["literal"] is not None and not _is_ip_literal(match["literal"]):
        return None
    return match.end()


def _is_ip_literal(text: str) -> bool:
    """The content of ``[127.0.0.1]`` or ``[IPv6:::1]``."""
    host = text.removeprefix("IPv6:")
    address = parse_ip(host)
    if address is None:
        return False
    return address.version == 4 or address.ipv4_mapped is not None or host != text


def _name_end(text: str, at: int) -> int:
    """The position behind the words of a name, with comments between them; there must be a word."""
    match = _WORD.match(text, at)
    if match is None:
        raise _NoAddressError
    while match is not None:
        at = _skipped(text, match.end())
        match = _WORD.match(text, at)
    return at


def _skipped(text: str, at: int) -> int:
    """The position behind blanks and comments."""
    at = _after_blank(text, at)
    while text.startswith("(", at):
        depth = 0
        for sign in _COMMENT_SIGN.finditer(text, at):
            depth += {"(": 1, ")": -1}.get(sign[0], 0)
            if not depth:
                at = _after_blank(text, sign.end())
                break
        else:
            raise _NoAddressError
    return at


def _after_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return at if match is None else match.end()


def _after(text: str, at: int, sign: str) -> int:
    if not text.startswith(sign, at):
        raise _NoAddressError
    return at + 1
