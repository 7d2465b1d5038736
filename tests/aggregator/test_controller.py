"""The controller of APIServices over fakes: registration at the start, conditions, and a server's disappearance."""

from __future__ import annotations

import copy
from collections.abc import Callable

import orjson
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.aggregator.availability import Target
from kapi.aggregator.backend import Backends
from kapi.aggregator.controller import APIServiceController
from kapi.endpoints.openapi.remote import RemoteDocuments
from kapi.machinery import status
from kapi.machinery.gvk import GroupResource, GroupVersion
from kapi.machinery.tree import Object


class FakeResource:
    """One resource in memory; it is its own lister."""

    def __init__(self, group: str, plural: str) -> None:
        self.name = GroupResource(group, plural)
        self.objects: dict[tuple[str, str], Object] = {}
        self.handlers: list[Callable[[str, Object, Object | None], None]] = []

    @property
    def lister(self) -> FakeResource:
        return self

    def get(self, namespace: str, name: str) -> Object | None:
        return self.objects.get((namespace, name))

    def list(self, namespace: str = "") -> list[Object]:
        return [obj for (where, _), obj in self.objects.items() if namespace in ("", where)]

    @property
    def changes(self) -> object:
        return {key: id(obj) for key, obj in self.objects.items()}

    def put(self, obj: Object, namespace: str = "") -> None:
        key = (namespace, obj["metadata"]["name"])
        old = self.objects.get(key)
        self.objects[key] = obj
        for handler in self.handlers:
            handler("ADDED" if old is None else "MODIFIED", obj, old)

    def remove(self, name: str, namespace: str = "") -> None:
        old = self.objects.pop((namespace, name))
        for handler in self.handlers:
            handler("DELETED", old, old)

    async def create(self, obj: Object, namespace: str = "") -> Object:
        if (namespace, obj["metadata"]["name"]) in self.objects:
            raise status.already_exists(self.name, obj["metadata"]["name"])
        new = copy.deepcopy(obj)
        new["metadata"]["uid"] = f"uid-{len(self.objects)}"
        self.put(new, namespace)
        return new

    async def update(self, obj: Object, namespace: str = "", subresource: str = "") -> Object:
        self.put(copy.deepcopy(obj), namespace)
        return obj

    async def delete(self, name: str, namespace: str = "", options: Object | None = None) -> None:
        self.remove(name, namespace)

    def watch(self, handler: Callable[[str, Object, Object | None], None]) -> Callable[[], None]:
        self.handlers.append(handler)
        for obj in self.list():
            handler("ADDED", obj, None)
        return lambda: self.handlers.remove(handler)


class FakeClient:
    def __init__(self) -> None:
        self.resources: dict[tuple[str, str], FakeResource] = {}

    def resource(self, group: str, plural: str) -> FakeResource:
        return self.resources.setdefault((group, plural), FakeResource(group, plural))


