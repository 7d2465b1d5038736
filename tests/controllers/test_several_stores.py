"""Controllers whose objects are in several stores, which are not at the same point."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.admission.initializer import Initializer
from kapi.admission.quota.plugin import ResourceQuota
from kapi.controllers.events import CoreEventRecorder
from kapi.controllers.garbagecollector.controller import GarbageCollector
from kapi.controllers.garbagecollector.places import Places
from kapi.controllers.namespaces import NamespaceController
from kapi.controllers.resourcequota import ResourceQuotaController
from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from kapi.servers.core.install import install
from kapi.store.errors import StoreUnavailable
from tests.watchcache.split import SplitRegistry

MAPS, SECRETS = GroupResource("", "configmaps"), GroupResource("", "secrets")


class Split(TestCase):
    async def begin(self, *apart: GroupResource) -> None:
        self.made = SplitRegistry(*apart)
        await self.made.caches.start()
        self.client = self.made.registry.client

    async def run_controller(self, controller: Any) -> None:
        await controller.start()
        self.addCleanup(controller.stop)

    async def done(self, coroutine: Any, seconds: float = 3.0) -> Any:
        waiting = Deferred.fromCoroutine(coroutine)
        self.made.pass_time(seconds)
        return await waiting

    def now(self) -> str:
        return self.made.registry.environment.now()


class GarbageCollection(Split):
    async def owned(self) -> tuple[Any, Any]:
        """An owner in the main store, and one that it owns in the other, of which nobody has heard yet."""
        await self.begin(SECRETS)
        table = ResourceTable()
        install(table, self.made.registry, BUILT_IN)
        places = Places(self.made.registry, [table], self.client)
        recorder = CoreEventRecorder(self.client, GarbageCollector.name, self.now)
        await self.run_controller(GarbageCollector(self.made.caches, places, self.made.clock, recorder))
        maps, secrets = (self.client.resource(*resource) for resource in (MAPS, SECRETS))
        owner = await self.done(maps.create({"metadata": {"name": "owner"}}, "default"))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        reference["blockOwnerDeletion"] = True
        body = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
        self.made.other.lags = True
        await self.done(secrets.create(body, "default"))
        return maps, secrets

    async def test_what_is_to_be_orphaned_is_waited_for(self) -> None:
        maps, secrets = await self.owned()
        await self.done(maps.delete("owner", "default", {"propagationPolicy": "Orphan"}))
        self.assertIsNotNone(maps.lister.get("default", "owner"))  # who depends on it is not known yet
        self.made.other.lags = False
        self.made.other.catch_up()
        self.made.pass_time()
        self.assertIsNone(maps.lister.get("default", "owner"))
        kept = secrets.lister.get("default", "owned")
        assert kept is not None
        self.assertNotIn("ownerReferences", kept["metadata"])

    async def test_what_holds_a_deletion_in_the_foreground_is_waited_for(self) -> None:
        maps, secrets = await self.owned()
        await self.done(maps.delete("owner", "default", {"propagationPolicy": "Foreground"}))
        self.assertIsNotNone(maps.lister.get("default", "owner"))
        self.made.other.lags = False
        self.made.other.catch_up()
        self.made.pass_time()
        self.assertIsNone(secrets.lister.get("default", "owned"))
        self.assertIsNone(maps.lister.get("default", "owner"))


class Quotas(Split):
    async def test_a_charge_that_a_count_has_dropped_comes_back(self) -> None:
        """As upstream, what is charged in one store and written to another can be counted away; not for long."""
        await self.begin(SECRETS)
        given = Initializer(self.client, clock=self.made.clock.seconds, reactor=self.made.clock)
        self.made.registry.admission.__init__([ResourceQuota(given, None)])  # type: ignore[misc]
        quotas, secrets = self.client.resource("", "resourcequotas"), self.client.resource(*SECRETS)
        await self.run_controller(ResourceQuotaController(self.client, self.made.clock, self.made.clock.seconds))

        def used() -> Any:
            quota = quotas.lister.get("default", "q")
            assert quota is not None
            return quota["status"]["used"]["secrets"]

        await self.done(secrets.create({"metadata": {"name": "a"}}, "default"))
        hard = {"metadata": {"name": "q"}, "spec": {"hard": {"secrets": "2"}}}
        await self.done(quotas.create(hard, "default"))
        self.made.pass_time(10)
        held: Deferred[None] = Deferred()
        create = self.made.other.create

        async def slow(key: str, *halves: bytes, **more: Any) -> int:
            await held
            return await create(key, *halves, **more)

        self.patch(self.made.other, "create", slow)
        late = Deferred.fromCoroutine(secrets.create({"metadata": {"name": "b"}}, "default"))
        self.made.pass_time()
        self.assertEqual(used(), "2")
        await self.done(secrets.delete("a", "default"))  # which makes the controller count
        self.assertEqual(used(), "0")
        held.callback(None)
        self.made.pass_time()
        await late
        self.made.pass_time(6)
        self.assertEqual(used(), "1")


class Namespaces(Split):
    async def test_one_is_emptied_as_far_as_its_stores_answer(self) -> None:
        await self.begin(SECRETS)
        namespaces, maps = self.client.resource("", "namespaces"), self.client.resource(*MAPS)
        await self.run_controller(NamespaceController(self.client, self.made.clock, self.now))
        await self.done(namespaces.create({"metadata": {"name": "n"}}))
        await self.done(maps.create({"metadata": {"name": "m"}}, "n"))

        async def away() -> int:
            raise StoreUnavailable("redis://there: connection lost")

        revision = self.made.other.revision
        self.made.other.revision = away  # type: ignore[method-assign]
        await self.done(namespaces.delete("n"))
        self.made.pass_time(10)
        self.assertEqual(maps.lister.list("n"), [])
        namespace: Object | None = namespaces.lister.get("", "n")
        assert namespace is not None
        told = {one["type"]: one["message"] for one in namespace["status"]["conditions"] if one["status"] == "True"}
        failed = told["NamespaceDeletionContentFailure"]
        self.assertIn("1 remaining: the store is not available: redis://there: connection lost", failed)
        self.made.other.revision = revision  # type: ignore[method-assign]
        self.made.pass_time(30)
        self.assertIsNone(namespaces.lister.get("", "n"))
