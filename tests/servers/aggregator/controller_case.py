"""The controller of APIServices over fakes of its client and of other servers."""

from __future__ import annotations

import copy
from collections.abc import Callable

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.endpoints.openapi.remote import RemoteDocuments
from kapi.machinery import status
from kapi.machinery.gvk import GroupResource, GroupVersion
from kapi.machinery.tree import Object
from kapi.servers.aggregator.availability import Target
from kapi.servers.aggregator.backend import BackendAnswer, Backends
from kapi.servers.aggregator.controller import APIServiceController


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

    def has(self, group: str, plural: str) -> bool:
        return True


class FakeQuestions:
    """Servers without a network: ``answers`` by path, ``silent`` ones never answer, ``dead`` ones refuse."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.answers: dict[str, bytes] = {}
        self.silent: set[str] = set()
        self.dead: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.hanging: set[str] = set()  # those that do not answer with their discovery document
        self.discovered: list[tuple[str, str, str]] = []  # requests for it: key, Accept, ETag
        self.form, self.etag = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ""

    async def ask(
        self, key: str, path: str, seconds: float, limit: int = 0, accept: str = "application/json", etag: str = ""
    ) -> BackendAnswer:
        self.asked.append((key, path))
        if path == "/apis":
            self.discovered.append((key, accept, etag))
            if key in self.hanging:
                await Deferred().addTimeout(seconds, self._clock)
        if key in self.silent:
            await Deferred().addTimeout(seconds, self._clock)
        if key in self.dead:
            raise ConnectionRefusedError("gone")
        if path == "/apis" and path in self.answers:
            same = bool(etag) and etag == self.etag
            return BackendAnswer(304 if same else 200, b"" if same else self.answers[path], self.form, self.etag)
        return BackendAnswer(200, self.answers[path]) if path in self.answers else BackendAnswer(404, b"")


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


class Served:
    """Group versions of built-in and custom resources; the lists may change."""

    def __init__(self, built_in: list[GroupVersion], custom: list[GroupVersion]) -> None:
        self._built_in, self._custom = built_in, custom

    def built_in(self) -> list[GroupVersion]:
        return self._built_in

    def custom(self) -> list[GroupVersion]:
        return self._custom

    def is_custom(self, gv: GroupVersion) -> bool:
        return gv in self._custom


class ControllerCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.client = FakeClient()
        self.clock = Clock()
        self.custom: list[GroupVersion] = []
        self.events: list[tuple[str, str]] = []
        self.backends = Backends(self.clock)
        self.backend_client = FakeQuestions(self.clock)
        self.backend_client.answers["/apis/a.example.com/v1"] = b'{"resources": []}'
        self.openapi = RemoteDocuments()
        self.remote: dict[GroupVersion, list[Object]] = {}
        self.controller = self.made()
        self.services = self.client.resource("apiregistration.k8s.io", "apiservices")
        self.start()

    def made(self, spread: bool = False) -> APIServiceController:
        return APIServiceController(
            self.client,  # type: ignore[arg-type]
            self.clock,
            self.backends,
            served=Served([GroupVersion("", "v1"), GroupVersion("apps", "v1")], self.custom),
            service_changed=lambda kind, obj: self.events.append((kind, obj["metadata"]["name"])),
            remote_changed=lambda gv: None,
            now=lambda: "now",
            openapi=self.openapi,
            remote=self.remote,
            backend_client=self.backend_client,  # type: ignore[arg-type]
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

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 20)):
            self.clock.advance(0.05)

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
            self.backend_client.silent.add(names[-1])
            self.services.put(obj)
        self.turn()
        return names

    def make_available(self) -> None:
        """An APIService whose Service comes after it."""
        self.services.put(remote())
        self.turn()
        self.assertEqual(self.condition()["reason"], "ServiceNotFound")
        self.assertEqual(self.backend_client.asked, [])
        service = {
            "metadata": {"name": "svc", "namespace": "ns"},
            "spec": {"type": "ExternalName", "externalName": "h"},
        }
        self.client.resource("", "services").put(service, "ns")
        self.turn()
        self.assertEqual(self.condition()["status"], "True")
        self.assertEqual(self.backend_client.asked[0], ("v1.a.example.com", "/apis/a.example.com/v1"))
        backend = self.backends.get("v1.a.example.com")
        assert backend is not None
        self.assertEqual(backend.targets, (Target("h", 443, "svc.ns.svc"),))
