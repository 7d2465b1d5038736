"""The debugging socket: profiles and the log level for its owner, without credentials; nothing else."""

from __future__ import annotations

import os
import socket
import stat
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase
from twisted.web.client import Agent, FileBodyProducer
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from kapi.observability.profiling import DebugSocket


@implementer(IAgentEndpointFactory)
class _Always:
    def __init__(self, path: str) -> None:
        self.path = path

    def endpointForURI(self, uri: object) -> UNIXClientEndpoint:
        return UNIXClientEndpoint(reactor, self.path)


class Received(Protocol):
    """A body that ends with its connection."""

    def __init__(self) -> None:
        self.whole: Deferred[bytes] = Deferred()
        self._parts: list[bytes] = []

    def dataReceived(self, data: bytes) -> None:
        self._parts.append(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.whole.callback(b"".join(self._parts))


class DebugSocketTests(TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = str(Path(directory.name) / "debug")
        self.logs = SimpleNamespace(v=0)
        self.debug = DebugSocket(self.path, reactor, self.logs)
        self.addCleanup(lambda: Deferred.fromCoroutine(self.debug.close()))

    async def get(self, path: str, method: bytes = b"GET", body: bytes = b"") -> tuple[int, bytes]:
        agent: Any = Agent.usingEndpointFactory(reactor, _Always(self.path))
        producer = None
        if body:
            producer = FileBodyProducer(BytesIO(body))
        answer = await agent.request(method, b"http://debug" + path.encode(), None, producer)
        received = Received()
        answer.deliverBody(received)
        return answer.code, await received.whole

    async def test_the_command_line_has_no_passwords(self) -> None:
        self.debug.open()
        self.patch(sys, "argv", ["kapi", "--redis-servers=redis://kapi:p@ss@host:6379/1", "--v=2"])
        code, body = await self.get("/debug/pprof/cmdline")
        self.assertEqual((code, body), (200, b"kapi\0--redis-servers=redis://kapi:***@host:6379/1\0--v=2"))

    async def test_profiles_without_credentials(self) -> None:
        self.debug.open()
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        code, body = await self.get("/debug/pprof/")
        self.assertEqual((code, b"profile" in body), (200, True))
        code, body = await self.get("/debug/pprof/profile?seconds=0.1")
        self.assertEqual((code, body[:2]), (200, b"\x1f\x8b"))
        code, body = await self.get("/debug/flags/v", b"PUT", b"4")
        self.assertEqual((code, self.logs.v), (200, 4))
        for text in ("²".encode(), b"1_0", b"9" * 5000, b""):
            code, body = await self.get("/debug/flags/v", b"PUT", text)
            self.assertEqual((code, self.logs.v), (400, 4), body)
        for path in ("/api/v1/secrets", "/metrics", "/"):
            self.assertEqual((await self.get(path))[0], 404)

    async def test_a_socket_that_was_left_behind_is_replaced_and_a_file_is_not(self) -> None:
        left = socket.socket(socket.AF_UNIX)
        self.addCleanup(left.close)
        left.bind(self.path)
        self.debug.open()
        self.assertEqual((await self.get("/debug/pprof/"))[0], 200)
        await self.debug.close()
        Path(self.path).write_text("precious")
        with self.assertRaises(FileExistsError):
            self.debug.open()
        self.assertEqual(Path(self.path).read_text(), "precious")
