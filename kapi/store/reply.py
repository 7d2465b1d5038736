"""What the store's server answers, as hiredis decodes it (RESP2)."""

from __future__ import annotations

from typing import Any

#: Bytes, an int, None, a list of replies, or an error of the server's as an exception: which of them, its command says.
Reply = Any
