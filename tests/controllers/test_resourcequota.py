"""Quotas get back what was deleted, changed or ended, and start counting when they are made."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.controllers.resourcequota.controller import ResourceQuotaController
from kapi.controllers.resourcequota.reconcile import corrected, resources_of
from kapi.machinery.gvk import GroupResource
from kapi.testing.memory_api import MemoryAPI

Object = dict[str, Any]
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
