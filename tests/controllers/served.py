"""A server in memory for the tests of controllers: requests, and time that passes."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

import orjson
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.machinery.tree import Object
from kapi.testing.memory_api import MemoryAPI

MERGE = "application/merge-patch+json"
Result = TypeVar("Result")


class InMemory(TestCase):
    """With a server in memory."""

    api: MemoryAPI

    async def wait(self, coroutine: Coroutine[Deferred[Any], Any, Result]) -> Result:
        """Runs what is scheduled until the coroutine ends."""
        done = Deferred.fromCoroutine(coroutine)
        for _ in range(50):
            if done.called:
                break
            self.api.turn()
        return await done


class Asking(InMemory):
    """Requests to the server."""

    def call(self, method: str, path: str, body: Any = None, expect: int = 0, type: str = "") -> Object:
        request = self.api.ask(method, path, body, type=type)
        for _ in range(200):
            if request.finished:
                break
            self.api.turn()
        if expect:
            self.assertEqual(request.code, expect, b"".join(request.chunks))
        answer: Object = orjson.loads(b"".join(request.chunks))
        return answer


class Served(Asking):
    """``begin`` first; it has the namespace n1."""

    async def begin(self) -> None:
        self.api = await MemoryAPI.started()
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": "n1"}}, 201)

    async def run_controller(self, controller: Any) -> None:
        await controller.start()
        self.addCleanup(controller.stop)

    def get(self, path: str) -> Object:
        return self.call("GET", path, expect=200)

    def create(self, path: str, body: Object) -> Object:
        return self.call("POST", path, body, 201)

    def patch(self, path: str, body: Object) -> Object:
        return self.call("PATCH", path, body, 200, MERGE)

    def delete(self, path: str) -> Object:
        return self.call("DELETE", path, expect=200)

    def code(self, path: str) -> int:
        request = self.api.ask("GET", path)
        return request.code

    def wait(self, seconds: float = 1.0) -> None:
        for _ in range(int(seconds * 10)):
            self.api.turn(0.1)
