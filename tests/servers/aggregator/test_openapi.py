"""What is kept of the documents of other servers: no more than fits, and nothing of a server that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.endpoints.openapi.remote import RemoteDocuments
from kapi.machinery.gvk import GroupVersion
from kapi.servers.aggregator import openapi
from kapi.servers.aggregator.backend import BackendAnswer
from kapi.servers.aggregator.openapi import OpenAPIDownload

NAME, GV = "v1.a.example.com", GroupVersion("a.example.com", "v1")


class BackendClient:
    """A server: ``answers`` by path, of which those in ``late`` come when these fire."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.late: dict[str, Deferred[None]] = {}
        self.away = self.overloaded = False

    async def ask(self, key: str, path: str, seconds: float) -> BackendAnswer:
        if path in self.late:
            await self.late[path]
        if self.overloaded:
            return BackendAnswer(503, b"{}")
        if self.away:
            raise ConnectionRefusedError
        return BackendAnswer(200, self.answers[path]) if path in self.answers else BackendAnswer(404, b"")

    def serve(self, documents: Mapping[str, bytes], version: str = "1") -> None:
        urls = {key: f"/openapi/v3/{key}?hash={version}" for key in documents}
        self.answers = {urls[key]: document for key, document in documents.items()}
        index = {"paths": {key: {"serverRelativeURL": url} for key, url in urls.items()}}
        self.answers["/openapi/v3"] = orjson.dumps(index)


class DownloadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.backend_client, self.remote = Clock(), BackendClient(), RemoteDocuments()
        asks: Any = self.backend_client
        self.download = OpenAPIDownload(self.clock, asks, self.remote)
        self.addCleanup(self.download.stop)

    def look(self) -> None:
        self.download.enqueue(NAME, GV)
        for _ in range(5):
            self.clock.advance(0)

    def test_a_server_has_no_more_room_when_it_is_asked_again(self) -> None:
        self.patch(openapi, "MAX_BYTES", 40)
        large = orjson.dumps("x" * 15)
        for keys in (["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"], ["c", "d"]):
            self.backend_client.serve(dict.fromkeys(keys, large))
            self.look()
            self.assertEqual(list(self.remote.documents), keys[:2])
        self.backend_client.serve({"c": large, "d": orjson.dumps("x" * 30)}, "2")
        self.look()
        self.assertEqual(
            {key: document.size for key, (_, document) in self.remote.documents.items()}, {"c": 17, "d": 17}
        )
        self.backend_client.serve({"d": orjson.dumps("x" * 30)}, "2")
        self.look()
        self.assertEqual({key: document.size for key, (_, document) in self.remote.documents.items()}, {"d": 32})

    def test_documents_stay_while_their_server_cannot_answer(self) -> None:
        """For a moment, after a probe that it has answered; one that says it has none has none."""
        self.backend_client.serve({"a": b"{}", "b": b"{}"})
        self.look()
        for name in ("away", "overloaded"):
            setattr(self.backend_client, name, True)
            self.look()
            self.assertEqual(sorted(self.remote.documents), ["a", "b"])
            setattr(self.backend_client, name, False)
        self.backend_client.answers.clear()
        self.look()
        self.assertEqual(self.remote.documents, {})

    def test_nothing_is_left_of_one_that_goes_while_it_is_asked(self) -> None:
        self.backend_client.serve({"a": b"{}", "b": b"{}"})
        held = self.backend_client.late["/openapi/v3/b?hash=1"] = Deferred()
        self.look()
        self.assertEqual(list(self.remote.documents), ["a"])
        self.download.forget(NAME)
        held.callback(None)
        self.clock.advance(0)
        self.assertEqual(self.remote.documents, {})

    def test_one_that_comes_back_while_it_is_asked_is_asked_anew(self) -> None:
        self.backend_client.serve({"a": b"{}", "b": b"{}"})
        held = self.backend_client.late["/openapi/v3/b?hash=1"] = Deferred()
        self.look()
        self.download.forget(NAME)
        self.download.enqueue(NAME, GV)
        del self.backend_client.late["/openapi/v3/b?hash=1"]
        held.callback(None)
        self.look()
        self.assertEqual(sorted(self.remote.documents), ["a", "b"])
        self.download.forget(NAME)
        self.assertEqual(self.remote.documents, {})
