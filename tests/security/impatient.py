"""A kapi that waits a second for the head of a request, for a test that sees the end of it by the real clock."""

from __future__ import annotations

import kapi.__main__
from kapi.serving import http1

HEAD_TIMEOUT = 1.0  # seconds


def main() -> None:
    http1.HEAD_TIMEOUT = HEAD_TIMEOUT
    kapi.__main__.main()
