"""The objects of a Builder, and the errors in reading them (upstream: cli-runtime ``resource/result.go``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from kapi.kubectl.info import Info
from kapi.kubectl.messages import aggregate
from kapi.kubectl.visitor import Visitor
from kapi.machinery.status import NotFound


class Result:
    """``single``: the arguments name exactly one object.  ``ignore_not_found``: NotFound errors are dropped."""

    def __init__(
        self,
        visitor: Visitor,
        *,
        single: bool = False,
        targets_single_items: bool = False,
        errors: Iterable[BaseException] = (),
    ) -> None:
        self._visitor = visitor
        self.single, self.targets_single_items = single, targets_single_items
        self.ignore_not_found = False
        self.errors = list(errors)

    async def visit(self) -> AsyncIterator[Info]:
        """The objects; ``errors`` has the errors afterwards."""
        async for info in self._visitor.visit():
            if not isinstance(info, Exception):
                yield info
            elif not (self.ignore_not_found and isinstance(info, NotFound)):
                self.errors.append(info)

    async def infos(self) -> list[Info]:
        return [info async for info in self.visit()]

    def raise_errors(self) -> None:
        """Raises an Aggregate of the errors, if there are any."""
        aggregate(self.errors)
