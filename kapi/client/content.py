"""The media type in which a client writes objects and asks for them (upstream: client-go ``rest`` ContentConfig)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import orjson

from kapi.machinery.tree import Tree

JSON = "application/json"


class Content(NamedTuple):
    """``encode`` returns None for a tree without such a form, which is then written as JSON.  ``decode`` raises ValueError.

    Patches and watches are always JSON.
    """

    media_type: str
    encode: Callable[[Tree], bytes | None]
    decode: Callable[[bytes], Tree]

    @property
    def accept(self) -> str:
        """The Accept header, with JSON for resources that the server does not have in this form."""
        return self.media_type if self.media_type == JSON else f"{self.media_type},{JSON}"


JSON_CONTENT = Content(JSON, orjson.dumps, orjson.loads)
