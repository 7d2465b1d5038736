"""Whatever the process writes or walks by itself is computed in slices, so that a large object of a client holds up nobody."""

from __future__ import annotations

import ast
import traceback
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase

import kapi.controllers
from kapi.admission.interface import Attributes, Plugin
from kapi.authentication.service_account.usage import LegacyTokenUsage
from kapi.authorization.rbac.bootstrap import reconcile_policy
from kapi.controllers.bootstrap import BootstrapController
from kapi.controllers.builtin import KNOWN, manager_controllers, server_controllers
from kapi.controllers.garbagecollector.places import Places
from kapi.controllers.identity import IdentityController
from kapi.controllers.leaderelection import LeaderElection
from kapi.controllers.serverleases import LEASES, ServerLeases
from kapi.machinery import checkpoint
from kapi.machinery.checkpoint import engage
from kapi.machinery.time import stamp_micros
from kapi.machinery.tree import Object
from kapi.process.slices import Slices
from kapi.registry.allocators.services import install
from kapi.runtime.sliced import begin, run_by
from kapi.testing.memory_api import TESTER, MemoryAPI, succeed

EVERY = -1.0  # a length with which each checkpoint suspends
CORE = "/api/v1"
NS = f"{CORE}/namespaces/n1"
MERGE = "application/merge-patch+json"


class LongWalk(Plugin):
    """What a client has made takes long to walk at each write, before and after something was waited for."""

    def __init__(self) -> None:
        self.reactor: IReactorTime | None = None
        self.in_one_piece: list[str] = []  # writes that nobody could suspend
        self.suspended = 0
        self.written: set[str] = set()

    async def admit(self, attributes: Attributes) -> None:
        self._walk(attributes)
        if self.reactor is not None:
            await deferLater(self.reactor, 0)
        self._walk(attributes)

    def _walk(self, attributes: Attributes) -> None:
        engage()
        if checkpoint.running is None:
            stack = "".join(traceback.format_stack(limit=8))
            self.in_one_piece.append(f"{attributes.operation} {attributes.resource} {attributes.name}\n{stack}")
        else:
            checkpoint.checkpoint()
            self.suspended += attributes.user is not TESTER
            self.written.add(attributes.resource.resource)


