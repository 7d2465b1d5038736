"""Objects that only a webhook can convert: asked for, remembered, and the request begun anew.

Conversion between versions is a plain function everywhere.  Where it needs a webhook that has not been asked yet it raises
Unconverted; nothing has been written then, so that the request can be repeated once the answer is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from kapi.machinery import status
from kapi.machinery.tree import Object
from kapi.resources.definition import Converter

Result = TypeVar("Result")
_MAX_ATTEMPTS = 8


class Unconverted(status.StatusError):
    """The object has not been converted to ``api_version`` yet."""

    def __init__(self, obj: Object, api_version: str) -> None:
        super().__init__(f"conversion to {api_version} was not possible", code=500)
        self.obj = obj
        self.api_version = api_version


async def converting(
    converter: Converter, run: Callable[[], Awaitable[Result]], related: Callable[[], Iterable[Object]] = tuple
) -> Result:
    """Runs something that converts; ``related``: objects that will be wanted with the first one."""
    for _ in range(_MAX_ATTEMPTS):
        try:
            return await run()
        except Unconverted as need:
            await converter.fetch([need.obj, *related()], need.api_version)
    return await run()
