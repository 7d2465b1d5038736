"""Warnings in the headers of a server's answers (upstream: client-go ``rest/warnings.go``, RFC 7234)."""

from __future__ import annotations

import re
from collections.abc import Callable

from twisted.logger import Logger

_WARNING = re.compile(r'(\d{3})\s+(\S+)\s+"((?:[^"\\]|\\.)*)"(?:\s+"[^"]*")?\s*,?')
#: called with code, agent and text of each warning
WarningHandler = Callable[[int, str, str], None]
log = Logger()


def log_warning(code: int, agent: str, text: str) -> None:
    log.warn("the server warns: {text}", text=text)


def parse_warnings(value: str) -> list[tuple[int, str, str]]:
    """Code, agent and text of each warning in a Warning header; malformed ones are left out."""
    return [(int(match[1]), match[2], re.sub(r"\\(.)", r"\1", match[3])) for match in _WARNING.finditer(value)]
