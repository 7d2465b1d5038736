"""Informers over an API server in memory: what they hold, what they tell, and what happens when connections break."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import orjson
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.trial.unittest import TestCase
from twisted.web.http_headers import Headers

from kapi.client.config import ConfigError
from kapi.controllers.serviceaccounts import ServiceAccountController
from kapi.machinery.status import BadRequest, Expired, StatusError
from kapi.machinery.tree import Object
from kapi.runtime.indexer import Indexer, key_of, split_key
from kapi.runtime.informer import SharedInformer
from kapi.runtime.recorder import BURST, EventRecorder
from kapi.runtime.remote import RemoteClient
from kapi.runtime.workqueue import WorkQueue
from kapi.testing.client import MemoryTransport, memory_client
from kapi.testing.memory_api import MemoryAPI
from kapi.wire.transport import Response, Stream


def config_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def refusal(error: StatusError) -> Any:
    """An answer of the server."""
    return succeed(Response(error.code, Headers(), orjson.dumps(error.status)))


class InformerCase(TestCase):
    async def setUp(self) -> None:
        self.api = await MemoryAPI.started()
        self.transport = MemoryTransport(self.api)
        self.client = memory_client(self.api, self.transport)
        namespaces = await self.client.resource("ns")
        for name in ("n", "m"):
            await namespaces.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.all = await self.client.resource("configmaps")
        self.maps = self.all.namespace("n")
        self.events: list[Any] = []
        self.handled: set[tuple[str, str]] = set()

    def informer(self, **how: Any) -> SharedInformer:
        informer = SharedInformer(self.all, jitter=lambda: 0.0, **how)
        informer.add_handler(
            lambda obj: self.note("add", obj),
            lambda old, new: self.note("update", new),
            lambda obj: self.events.append(("delete", obj["metadata"]["name"])),
        )
        informer.start()
        self.addCleanup(informer.stop)
        self.api.turn()
        return informer

    def note(self, what: str, obj: Object) -> None:
        self.events.append((what, obj["metadata"]["name"]))

    def names(self, informer: SharedInformer) -> list[str]:
        return sorted(informer.store.keys())

    async def test_what_there_is_and_what_changes(self) -> None:
        await self.maps.create(config_map("a"))
        informer = self.informer()
        self.assertTrue(informer.has_synced)
        self.assertEqual(self.names(informer), ["n/a"])
        await self.maps.create(config_map("b"))
        await self.maps.patch("a", {"data": {"x": "1"}})
        await self.maps.delete("b")
        self.api.turn()
        self.assertEqual(self.events, [("add", "a"), ("add", "b"), ("update", "a"), ("delete", "b")])
        self.assertEqual(informer.store.get("n/a")["data"], {"x": "1"})  # type: ignore[index]

    async def test_one_stream_for_all_handlers(self) -> None:
        """and who comes late is given what there is"""
        informer = self.informer()
        await self.maps.create(config_map("a"))
        self.api.turn()
        late: list[str] = []
        handler = informer.add_handler(on_add=lambda obj: late.append(obj["metadata"]["name"]))
        self.assertEqual(late, ["a"])
        handler.remove()
        await self.maps.create(config_map("b"))
        self.api.turn()
        self.assertEqual(late, ["a"])
        watches = [target for _, target in self.transport.requests if "watch=true" in target]
        self.assertEqual(len(watches), 1)

    async def test_a_handler_that_fails_does_not_harm_others(self) -> None:
        informer = self.informer()
        informer.add_handler(on_add=lambda obj: 1 / 0)
        seen: list[str] = []
        informer.add_handler(on_add=lambda obj: seen.append(obj["metadata"]["name"]))
        await self.maps.create(config_map("a"))
        await self.maps.create(config_map("b"))
        self.api.turn()
        self.assertEqual(seen, ["a", "b"])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    async def test_a_watch_that_breaks_goes_on_where_it_was(self) -> None:
        informer = self.informer()
        await self.maps.create(config_map("a"))
        self.api.turn()
        self.transport.lose()
        await self.maps.create(config_map("b"))
        self.api.turn()
        self.assertEqual(self.names(informer), ["n/a"], "it waits before it comes back")
        self.api.turn(1.0)
        self.api.turn()
        self.assertEqual(self.names(informer), ["n/a", "n/b"])
        self.assertEqual(self.events, [("add", "a"), ("add", "b")])
        self.assertIn("resourceVersion=", self.transport.requests[-1][1])

    async def test_a_server_that_is_away_is_asked_ever_less_often(self) -> None:
        informer = self.informer()
        self.transport.down = True
        self.transport.lose()
        asked = len(self.transport.requests)
        for _ in range(400):
            self.api.turn(1.0)
        self.assertLess(len(self.transport.requests) - asked, 50)
        self.transport.down = False
        await self.maps.create(config_map("a"))
        for _ in range(60):
            self.api.turn(1.0)
        self.assertEqual(self.names(informer), ["n/a"])

    async def test_a_server_that_ends_each_watch_at_once_is_asked_ever_less_often(self) -> None:
        """be it at the begin or later"""
        serve, asked = self.transport.request, []

        def ended(method: str, target: str, *rest: Any, **more: Any) -> Any:
            if "watch=true" not in target or ("sendInitialEvents" in target) != initial:
                return serve(method, target, *rest, **more)
            asked.append(target)
            self.assertLess(len(asked), 1000, "there is no end to it")
            stream = Stream(lambda wait: None, lambda: None)
            stream.finish()
            return succeed(Response(200, Headers(), stream=stream))

        for initial in (True, False):
            asked.clear()
            self.patch(self.client.session.transport, "request", ended)
            informer = self.informer()
            if not initial:
                self.transport.lose()
            for _ in range(400):
                self.api.turn(1.0)
            self.assertLess(len(asked), 50)
            self.assertGreater(len(asked), 10)
            self.patch(self.client.session.transport, "request", serve)
            await self.maps.create(config_map(f"after-{initial}".lower()))
            for _ in range(60):
                self.api.turn(1.0)
            self.assertIn(f"n/after-{initial}".lower(), self.names(informer))

    async def test_an_expired_revision_is_a_new_begin(self) -> None:
        """Objects that went away in the gap are told of, the others only if they changed."""
        informer = self.informer()
        for name in ("stays", "changes", "goes"):
            await self.maps.create(config_map(name))
        self.api.turn()
        self.events.clear()
        self.transport.lose()
        await self.maps.delete("goes")
        await self.maps.patch("changes", {"data": {"x": "1"}})
        await self.maps.create(config_map("new"))
        serve, refused = self.transport.request, []

        def expired(method: str, target: str, *rest: Any, **more: Any) -> Any:
            if "watch=true" in target and "sendInitialEvents" not in target and not refused:
                refused.append(target)
                return refusal(Expired("too old resource version"))
            return serve(method, target, *rest, **more)

        self.patch(self.client.session.transport, "request", expired)
        for _ in range(5):
            self.api.turn(1.0)
        self.assertEqual(len(refused), 1)
        self.assertIn("sendInitialEvents=true", self.transport.requests[-1][1])
        self.assertEqual(self.names(informer), ["n/changes", "n/new", "n/stays"])
        self.assertEqual(sorted(self.events), [("add", "new"), ("delete", "goes"), ("update", "changes")])

    async def test_a_server_without_initial_events_is_listed(self) -> None:
        await self.maps.create(config_map("a"))
        serve = self.transport.request

        def old(method: str, target: str, *rest: Any, **more: Any) -> Any:
            if "sendInitialEvents" in target:
                return refusal(BadRequest("sendInitialEvents is forbidden for watch"))
            return serve(method, target, *rest, **more)

        self.patch(self.client.session.transport, "request", old)
        informer = self.informer()
        await self.maps.create(config_map("b"))
        self.api.turn()
        self.assertEqual(self.names(informer), ["n/a", "n/b"])
        self.assertEqual(informer.store.get("n/a")["kind"], "ConfigMap")  # type: ignore[index]

    async def test_selection_transform_indices_resync(self) -> None:
        def slim(obj: Object) -> Object:
            return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}

        await self.maps.create(config_map("a", owner="x"))
        await self.maps.create({**config_map("b", owner="y"), "metadata": {"name": "b", "labels": {"l": "1"}}})
        await self.all.namespace("m").create(config_map("c", owner="x"))
        informer = self.informer(
            transform=slim, indices={"owner": lambda obj: [obj["data"]["owner"]]}, resync=60.0
        )  # fmt: skip
        self.assertEqual(sorted(map(key_of, informer.store.by_index("owner", "x"))), ["m/c", "n/a"])
        self.assertEqual([key_of(obj) for obj in informer.store.by_index("namespace", "m")], ["m/c"])
        self.assertNotIn("managedFields", informer.store.get("n/a")["metadata"])  # type: ignore[index]
        self.events.clear()
        self.api.turn(61)
        self.assertEqual(sorted(self.events), [("update", "a"), ("update", "b"), ("update", "c")])
        chosen = self.informer(label_selector="l=1")
        self.assertEqual(self.names(chosen), ["n/b"])

    async def test_packed_objects_are_decoded_for_who_asks(self) -> None:
        informer = self.informer(packed=True, indices={"x": lambda obj: [obj["data"].get("x", "")]})
        await self.maps.create(config_map("a", x="1"))
        await self.maps.patch("a", {"data": {"x": "2"}})
        await self.maps.create(config_map("b", x="1"))
        self.api.turn()
        self.assertEqual(self.events, [("add", "a"), ("update", "a"), ("add", "b")])
        first = informer.store.get("n/a")
        assert first is not None
        first["data"]["x"] = "changed here"
        self.assertEqual(informer.store.get("n/a")["data"], {"x": "2"})  # type: ignore[index]
        self.assertEqual([key_of(obj) for obj in informer.store.by_index("x", "1")], ["n/b"])
        await self.maps.delete("a")
        self.api.turn()
        self.assertEqual((self.names(informer), informer.store.by_index("x", "2")), (["n/b"], []))

    async def test_synced(self) -> None:
        informer = SharedInformer(self.all)
        waiting = Deferred.fromCoroutine(informer.synced())
        self.assertNoResult(waiting)
        informer.start()
        self.addCleanup(informer.stop)
        self.api.turn()
        self.successResultOf(waiting)

    async def test_who_waits_for_an_informer_that_is_stopped_waits_no_longer(self) -> None:
        informer = SharedInformer(self.all)
        waiting = [Deferred.fromCoroutine(informer.synced()) for _ in range(3)]
        informer.stop()
        for one in waiting:
            self.failureResultOf(one, CancelledError)

    async def test_a_controller_of_the_server_runs_on_the_remote_client(self) -> None:
        """The controller that gives each namespace its default ServiceAccount, over requests."""
        remote = await RemoteClient.connected(self.client)
        self.addCleanup(remote.stop)
        controller = ServiceAccountController(remote, self.api.clock)
        await controller.start()
        accounts = await self.client.resource("serviceaccounts")
        for _ in range(10):
            self.api.turn(0.1)
        found = [key_of(item) async for item in accounts.items()]
        self.assertEqual(sorted(found), ["m/default", "n/default"])
        await accounts.namespace("n").delete("default")
        for _ in range(10):
            self.api.turn(0.1)
        self.assertTrue(await accounts.namespace("n").exists("default"))
        controller.stop()

    async def test_a_queue_between_informer_and_work(self) -> None:
        done: list[str] = []

        async def handle(key: str) -> None:
            done.append(key)

        queue = WorkQueue(self.api.clock, "test", handle)
        informer = self.informer()
        informer.add_handler(
            on_add=lambda obj: queue.add(key_of(obj)), on_update=lambda old, new: queue.add(key_of(new))
        )
        await self.maps.create(config_map("a"))
        await self.maps.patch("a", {"data": {"x": "1"}})
        self.api.turn()
        self.api.turn()
        self.assertEqual(done, ["n/a"], "a key is handled once however often it came")
        queue.stop()

    async def test_events_are_counted_and_thinned_out(self) -> None:
        recorder = EventRecorder(self.client, "tester", now=self.api.clock.seconds)
        obj = await self.maps.create(config_map("a"))
        for _ in range(3):
            recorder.event(obj, "Normal", "Made", "it was made")
        events = (await self.client.resource("events.v1.")).namespace("n")
        items = [item async for item in events.items()]
        self.assertEqual(
            [(item["count"], item["reason"], item["involvedObject"]["name"]) for item in items], [(3, "Made", "a")]
        )
        for number in range(BURST):
            recorder.event(obj, "Warning", "Flood", f"number {number}")
        self.assertEqual(recorder.dropped, 3)
        self.assertEqual(len([item async for item in events.items()]), BURST - 2)

    async def test_an_event_that_cannot_be_sent_is_counted_and_does_not_hold_up_others(self) -> None:
        """A credential plugin that fails raises ConfigError before anything is sent."""
        recorder = EventRecorder(self.client, "tester", now=self.api.clock.seconds)
        obj = await self.maps.create(config_map("a"))
        request = self.transport.request
        self.patch(self.transport, "request", Mock(side_effect=ConfigError("getting credentials: exec: it failed")))
        recorder.event(obj, "Normal", "Lost", "nobody gets it")
        self.transport.request = request  # type: ignore[method-assign]
        recorder.event(obj, "Normal", "Made", "it was made")
        events = (await self.client.resource("events.v1.")).namespace("n")
        self.assertEqual([item["reason"] async for item in events.items()], ["Made"])
        self.assertEqual(recorder.dropped, 1)


class IndexerCase(TestCase):
    def test_an_object_is_found_under_its_present_values(self) -> None:
        store = Indexer({"colour": lambda obj: obj["colours"]})
        store.put({"metadata": {"name": "a"}, "colours": ["red", "blue"]})
        store.put({"metadata": {"name": "a"}, "colours": ["blue"]})
        self.assertEqual(store.by_index("colour", "red"), [])
        self.assertEqual(len(store.by_index("colour", "blue")), 1)
        self.assertEqual(store.index_values("colour"), ["blue"])
        store.remove("a")
        self.assertEqual((store.index_values("colour"), len(store), "a" in store), ([], 0, False))
        with self.assertRaises(KeyError):
            store.by_index("size", "1")
        self.assertEqual((split_key("n/a"), split_key("a")), (("n", "a"), ("", "a")))
