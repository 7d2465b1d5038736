"""The client of a built-in resource that is switched off: it finds nothing, watches nothing, and its writes raise NotFound.

So whatever reads a resource does without one that ``--runtime-config`` or a feature gate has switched off.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from typing import NoReturn

from kapi.machinery import status
from kapi.machinery.tree import Object
from kapi.runtime.interface import EventHandler


class AbsentLister:
    changes = 0

    def get(self, namespace: str, name: str) -> Object | None:
        return None

    def list(self, namespace: str = "") -> builtins.list[Object]:
        return []

    def labelled(self, labels: Mapping[str, str], namespace: str = "") -> builtins.list[Object]:
        return []


class AbsentResource:
    """See ``ResourceClient``."""

    lister = AbsentLister()
    history = None

    async def get(self, name: str, namespace: str = "") -> NoReturn:
        raise status.no_such_resource()

    async def list(self, namespace: str = "") -> builtins.list[Object]:
        return []

    async def list_at(self, namespace: str = "") -> tuple[builtins.list[Object], int]:
        return [], 0

    async def count_at(self, namespace: str = "") -> tuple[int, int]:
        return 0, 0

    async def create(self, obj: Object, namespace: str = "") -> NoReturn:
        raise status.no_such_resource()

    async def update(
        self, obj: Object, namespace: str = "", subresource: str = "", *, counted: int | None = None
    ) -> NoReturn:
        raise status.no_such_resource()

    async def patch(self, name: str, patch: Object, namespace: str = "", subresource: str = "") -> NoReturn:
        raise status.no_such_resource()

    async def apply(self, name: str, declared: Object, namespace: str = "", subresource: str = "") -> NoReturn:
        raise status.no_such_resource()

    async def delete(self, name: str, namespace: str = "", options: Object | None = None) -> NoReturn:
        raise status.no_such_resource()

    async def delete_collection(self, namespace: str = "", options: Object | None = None) -> None:
        return

    def unreadable(self, namespace: str = "") -> builtins.list[tuple[str, str]]:
        return []

    def watch(self, handler: EventHandler, *, namespace: str = "", name: str = "") -> Callable[[], None]:
        return lambda: None
