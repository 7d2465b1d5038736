"""Quotas get back what was deleted, changed or ended, and start counting when they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.admission.initializer import Initializer
from kapi.admission.quota.plugin import ResourceQuota
from kapi.controllers.resourcequota import ResourceQuotaController, corrected, resources_of, usage
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import Conflict, Forbidden
from kapi.machinery.tree import Object
from kapi.testing.memory_api import MemoryAPI

PODS = GroupResource("", "pods")


def quota(hard: dict[str, str], **spec: Any) -> Object:
    return {"metadata": {"name": "q", "namespace": "n"}, "spec": {"hard": hard, **spec}}


def pod(name: str, cpu: str = "", phase: str = "Running") -> Object:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    spec = {"containers": [{"name": "c", "resources": resources}]}
    return {"metadata": {"name": name, "namespace": "n"}, "spec": spec, "status": {"phase": phase}}


class Reconcile(TestCase):
    def test_which_objects_count(self) -> None:
        found = resources_of(["count/deployments.apps", "requests.storage", "services.nodeports", "cpu"])
        names = {str(resource) for resource in found}
        self.assertEqual(names, {"deployments.apps", "persistentvolumeclaims", "services", "pods"})

    def test_a_sum_of_what_runs(self) -> None:
        pods = [pod("a", "300m"), pod("b", "200m"), pod("c", "5", "Succeeded")]
        new = corrected(quota({"pods": "9", "requests.cpu": "1", "count/pods": "9"}), {PODS: pods}, 0.0)
        assert new is not None
        self.assertEqual(new["status"]["used"], {"pods": "2", "requests.cpu": "500m", "count/pods": "3"})
        self.assertEqual(new["status"]["hard"], {"pods": "9", "requests.cpu": "1", "count/pods": "9"})
        self.assertIsNone(corrected(new, {PODS: pods}, 0.0))

    def test_scopes(self) -> None:
        new = corrected(quota({"pods": "9"}, scopes=["BestEffort"]), {PODS: [pod("a", "1"), pod("b")]}, 0.0)
        assert new is not None
        self.assertEqual(new["status"]["used"], {"pods": "1"})

    def test_a_number_counts_as_so_many_objects(self) -> None:
        maps = GroupResource("", "configmaps")
        hard = {"configmaps": "2", "count/configmaps": "5", "pods": "1"}
        for number in (0, 3, 1000):
            objects: list[Object] = [{"metadata": {"name": f"m{one}"}} for one in range(number)]
            for counting in (quota(hard), quota(hard, scopes=["BestEffort"])):
                self.assertEqual(usage(counting, {maps: number}, 0.0), usage(counting, {maps: objects}, 0.0))


class Controller(TestCase):
    async def test_deletion_replenishes(self) -> None:
        api = await MemoryAPI.started()
        client = api.registry.client
        quotas, maps = client.resource("", "resourcequotas"), client.resource("", "configmaps")
        controller = ResourceQuotaController(client, api.clock, api.clock.seconds)
        await controller.start()
        self.addCleanup(controller.stop)

        async def wait(coroutine: Any) -> None:
            done = Deferred.fromCoroutine(coroutine)
            for _ in range(20):
                api.turn(0.1)
            await done

        def used() -> Any:
            found = quotas.lister.get("default", "q")
            assert found is not None
            return (found.get("status") or {}).get("used")

        await wait(maps.create({"metadata": {"name": "a"}}, "default"))
        hard = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "3", "count/configmaps": "3"}}}
        await wait(quotas.create(hard, "default"))
        self.assertEqual(used(), {"configmaps": "1", "count/configmaps": "1"})
        await wait(maps.delete("a", "default"))
        self.assertEqual(used(), {"configmaps": "0", "count/configmaps": "0"})


class CountingCase(TestCase):
    """A quota for two ConfigMaps, of which there is one; ``holding`` keeps creations of others from being stored."""

    async def begin(self) -> None:
        self.api = api = await MemoryAPI.started()
        client = api.registry.client
        given = Initializer(client, clock=api.clock.seconds, reactor=api.clock)
        api.registry.admission.__init__([ResourceQuota(given, None)])  # type: ignore[misc]
        self.quotas, self.maps = client.resource("", "resourcequotas"), client.resource("", "configmaps")
        self.controller = ResourceQuotaController(client, api.clock, api.clock.seconds)
        await self.controller.start()
        self.addCleanup(self.controller.stop)
        self.held: list[Deferred[None]] = []
        self.holding = False
        store_create = api.store.create

        async def create(key: str, *halves: bytes, **more: Any) -> int:
            if self.holding and "/configmaps/" in key:
                gate: Deferred[None] = Deferred()
                self.held.append(gate)
                await gate
            return await store_create(key, *halves, **more)

        self.patch(api.store, "create", create)
        await self.done(self.create("a"))
        hard = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "2"}}}
        await self.done(Deferred.fromCoroutine(self.quotas.create(hard, "default")))

    def create(self, name: str) -> Deferred[Object]:
        return Deferred.fromCoroutine(self.maps.create({"metadata": {"name": name}}, "default"))

    async def done(self, waiting: Deferred[Any]) -> Any:
        self.pass_time()
        return await waiting

    def pass_time(self) -> None:
        for _ in range(30):
            self.api.turn(0.1)

    def used(self) -> Any:
        found = self.quotas.lister.get("default", "q")
        assert found is not None
        return found["status"]["used"]["configmaps"]


class Recount(CountingCase):
    """A count that comes between the charge of an object and its commit does not give its place away."""

    async def test_an_admitted_object_keeps_its_place(self) -> None:
        await self.begin()
        self.holding = True
        late = self.create("b")
        self.pass_time()
        self.assertEqual((self.used(), len(self.held)), ("2", 1))
        self.holding = False
        # deleting "a" makes the controller count while "b" is charged and not stored
        await self.done(Deferred.fromCoroutine(self.maps.delete("a", "default")))
        await self.done(self.create("c"))
        self.held[0].callback(None)
        await self.done(late)
        again = self.create("d")
        self.pass_time()
        self.failureResultOf(again, Forbidden)
        self.assertEqual(sorted(obj["metadata"]["name"] for obj in self.maps.lister.list("default")), ["b", "c"])
        self.assertEqual(self.used(), "2")

    async def test_an_object_whose_charge_was_counted_away_is_refused_when_there_is_no_place_left(self) -> None:
        await self.begin()
        self.holding = True
        late = self.create("b")
        self.pass_time()
        self.holding = False
        await self.done(Deferred.fromCoroutine(self.maps.delete("a", "default")))
        await self.done(self.create("c"))
        await self.done(self.create("d"))
        self.held[0].callback(None)
        self.pass_time()
        self.failureResultOf(late, Forbidden)
        self.assertEqual(sorted(obj["metadata"]["name"] for obj in self.maps.lister.list("default")), ["c", "d"])
        self.assertEqual(self.used(), "2")

    async def test_a_count_that_misses_an_object_is_not_written(self) -> None:
        await self.begin()
        quota = self.quotas.lister.get("default", "q")
        assert quota is not None
        _, counted = await self.maps.list_at("default")
        await self.done(self.create("b"))
        newest = dict(await self.quotas.get("q", "default"))
        newest["status"] = {"hard": {"configmaps": "2"}, "used": {"configmaps": "1"}}
        stale = Deferred.fromCoroutine(self.quotas.update(newest, "default", "status", counted=counted))
        self.failureResultOf(stale, Conflict)
        self.assertEqual(self.used(), "2")


class BeforeTheFirstCount(CountingCase):
    """Objects that are created while a new quota, or a new limit of it, has no status yet."""

    async def begin(self) -> None:
        await super().begin()
        self.controller.stop()
        await self.done(Deferred.fromCoroutine(self.maps.delete("a", "default")))
        await self.done(Deferred.fromCoroutine(self.quotas.delete("q", "default")))
        hard = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "2"}}}
        await self.done(Deferred.fromCoroutine(self.quotas.create(hard, "default")))

    def change(self, quota: Object) -> Deferred[Object]:
        return Deferred.fromCoroutine(self.quotas.update(quota, "default"))

    async def count(self) -> None:
        self.controller = ResourceQuotaController(self.api.registry.client, self.api.clock, self.api.clock.seconds)
        await self.controller.start()
        self.addCleanup(self.controller.stop)
        self.pass_time()

    async def assert_an_object_stored_after_the_count_is_charged(self) -> None:
        self.holding = True
        late = self.create("b")
        self.pass_time()
        await self.count()
        self.assertEqual((self.used(), len(self.held)), ("0", 1))
        self.holding = False
        self.held[0].callback(None)
        await self.done(late)
        self.assertEqual(self.used(), "1")

    async def test_an_object_that_is_stored_after_the_count_is_charged(self) -> None:
        await self.begin()
        await self.assert_an_object_stored_after_the_count_is_charged()

    async def test_a_count_before_an_object_was_stored_is_not_written(self) -> None:
        await self.begin()
        quota = self.quotas.lister.get("default", "q")
        assert quota is not None
        _, counted = await self.maps.list_at("default")
        await self.done(self.create("b"))
        stale = {**quota, "status": {"hard": {"configmaps": "2"}, "used": {"configmaps": "0"}}}
        writing = Deferred.fromCoroutine(self.quotas.update(stale, "default", "status", counted=counted))
        self.failureResultOf(writing, Conflict)
        await self.count()
        self.assertEqual(self.used(), "1")

    async def test_a_limit_that_is_added(self) -> None:
        await self.begin()
        quota = dict(await self.quotas.get("q", "default"))
        await self.done(self.change({**quota, "spec": {"hard": {"pods": "1"}}}))
        await self.count()
        self.controller.stop()
        quota = dict(await self.quotas.get("q", "default"))
        await self.done(self.change({**quota, "spec": {"hard": {"pods": "1", "configmaps": "2"}}}))
        await self.assert_an_object_stored_after_the_count_is_charged()


QUOTAS = "/api/v1/namespaces/default/resourcequotas"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


class ExtendedResources(TestCase):
    """Claims for devices of a class are also charged to the extended resource that the class stands for."""

    explicit, implicit = "requests.example.com/gpu", "requests.deviceclass.resource.kubernetes.io/gpu"
    of_class = "gpu.deviceclass.resource.k8s.io/devices"

    async def _started(self, gate: bool) -> tuple[Callable[..., Any], Callable[[], Any]]:
        """A way to ask for something and wait for the controller, and what is used; a class stands for example.com/gpu."""
        api = await MemoryAPI.started()
        client = api.registry.client
        features = {"DRAExtendedResource": gate}
        given = Initializer(client, features=features, clock=api.clock.seconds, reactor=api.clock)
        api.registry.admission.__init__([ResourceQuota(given, None)])  # type: ignore[misc]
        controller = ResourceQuotaController(client, api.clock, api.clock.seconds, extended_resources=gate)
        await controller.start()
        self.addCleanup(controller.stop)

        def ask(method: str, path: str, body: Object | None = None) -> Any:
            answer = api.ask(method, path, body)
            for _ in range(20):
                api.turn(0.1)
            return answer

        def used() -> Any:
            return ask("GET", f"{QUOTAS}/q").json["status"]["used"]

        stands = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
        self.assertEqual(ask("POST", "/apis/resource.k8s.io/v1/deviceclasses", stands).code, 201)
        return ask, used

    def _claim(self, name: str, **metadata: Any) -> Object:
        requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
        return {"metadata": {"name": name, **metadata}, "spec": {"devices": {"requests": requests}}}

    async def test_claims_are_refused_and_counted_by_the_extended_resource(self) -> None:
        ask, used = await self._started(True)
        hard = {"metadata": {"name": "q"}, "spec": {"hard": {self.explicit: "1", self.implicit: "9"}}}
        self.assertEqual(ask("POST", QUOTAS, hard).code, 201)
        self.assertEqual(used(), {self.explicit: "0", self.implicit: "0"})
        self.assertEqual(ask("POST", CLAIMS, self._claim("a")).code, 201)
        self.assertEqual(used(), {self.explicit: "1", self.implicit: "1"})
        refused = ask("POST", CLAIMS, self._claim("b"))
        self.assertEqual(refused.code, 403)
        self.assertIn(
            f"exceeded quota: q, requested: {self.explicit}=1, used: {self.explicit}=1", refused.json["message"]
        )
        unnamed = {
            "metadata": {"name": "q2"},
            "spec": {"hard": {"requests.deviceclass.resource.kubernetes.io/none": "0"}},
        }
        self.assertEqual(ask("POST", QUOTAS, unnamed).code, 201)
        other = self._claim("d")
        other["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "none"
        self.assertEqual(ask("POST", CLAIMS, other).code, 201)  # a class without an extended resource is not counted
        self.assertEqual(ask("DELETE", f"{CLAIMS}/a").code, 200)
        self.assertEqual(used(), {self.explicit: "0", self.implicit: "0"})

    async def test_a_claim_that_was_made_for_a_pod_is_charged_with_the_pod(self) -> None:
        ask, used = await self._started(True)
        self.assertEqual(
            ask("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {self.explicit: "1"}}}).code, 201
        )
        resources = {"limits": {"example.com/gpu": "1"}}
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}}
        made = ask("POST", "/api/v1/namespaces/default/pods", pod)
        self.assertEqual((made.code, used()), (201, {self.explicit: "1"}))
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": made.json["metadata"]["uid"],
            "controller": True,
        }
        noted = {"resource.kubernetes.io/extended-resource-claim": "true"}

        def claim(name: str, code: int, **metadata: Any) -> None:
            answer = ask("POST", CLAIMS, self._claim(name, **metadata))
            self.assertEqual((answer.code, used()), (code, {self.explicit: "1"}), answer.json)

        claim("none", 403, annotations=noted)
        claim("none", 403, ownerReferences=[owner])
        for wrong in ({"uid": "other"}, {"name": "other"}, {"kind": "Node"}, {"controller": False}):
            claim("none", 403, annotations=noted, ownerReferences=[{**owner, **wrong}])
        device = self._claim("device", ownerReferences=[owner])  # of a template that the pod names
        device["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "none"
        self.assertEqual(ask("POST", CLAIMS, device).code, 201)
        claim("own", 201, annotations=noted, ownerReferences=[owner])
        claim("second", 403, annotations=noted, ownerReferences=[owner])

    async def test_without_the_gate_claims_count_for_their_class_only(self) -> None:
        ask, used = await self._started(False)
        limits = {self.explicit: "0", self.implicit: "0", self.of_class: "2"}
        self.assertEqual(ask("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": limits}}).code, 201)
        self.assertEqual(ask("POST", CLAIMS, self._claim("a")).code, 201)
        self.assertEqual(ask("POST", CLAIMS, self._claim("b")).code, 201)
        self.assertEqual(used(), {self.explicit: "0", self.implicit: "0", self.of_class: "2"})
        refused = ask("POST", CLAIMS, self._claim("c"))
        self.assertEqual((refused.code, self.of_class in refused.json["message"]), (403, True))
        self.assertEqual(ask("DELETE", f"{CLAIMS}/a").code, 200)
        self.assertEqual(used()[self.of_class], "1")
