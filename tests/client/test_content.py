"""Requests and answers in protobuf, over an API server in memory."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.client.protobuf_content import PROTOBUF_CONTENT
from kapi.client.rest import RESTClient
from kapi.client.session import Session
from kapi.machinery.status import AlreadyExists, Invalid
from kapi.testing.client import MemoryTransport
from kapi.testing.memory_api import MemoryAPI
from kapi.wire.transport import Response

PROTOBUF, JSON = "application/vnd.kubernetes.protobuf", "application/json"


class Recorded(MemoryTransport):
    """``forms`` has the content types of each request and its answer."""

    def __init__(self, api: MemoryAPI) -> None:
        super().__init__(api)
        self.forms: list[tuple[str, str]] = []

    def request(self, method: str, target: str, headers: Any, body: bytes | None, **more: Any) -> Deferred[Response]:
        sent = dict(headers).get(b"Content-Type", b"").decode()

        def answered(response: Response) -> Response:
            self.forms.append((sent, response.header(b"Content-Type").partition(";")[0]))
            return response

        return super().request(method, target, headers, body, **more).addCallback(answered)


def without_empty(tree: Any) -> Any:
    """A message has texts and numbers that are not set, too."""
    if isinstance(tree, dict):
        return {key: without_empty(value) for key, value in tree.items() if value or value == []}
    return [without_empty(item) for item in tree] if isinstance(tree, list) else tree


class ContentCase(TestCase):
    async def setUp(self) -> None:
        self.api = await MemoryAPI.started()
        self.transport = Recorded(self.api)
        session = Session(self.api.clock, self.transport)
        self.binary = RESTClient(session, "/api/v1", content=PROTOBUF_CONTENT)
        self.plain = RESTClient(session, "/api/v1")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
        self.made = await self.binary.post().resource("namespaces").body(namespace).do()

    async def test_objects_are_what_they_are_in_json(self) -> None:
        self.assertEqual(self.transport.forms, [(PROTOBUF, PROTOBUF)])
        for path in (("namespaces", "n"), ("namespaces", ""), ("serviceaccounts", "")):
            found = []
            for client in (self.binary, self.plain):
                request = client.get().resource(path[0])
                found.append(await (request.name(path[1]) if path[1] else request).do())
            self.assertEqual(without_empty(found[0]), without_empty(found[1]))
        self.assertEqual(self.transport.forms[1:3], [("", PROTOBUF), ("", JSON)])
        self.assertEqual(self.made["metadata"]["name"], "n")

    async def test_patches_options_and_watches_are_json(self) -> None:
        change = {"metadata": {"labels": {"a": "b"}}}
        changed = await self.binary.patch("merge").resource("namespaces").name("n").body(change).do()
        self.assertEqual(changed["metadata"]["labels"]["a"], "b")
        watching = Deferred.fromCoroutine(self.binary.get().resource("namespaces").watch())
        self.api.turn()
        watch = self.successResultOf(watching)
        event = Deferred.fromCoroutine(watch.next())
        self.api.turn()
        self.assertEqual(self.successResultOf(event).object["kind"], "Namespace")
        watch.close()
        await self.binary.delete().resource("namespaces").name("n").body({"gracePeriodSeconds": 0}).do()
        merge = "application/merge-patch+json"
        self.assertEqual(self.transport.forms[1:], [(merge, PROTOBUF), ("", JSON), (JSON, PROTOBUF)])

    async def test_refusals_have_their_class_and_details(self) -> None:
        with self.assertRaises(AlreadyExists) as caught:
            await self.binary.post().resource("namespaces").body(self.made | {"metadata": {"name": "n"}}).do()
        self.assertEqual(self.transport.forms[-1], (PROTOBUF, PROTOBUF))
        self.assertEqual((caught.exception.details or {})["name"], "n")
        with self.assertRaises(Invalid) as invalid:
            await self.binary.post().resource("namespaces").body(self.made | {"metadata": {"name": "N_"}}).do()
        self.assertEqual((invalid.exception.details or {})["causes"][0]["field"], "metadata.name")