class InSlices(SynchronousTestCase):
    def setUp(self) -> None:
        self.walk = LongWalk()
        self.api = MemoryAPI(plugins=[self.walk])
        slices = Slices(self.api.clock, length=EVERY)
        run_by(self.api.clock, slices.call)
        self.api.caches.call = slices.call
        self.api.runner._slices = slices
        self.call = slices.call
        self.node_ports = install(self.api.registry, ["10.0.0.0/24"], (30000, 32767))
        succeed(self.api.caches.start())
        self.walk.reactor = self.api.clock
        self.client = self.api.registry.client

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds * 4)):
            self.api.turn(0.25)
            for _ in range(40):
                self.api.turn()

    def ask(self, method: str, path: str, body: Any = None, code: int = 0, type: str = "") -> Object:
        request = self.api.ask(method, path, body, type=type)
        for _ in range(1000):
            if request.finished:
                break
            self.api.turn()
        self.assertEqual(request.code, code or (201 if method == "POST" else 200), b"".join(request.chunks))
        found: Object = request.json
        return found

    def assert_all_suspended(self, *resources: str) -> None:
        self.assertEqual(self.walk.in_one_piece, [])
        self.assertLessEqual(set(resources), self.walk.written)
        self.assertGreater(self.walk.suspended, 0)

    def run_all(self, *controllers: Any) -> None:
        for controller in controllers:
            begun = begin(self.api.clock, controller.start())
            self.pass_time(1)
            self.successResultOf(begun)
            self.addCleanup(self.stop, controller)

    def stop(self, controller: Any) -> None:
        stopping = controller.stop()
        if stopping is not None:
            begin(self.api.clock, stopping)
            self.pass_time(1)

    def test_the_loops_of_the_server(self) -> None:
        clock, now = self.api.clock, self.api.environment.now
        leases = ServerLeases(self.api.store, self.api.caches.cache(LEASES, {}, False), clock.seconds, clock.seconds)
        self.run_all(
            BootstrapController(
                self.client, clock, ranges=["10.0.0.0/24"], address="192.0.2.1", port=6443, now=now, leases=leases
            ),
            IdentityController(self.client, clock, clock.seconds, "host"),
            LeaderElection(
                self.client,
                clock,
                namespace="kube-system",
                lease="l",
                make=list,
                now=lambda: stamp_micros(clock.seconds()),
            ),
        )
        before = self.walk.suspended
        self.pass_time(25)
        self.assertGreater(self.walk.suspended, before)  # the Leases are renewed
        self.assert_all_suspended("namespaces", "services", "endpoints", "endpointslices", "leases")

    def test_the_default_policy(self) -> None:
        begun = Deferred.fromCoroutine(reconcile_policy(self.client))
        self.pass_time(2)
        self.successResultOf(begun)
        self.assert_all_suspended("clusterroles", "clusterrolebindings", "roles")

    def test_who_marks_tokens_that_were_used(self) -> None:
        self.ask("POST", f"{CORE}/namespaces", {"metadata": {"name": "n1"}})
        secret = self.ask("POST", f"{NS}/secrets", {"metadata": {"name": "s"}})
        LegacyTokenUsage(self.client, self.api.clock.seconds)(secret)
        self.pass_time(1)
        self.assertIn("labels", self.ask("GET", f"{NS}/secrets/s")["metadata"])
        self.assert_all_suspended("secrets")

    def test_a_collection_that_is_deleted(self) -> None:
        self.ask("POST", f"{CORE}/namespaces", {"metadata": {"name": "n1"}})
        for name in "abc":
            self.ask("POST", f"{NS}/configmaps", {"metadata": {"name": name}})
        self.ask("DELETE", f"{NS}/configmaps")
        self.assertEqual(self.walk.in_one_piece, [])

    def test_all_controllers(self) -> None:
        """Each has something to do."""
        registry, clock, now = self.api.registry, self.api.clock, self.api.environment.now
        places = Places(registry, [self.api.table], registry.client)
        made = manager_controllers(
            self.client, clock, enabled=lambda name: True, now=now, root_ca=lambda: "ca",
            caches=self.api.caches, places=places, call=self.call, extended_resources=True,
        )  # fmt: skip
        self.assertEqual({controller.name for controller in made}, KNOWN)
        made += server_controllers(self.client, clock, node_ports=self.node_ports, now=now)
        self.run_all(*made)
        self.ask("POST", f"{CORE}/namespaces", {"metadata": {"name": "n1"}})
        self.pass_time(1)
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "9"}}}
        self.ask("POST", f"{NS}/resourcequotas", quota)
        owner = self.ask("POST", f"{NS}/configmaps", {"metadata": {"name": "owner"}})
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        self.ask("POST", f"{NS}/configmaps", {"metadata": {"name": "owned", "ownerReferences": [reference]}})
        port = {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"app": "a"}}
        self.ask("POST", f"{NS}/services", {"metadata": {"name": "s"}, "spec": port})
        spec = {"nodeName": "gone", "containers": [{"name": "c", "image": "i"}]}
        pod = {"metadata": {"name": "p", "labels": {"app": "a"}}, "spec": spec}
        self.ask("POST", f"{NS}/pods", pod)
        rule = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}}
        rbac = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        self.ask("POST", rbac, {"metadata": {"name": "sum"}, **rule})
        part = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        self.ask("POST", rbac, {"metadata": {"name": "part", "labels": {"x": "y"}}, "rules": part})
        self.pass_time(5)
        self.ask("DELETE", f"{NS}/configmaps/owner")
        self.pass_time(70)  # the node has been away for long enough
        self.ask("DELETE", f"{CORE}/namespaces/n1")
        self.pass_time(5)
        self.ask("GET", f"{CORE}/namespaces/n1", code=404)
        self.assert_all_suspended(
            "configmaps", "clusterroles", "endpoints", "endpointslices", "namespaces", "pods", "resourcequotas", "serviceaccounts"
        )  # fmt: skip


class Loops(SynchronousTestCase):
    def test_no_controller_has_a_loop_beside_slices(self) -> None:
        """``kapi.runtime.sliced.begin`` and work queues run what a controller computes; these would run it in one piece."""
        beside = {"fromCoroutine", "ensureDeferred", "inlineCallbacks", "LoopingCall"}
        found = []
        for path in Path(kapi.controllers.__path__[0]).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
                if name in beside:
                    found.append(f"{path}:{node.lineno} {name}")
        self.assertEqual(found, [])