class FakeQuestions:
    """Servers without a network: ``answers`` by path, ``silent`` ones never answer, ``dead`` ones refuse."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.answers: dict[str, bytes] = {}
        self.silent: set[str] = set()
        self.dead: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    async def get(self, key: str, path: str, seconds: float, limit: int = 0) -> tuple[int, bytes]:
        self.asked.append((key, path))
        if key in self.silent:
            await Deferred().addTimeout(seconds, self._clock)
        if key in self.dead:
            raise ConnectionRefusedError("gone")
        return (200, self.answers[path]) if path in self.answers else (404, b"")


def remote(group: str = "a.example.com") -> Object:
    name = f"v1.{group}"
    spec = {
        "group": group,
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 10,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": "ns", "name": "svc", "port": 443},
    }
    return {"metadata": {"name": name}, "spec": spec, "status": {}}


class ControllerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.client = FakeClient()
        self.clock = Clock()
        self.custom: list[GroupVersion] = []
        self.events: list[tuple[str, str]] = []
        self.backends = Backends(self.clock)
        self.questions = FakeQuestions(self.clock)
        self.questions.answers["/apis/a.example.com/v1"] = b'{"resources": []}'
        self.openapi = RemoteDocuments()
        self.controller = self.made()
        self.services = self.client.resource("apiregistration.k8s.io", "apiservices")
        self.start()

    def made(self, spread: bool = False) -> APIServiceController:
        return APIServiceController(
            self.client,  # type: ignore[arg-type]
            self.clock,
            self.backends,
            built_in=lambda: [GroupVersion("", "v1"), GroupVersion("apps", "v1")],
            custom=lambda: self.custom,
            is_custom=lambda gv: gv in self.custom,
            service_changed=lambda kind, obj: self.events.append((kind, obj["metadata"]["name"])),
            remote_changed=lambda gv: None,
            now=lambda: "now",
            openapi=self.openapi,
            questions=self.questions,  # type: ignore[arg-type]
            spread=spread,
        )

    def start(self) -> None:
        done: Deferred[None] = ensureDeferred(self.controller.start())
        self.successResultOf(done)
        self.turn()

    def turn(self) -> None:
        for _ in range(5):
            self.clock.advance(0)

    def condition(self, name: str = "v1.a.example.com") -> Object:
        obj = self.services.get("", name)
        assert obj is not None
        found: Object = obj["status"]["conditions"][0]
        return found

    def test_built_in_group_versions_are_registered_at_the_start(self) -> None:
        self.assertEqual(sorted(name for _, name in self.services.objects), ["v1.", "v1.apps"])
        self.assertTrue(self.controller.registered)

    def test_custom_group_versions_come_and_go(self) -> None:
        gv = GroupVersion("a.example.com", "v1")
        self.custom.append(gv)
        self.controller.custom_changed(gv)
        self.turn()
        self.assertIn(("", "v1.a.example.com"), self.services.objects)
        self.custom.clear()
        self.controller.custom_changed(gv)
        self.turn()
        self.assertNotIn(("", "v1.a.example.com"), self.services.objects)

    def test_one_of_custom_resources_that_is_deleted_comes_back(self) -> None:
        gv = GroupVersion("a.example.com", "v1")
        self.custom.append(gv)
        self.controller.custom_changed(gv)
        self.turn()
        self.services.remove("v1.a.example.com")
        self.turn()
        self.assertIn(("", "v1.a.example.com"), self.services.objects)
        self.services.remove("v1.apps")  # a built-in one does not before the next start
        self.turn()
        self.assertNotIn(("", "v1.apps"), self.services.objects)

    def test_one_of_custom_resources_that_is_changed_is_put_right(self) -> None:
        gv = GroupVersion("a.example.com", "v1")
        self.custom.append(gv)
        self.controller.custom_changed(gv)
        self.turn()
        key = ("", "v1.a.example.com")
        found = copy.deepcopy(self.services.objects[key])
        wanted = copy.deepcopy(found["spec"])
        found["spec"]["versionPriority"] = 7
        self.services.put(found)
        self.turn()
        self.assertEqual(self.services.objects[key]["spec"], wanted)

    def test_a_missing_service_is_said_and_its_coming_is_noticed(self) -> None:
        self.services.put(remote())
        self.turn()
        self.assertEqual(self.condition()["reason"], "ServiceNotFound")
        self.assertEqual(self.questions.asked, [])
        service = {
            "metadata": {"name": "svc", "namespace": "ns"},
            "spec": {"type": "ExternalName", "externalName": "h"},
        }
        self.client.resource("", "services").put(service, "ns")
        self.turn()
        self.assertEqual(self.condition()["status"], "True")
        self.assertEqual(self.questions.asked[0], ("v1.a.example.com", "/apis/a.example.com/v1"))
        backend = self.backends.get("v1.a.example.com")
        assert backend is not None
        self.assertEqual(backend.targets, (Target("h", 443, "svc.ns.svc"),))

    def targets(self) -> tuple[Target, ...]:
        """Those of a server with two endpoints that are ready and one that is not."""
        service = {
            "metadata": {"name": "svc", "namespace": "ns"},
            "spec": {"clusterIP": "10.0.0.7", "ports": [{"port": 443}]},
        }
        endpoints = [{"addresses": [f"10.1.0.{i}"], "conditions": {"ready": i != 2}} for i in (1, 2, 3)]
        piece = {
            "metadata": {"name": "svc-1", "namespace": "ns", "labels": {"kubernetes.io/service-name": "svc"}},
            "ports": [{"port": 8443}],
            "endpoints": endpoints,
        }
        self.client.resource("", "services").put(service, "ns")
        self.client.resource("discovery.k8s.io", "endpointslices").put(piece, "ns")
        self.services.put(remote())
        self.turn()
        self.assertEqual(self.condition()["status"], "True")
        backend = self.backends.get("v1.a.example.com")
        assert backend is not None
        return backend.targets

    def test_one_endpoint_is_enough(self) -> None:
        self.assertEqual(self.targets(), (Target("10.1.0.1", 8443, "svc.ns.svc"),))

    def test_requests_are_spread_where_that_is_asked_for(self) -> None:
        self.controller.stop()
        self.controller = self.made(spread=True)
        self.start()
        self.assertEqual(self.targets(), tuple(Target(f"10.1.0.{i}", 8443, "svc.ns.svc") for i in (1, 3)))

    def test_a_server_that_dies_is_noticed_by_the_next_look(self) -> None:
        self.test_a_missing_service_is_said_and_its_coming_is_noticed()
        self.questions.dead.add("v1.a.example.com")
        self.clock.advance(31)
        self.turn()
        self.assertEqual(self.condition()["reason"], "FailedDiscoveryCheck")
        self.questions.dead.clear()
        self.clock.advance(31)
        self.turn()
        self.assertEqual(self.condition()["status"], "True")

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 20)):
            self.clock.advance(0.05)

    def test_a_server_that_comes_back_is_available_within_a_second(self) -> None:
        """However long it was away."""
        self.test_a_missing_service_is_said_and_its_coming_is_noticed()
        self.questions.dead.add("v1.a.example.com")
        for away in (35, 300):
            self.pass_time(away)
            self.assertEqual(self.condition()["reason"], "FailedDiscoveryCheck")
        asked = len(self.questions.asked)
        self.pass_time(10)
        self.assertLess(len(self.questions.asked) - asked, 15, "it is asked all the time")
        self.questions.dead.clear()
        self.pass_time(1)
        self.assertEqual(self.condition()["status"], "True")
        asked = len(self.questions.asked)
        self.pass_time(29)
        self.assertLess(len(self.questions.asked) - asked, 3)

    def test_a_server_that_keeps_silent_is_asked_less_often(self) -> None:
        """Each question takes a worker for as long as it may take."""
        self.silence(1)
        self.pass_time(120)
        asked = len(self.questions.asked)
        self.pass_time(105)
        self.assertLessEqual(len(self.questions.asked) - asked, 4)

    def test_a_request_that_does_not_reach_it_has_it_looked_at(self) -> None:
        self.test_a_missing_service_is_said_and_its_coming_is_noticed()
        self.questions.dead.add("v1.a.example.com")
        self.controller.failed("v1.a.example.com")
        self.turn()
        self.assertEqual(self.condition()["reason"], "FailedDiscoveryCheck")
        asked = len(self.questions.asked)
        for _ in range(100):
            self.controller.failed("v1.a.example.com")
            self.controller.failed("v1.unknown")
            self.turn()
        self.assertEqual(len(self.questions.asked), asked, "that is no news")

    def silence(self, count: int) -> list[str]:
        """So many servers that accept connections and never answer."""
        service = {
            "metadata": {"name": "svc", "namespace": "ns"},
            "spec": {"type": "ExternalName", "externalName": "h"},
        }
        self.client.resource("", "services").put(service, "ns")
        names = []
        for number in range(count):
            obj = remote(f"silent{number}.example.com")
            names.append(obj["metadata"]["name"])
            self.questions.silent.add(names[-1])
            self.services.put(obj)
        self.turn()
        return names

    def test_servers_that_never_answer_do_not_make_a_custom_resource_wait(self) -> None:
        names = self.silence(6)
        self.assertEqual(len(self.questions.asked), 5, "as many as there are workers")
        gv = GroupVersion("new.example.com", "v1")
        self.custom.append(gv)
        self.controller.custom_changed(gv)
        self.turn()
        self.assertIn(("", "v1.new.example.com"), self.services.objects)
        for _ in range(3):
            self.clock.advance(5)
            self.turn()
        self.assertEqual({self.condition(name)["reason"] for name in names}, {"FailedDiscoveryCheck"})

    def test_one_that_answers_is_found_among_those_that_do_not(self) -> None:
        self.silence(6)
        self.services.put(remote())
        for _ in range(2):
            self.clock.advance(5)
            self.turn()
        self.assertEqual(self.condition()["status"], "True")

    def test_a_document_that_never_comes_delays_nothing_but_documents(self) -> None:
        self.test_a_missing_service_is_said_and_its_coming_is_noticed()
        path = "/openapi/v3/apis/a.example.com/v1?hash=A"
        paths = {"apis/a.example.com/v1": {"serverRelativeURL": path}}
        self.questions.answers["/openapi/v3"] = orjson.dumps({"paths": paths})
        self.questions.answers[path] = b"{}"
        self.clock.advance(31)
        self.turn()
        self.assertEqual(self.openapi.documents, {"apis/a.example.com/v1": ("A", b"{}")})
        asked = len(self.questions.asked)
        self.clock.advance(31)
        self.turn()
        self.assertEqual(len(self.questions.asked), asked + 2, "a document that is known is not read again")
        self.services.remove("v1.a.example.com")
        self.assertEqual(self.openapi.documents, {})

    def test_all_that_a_server_documents_is_taken_and_let_go(self) -> None:
        self.test_a_missing_service_is_said_and_its_coming_is_noticed()
        keys = ["apis", "apis/a.example.com", "apis/a.example.com/v1"]
        urls = {key: f"/openapi/v3/{key}?hash={len(key)}" for key in keys}
        answers = self.questions.answers
        answers["/openapi/v3"] = orjson.dumps({"paths": {key: {"serverRelativeURL": url} for key, url in urls.items()}})
        answers.update(dict.fromkeys(urls.values(), b"{}"))
        path = "/apis/a.example.com/v1/things"
        answers["/openapi/v2"] = orjson.dumps({"paths": {path: {}, "/version/": {}, "/apis/b/v1/x": {}}})
        self.clock.advance(31)
        self.turn()
        self.assertEqual(sorted(self.openapi.documents), keys)
        document: Object = {"paths": {}}
        self.openapi.join(document)
        self.assertEqual(document["paths"], {path: {}})
        answers["/openapi/v3"] = orjson.dumps({"paths": {"apis": {"serverRelativeURL": urls["apis"]}}})
        self.clock.advance(31)
        self.turn()
        self.assertEqual(sorted(self.openapi.documents), ["apis"])
        self.services.remove("v1.a.example.com")
        self.openapi.join(nothing := {"paths": {}})
        self.assertEqual((self.openapi.documents, nothing["paths"]), ({}, {}))

    def test_what_is_no_document_is_passed_over(self) -> None:
        self.test_a_missing_service_is_said_and_its_coming_is_noticed()
        for index in (
            b"[]",
            b'{"paths": 1}',
            b'{"paths": {"a": 1}}',
            b'{"paths": {"a": {"serverRelativeURL": 1}}}',
            b"x",
        ):
            self.questions.answers.update({"/openapi/v3": index, "/openapi/v2": b'{"paths": 1}'})
            self.clock.advance(31)
            self.turn()
            self.assertEqual(self.openapi.documents, {})
        self.assertEqual(self.condition()["status"], "True")

    def test_a_deleted_one_is_forgotten(self) -> None:
        self.test_a_missing_service_is_said_and_its_coming_is_noticed()
        self.services.remove("v1.a.example.com")
        self.turn()
        self.assertIsNone(self.backends.get("v1.a.example.com"))
        self.assertEqual(self.events[-1], ("DELETED", "v1.a.example.com"))

    def test_nothing_runs_after_stop(self) -> None:
        self.controller.stop()
        self.services.put(remote())
        self.turn()
        self.clock.advance(120)
        self.assertEqual(self.services.objects[("", "v1.a.example.com")]["status"], {})
