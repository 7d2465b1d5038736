"""In which form a client writes objects and asks for them (upstream: client-go ``rest`` ContentConfig)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import orjson

from kapi.machinery.tree import Tree

JSON = "application/json"


class Content(NamedTuple):
    """``encode`` gives None for what has no such form, ``decode`` raises ValueError; both then leave it to JSON.

    Patches, watches and what is neither are JSON in any case.
    """

    media_type: str
    encode: Callable[[Tree], bytes | None]
    decode: Callable[[bytes], Tree]

    @property
    def accept(self) -> str:
        """JSON where the server has no such form."""
        return self.media_type if self.media_type == JSON else f"{self.media_type},{JSON}"


JSON_CONTENT = Content(JSON, orjson.dumps, orjson.loads)
