"""What is kept of the documents of other servers: no more than fits, and nothing of a server that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.aggregator import openapi
from kapi.aggregator.openapi import OpenAPIDownload
from kapi.endpoints.openapi.remote import RemoteDocuments
from kapi.machinery.gvk import GroupVersion

NAME, GV = "v1.a.example.com", GroupVersion("a.example.com", "v1")


class Questions:
    """A server: ``answers`` by path, of which those in ``late`` come when these fire."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.late: dict[str, Deferred[None]] = {}

    async def get(self, key: str, path: str, seconds: float, limit: int = 0) -> tuple[int, bytes]:
        if path in self.late:
            await self.late[path]
        return (200, self.answers[path]) if path in self.answers else (404, b"")

    def serve(self, documents: Mapping[str, bytes], version: str = "1") -> None:
        urls = {key: f"/openapi/v3/{key}?hash={version}" for key in documents}
        self.answers = {urls[key]: document for key, document in documents.items()}
        index = {"paths": {key: {"serverRelativeURL": url} for key, url in urls.items()}}
        self.answers["/openapi/v3"] = orjson.dumps(index)


class DownloadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.questions, self.remote = Clock(), Questions(), RemoteDocuments()
        asks: Any = self.questions
        self.download = OpenAPIDownload(self.clock, asks, self.remote)
        self.addCleanup(self.download.stop)

    def look(self) -> None:
        self.download.look_at(NAME, GV)
        for _ in range(5):
            self.clock.advance(0)

    def test_a_server_has_no_more_room_when_it_is_asked_again(self) -> None:
        self.patch(openapi, "MAX_BYTES", 40)
        large = orjson.dumps("x" * 15)
        for keys in (["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"], ["c", "d"]):
            self.questions.serve(dict.fromkeys(keys, large))
            self.look()
            self.assertEqual(list(self.remote.documents), keys[:2])
        self.questions.serve({"c": large, "d": orjson.dumps("x" * 30)}, "2")
        self.look()
        self.assertEqual({key: len(body) for key, (_, body) in self.remote.documents.items()}, {"c": 17, "d": 17})
        self.questions.serve({"d": orjson.dumps("x" * 30)}, "2")
        self.look()
        self.assertEqual({key: len(body) for key, (_, body) in self.remote.documents.items()}, {"d": 32})

    def test_nothing_is_left_of_one_that_goes_while_it_is_asked(self) -> None:
        self.questions.serve({"a": b"{}", "b": b"{}"})
        held = self.questions.late["/openapi/v3/b?hash=1"] = Deferred()
        self.look()
        self.assertEqual(list(self.remote.documents), ["a"])
        self.download.forget(NAME)
        held.callback(None)
        self.clock.advance(0)
        self.assertEqual(self.remote.documents, {})

    def test_one_that_comes_back_while_it_is_asked_is_asked_anew(self) -> None:
        self.questions.serve({"a": b"{}", "b": b"{}"})
        held = self.questions.late["/openapi/v3/b?hash=1"] = Deferred()
        self.look()
        self.download.forget(NAME)
        self.download.look_at(NAME, GV)
        del self.questions.late["/openapi/v3/b?hash=1"]
        held.callback(None)
        self.look()
        self.assertEqual(sorted(self.remote.documents), ["a", "b"])
        self.download.forget(NAME)
        self.assertEqual(self.remote.documents, {})
