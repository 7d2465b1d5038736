"""The Pods that an object selects, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.kubectl.messages import CommandError
from kapi.kubectl.pods_of import pods_of
from kapi.machinery.tree import Object

SERVICE: Object = {"metadata": {"name": "s"}, "spec": {"selector": {"app": "a"}}}


class QuietServer:
    """Requests and watches of one that has no Pods, and never has."""

    closed = False

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self  # the parts of a request

    async def do(self) -> Object:
        return {"metadata": {"resourceVersion": "1"}, "items": []}

    async def watch(self) -> QuietServer:
        return self

    async def next(self) -> None:
        await Deferred()

    def close(self) -> None:
        self.closed = True


class PodsOfTests(SynchronousTestCase):
    def test_the_wait_for_a_pod_may_last_less_than_a_second(self) -> None:
        """The server counts whole seconds, and may be late."""
        clock, server = Clock(), QuietServer()
        flags = SimpleNamespace(get_duration=lambda name: 0.125)
        factory: Any = SimpleNamespace(reactor=clock, flags=flags, client=lambda version: server)
        info: Any = SimpleNamespace(object=SERVICE, mapping=SimpleNamespace(kind="Service"), name="s", namespace="one")
        waiting = Deferred.fromCoroutine(pods_of(factory, info, "attach to"))
        clock.advance(0.0625)
        self.assertNoResult(waiting)
        clock.advance(0.0625)
        self.assertEqual(str(self.failureResultOf(waiting, CommandError).value), "timed out waiting for the condition")
        self.assertTrue(server.closed)
        self.assertEqual(clock.getDelayedCalls(), [])
