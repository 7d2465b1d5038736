"""Repeats an operation that needs a conversion webhook once the webhook has answered (upstream: none, its conversion blocks).

Conversion between versions is a plain function everywhere.  Where it needs a webhook's answer that is not in the cache, it
raises Unconverted.  Nothing has been written then, so the operation can be repeated as soon as the answer is there.
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
    """The result of ``run``, repeated after each object that a webhook had to convert.

    ``related`` returns further objects to convert in the same call of the webhook.  Raises Unconverted after some attempts.
    """
    for _ in range(_MAX_ATTEMPTS):
        try:
            return await run()
        except Unconverted as need:
            await converter.fetch([need.obj, *related()], need.api_version)
    return await run()
