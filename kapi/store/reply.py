"""The type of the server's replies, as hiredis decodes them (RESP2)."""

from __future__ import annotations

from typing import Any

#: bytes, an int, None, a list of replies, or an exception for an error of the server; it depends on the command
Reply = Any
