"""Namespaces go away pods first, then the rest, and their conditions say what is left."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.controllers import namespaces
from kapi.controllers.namespaces import NamespaceController
from kapi.controllers.rootca import RootCAController
from kapi.controllers.serviceaccounts import ServiceAccountController
from kapi.machinery.gvk import GroupResource, GroupVersion
from kapi.machinery.status import Forbidden, not_found, service_unavailable
from kapi.machinery.tree import Object
from tests.controllers.served import Served

MERGE = "application/merge-patch+json"
POD = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}


class Flunders:
    """A resource of another server, and what discovery says of it."""

    resource = GroupResource("far.example.com", "flunders")

    def __init__(self) -> None:
        self.objects: list[Object] = []
        self.asked: list[str] = []
        self.unknown: list[GroupVersion] = []
        self.fault: Exception | None = None
        self.silent = False

    def in_namespaces(self) -> list[Any]:
        return [] if self.unknown else [self]

    def stale(self) -> list[GroupVersion]:
        return self.unknown

    async def list(self, namespace: str) -> list[Object]:
        if self.fault is not None:
            raise self.fault
        if self.silent:
            await Deferred()
        return self.objects

    async def delete_collection(self, namespace: str, options: Object) -> None:
        self.asked.append(namespace)
        self.objects = [obj for obj in self.objects if obj["metadata"].get("finalizers")]


class NamespaceDeletion(Served):
    async def start(self) -> None:
        await self.begin()
        self.far = Flunders()
        self.controller = NamespaceController(
            self.api.registry.client, self.api.clock, self.api.environment.now, elsewhere=self.far
        )
        await self.run_controller(self.controller)

    def condition(self, kind: str) -> Object:
        conditions = self.call("GET", "/api/v1/namespaces/n1", expect=200)["status"]["conditions"]
        return next(item for item in conditions if item["type"] == kind)

    async def test_an_empty_namespace_disappears(self) -> None:
        await self.start()
        self.call("POST", "/api/v1/namespaces/n1/configmaps", {"metadata": {"name": "c"}}, 201)
        answer = self.call("DELETE", "/api/v1/namespaces/n1", expect=200)
        self.assertEqual(answer["status"]["phase"], "Terminating")
        self.assertNotIn("deletionGracePeriodSeconds", answer["metadata"])
        self.wait(3)
        self.call("GET", "/api/v1/namespaces/n1", expect=404)
        self.call("GET", "/api/v1/namespaces/n1/configmaps/c", expect=404)

    async def test_what_cannot_be_read_goes_with_its_namespace(self) -> None:
        await self.start()
        torn = b'{"kind":"ConfigMap","metadata":{"resourceVersion":"', b'","na'
        for key in ("core/configmaps/n1/torn", "core/pods/n1/torn", "core/configmaps/n2/torn"):
            await self.api.store.create(key, *torn)
        self.call("DELETE", "/api/v1/namespaces/n1", expect=200)
        self.wait(3)
        self.call("GET", "/api/v1/namespaces/n1", expect=404)
        self.assertEqual(
            [key for key, _ in self.api.store.matching("") if key.endswith("torn")], ["core/configmaps/n2/torn"]
        )

    async def test_what_other_servers_have_goes_too(self) -> None:
        await self.start()
        self.far.objects = [{"metadata": {"name": "f"}}]
        self.call("DELETE", "/api/v1/namespaces/n1", expect=200)
        self.wait(3)
        self.call("GET", "/api/v1/namespaces/n1", expect=404)
        self.assertEqual((self.far.asked, self.far.objects), (["n1"], []))

    async def test_what_another_server_keeps_or_refuses_is_named(self) -> None:
        await self.start()
        self.far.objects = [{"metadata": {"name": "f", "finalizers": ["far.example.com/x"]}}]
        self.call("DELETE", "/api/v1/namespaces/n1", expect=200)
        self.wait(3)
        self.assertEqual(
            self.condition("NamespaceContentRemaining")["message"],
            "Some resources are remaining: flunders.far.example.com has 1 resource instances",
        )
        for fault, text in ((service_unavailable("away"), "away"), (KeyError("metadata"), "'metadata'")):
            self.far.fault = fault
            self.wait(8)
            failure = self.condition("NamespaceDeletionContentFailure")
            self.assertEqual(failure["message"], f"Failed to delete all resource types, 1 remaining: {text}")
        self.far.fault, self.far.objects = not_found(self.far.resource, ""), []
        self.wait(8)
        self.call("GET", "/api/v1/namespaces/n1", expect=404)

    async def test_another_server_whose_list_does_not_end_is_named_and_asked_again(self) -> None:
        await self.start()
        self.far.silent = True
        self.call("DELETE", "/api/v1/namespaces/n1", expect=200)
        self.wait(70)
        self.assertEqual(
            self.condition("NamespaceDeletionContentFailure")["message"],
            "Failed to delete all resource types, 1 remaining: "
            "flunders.far.example.com: the objects in n1 were not deleted in 60 s",
        )
        self.far.silent = False
        self.wait(70)
        self.call("GET", "/api/v1/namespaces/n1", expect=404)

    async def test_a_namespace_stays_while_the_resources_of_a_group_version_are_unknown(self) -> None:
        await self.start()
        self.far.unknown = [GroupVersion("metrics.k8s.io", "v1beta1"), GroupVersion("far.example.com", "v1")]
        self.call("POST", "/api/v1/namespaces/n1/configmaps", {"metadata": {"name": "c"}}, 201)
        self.call("DELETE", "/api/v1/namespaces/n1", expect=200)
        self.wait(3)
        self.call("GET", "/api/v1/namespaces/n1/configmaps/c", expect=404)
        condition = self.condition("NamespaceDeletionDiscoveryFailure")
        self.assertEqual((condition["status"], condition["reason"]), ("True", "DiscoveryFailed"))
        self.assertEqual(
            condition["message"],
            "Discovery failed for some groups, 2 failing: unable to retrieve the complete list of server APIs: "
            "far.example.com/v1: stale GroupVersion discovery: far.example.com/v1, "
            "metrics.k8s.io/v1beta1: stale GroupVersion discovery: metrics.k8s.io/v1beta1",
        )
        self.assertEqual(self.condition("NamespaceDeletionContentFailure")["status"], "False")
        self.far.unknown = []
        self.wait(8)
        self.call("GET", "/api/v1/namespaces/n1", expect=404)

    async def test_a_second_delete_changes_nothing(self) -> None:
        await self.start()
        self.controller.stop()
        first = self.call("DELETE", "/api/v1/namespaces/n1", expect=200)
        second = self.call("DELETE", "/api/v1/namespaces/n1", expect=200)
        self.assertEqual(first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"])

    async def test_pods_go_before_anything_else(self) -> None:
        await self.start()
        self.call("POST", "/api/v1/namespaces/n1/configmaps", {"metadata": {"name": "c"}}, 201)
        self.call("POST", "/api/v1/namespaces/n1/pods", POD, 201)
        self.call("DELETE", "/api/v1/namespaces/n1", expect=200)
        self.wait(3)
        pod = self.call("GET", "/api/v1/namespaces/n1/pods/p", expect=200)
        self.assertIn("deletionTimestamp", pod["metadata"])
        self.call("GET", "/api/v1/namespaces/n1/configmaps/c", expect=200)
        self.call("DELETE", "/api/v1/namespaces/n1/pods/p?gracePeriodSeconds=0", expect=200)
        self.wait(8)
        self.call("GET", "/api/v1/namespaces/n1", expect=404)

    async def test_what_a_finalizer_holds_is_named_until_it_is_free(self) -> None:
        await self.start()
        held = {"metadata": {"name": "held", "finalizers": ["example.com/x"]}}
        self.call("POST", "/api/v1/namespaces/n1/configmaps", held, 201)
        self.call("DELETE", "/api/v1/namespaces/n1", expect=200)
        self.wait(3)
        self.assertEqual(
            self.condition("NamespaceFinalizersRemaining")["message"],
            "Some content in the namespace has finalizers remaining: example.com/x in 1 resource instances",
        )
        self.assertEqual(self.condition("NamespaceContentRemaining")["status"], "True")
        self.assertEqual(self.condition("NamespaceDeletionContentFailure")["status"], "False")
        patch = {"metadata": {"finalizers": None}}
        self.call("PATCH", "/api/v1/namespaces/n1/configmaps/held", patch, 200, MERGE)
        self.wait(8)
        self.call("GET", "/api/v1/namespaces/n1", expect=404)

    async def test_somebody_elses_finalizer_keeps_the_empty_namespace(self) -> None:
        await self.start()
        other = {"metadata": {"name": "n2"}, "spec": {"finalizers": ["example.com/mine"]}}
        self.call("POST", "/api/v1/namespaces", other, 201)
        self.call("DELETE", "/api/v1/namespaces/n2", expect=200)
        self.wait(3)
        left = self.call("GET", "/api/v1/namespaces/n2", expect=200)
        self.assertEqual(left["spec"]["finalizers"], ["example.com/mine"])
        left["spec"]["finalizers"] = []
        self.call("PUT", "/api/v1/namespaces/n2/finalize", left, 200)
        self.call("GET", "/api/v1/namespaces/n2", expect=404)

    async def test_every_namespace_gets_an_account_and_the_ca_and_gets_them_again(self) -> None:
        await self.start()
        client, clock = self.api.registry.client, self.api.clock
        for controller in (ServiceAccountController(client, clock), RootCAController(client, clock, lambda: "PEM")):
            await controller.start()
            self.addCleanup(controller.stop)
        self.wait(1)
        account, bundle = (
            "/api/v1/namespaces/n1/serviceaccounts/default",
            "/api/v1/namespaces/n1/configmaps/kube-root-ca.crt",
        )
        uid = self.call("GET", account, expect=200)["metadata"]["uid"]
        self.call("DELETE", account, expect=200)
        self.call("PATCH", bundle, {"data": {"ca.crt": "forged", "more": "x"}}, 200, MERGE)
        self.wait(1)
        self.assertNotEqual(self.call("GET", account, expect=200)["metadata"]["uid"], uid)
        self.assertEqual(self.call("GET", bundle, expect=200)["data"], {"ca.crt": "PEM"})
        self.call("PATCH", bundle, {"data": {"ca.crt": "another server's"}}, 200, MERGE)
        self.wait(5)
        self.assertEqual(self.call("GET", bundle, expect=200)["data"], {"ca.crt": "another server's"})
        self.wait(10)
        self.assertEqual(self.call("GET", bundle, expect=200)["data"], {"ca.crt": "PEM"})

    async def test_what_a_quota_forbids_is_tried_again(self) -> None:
        await self.start()
        client, clock = self.api.registry.client, self.api.clock
        accounts, bundles = ServiceAccountController(client, clock), RootCAController(client, clock, lambda: "PEM")
        for controller, resource in ((accounts, accounts._accounts), (bundles, bundles._maps)):
            with patch.object(resource, "create", side_effect=Forbidden("exceeded quota")) as create:
                await controller.start()
                self.addCleanup(controller.stop)
                self.wait(5)
            self.assertGreater(create.call_count, 1)
        self.wait(60)
        self.call("GET", "/api/v1/namespaces/n1/serviceaccounts/default", expect=200)
        self.call("GET", "/api/v1/namespaces/n1/configmaps/kube-root-ca.crt", expect=200)

    async def test_what_is_forbidden_since_the_namespace_goes_is_not(self) -> None:
        await self.start()
        details = {"causes": [{"reason": "NamespaceTerminating"}]}
        controller = ServiceAccountController(self.api.registry.client, self.api.clock)
        with patch.object(controller._accounts, "create", side_effect=Forbidden("it goes", details=details)) as create:
            await controller.start()
            self.addCleanup(controller.stop)
            self.wait(60)
        spaces = [call.args[1] for call in create.call_args_list]
        self.assertEqual(len(spaces), len(set(spaces)))


class Conditions(TestCase):
    def test_conditions_that_say_so_already_stay(self) -> None:
        namespace: Object = {"metadata": {"name": "n"}}
        conditions = namespaces.conditions_after(namespace, namespaces.Remains(), "t1")
        assert conditions is not None
        self.assertEqual({item["status"] for item in conditions}, {"False"})
        namespace["status"] = {"conditions": conditions}
        self.assertIsNone(namespaces.conditions_after(namespace, namespaces.Remains(), "t2"))

    def test_the_transition_time_moves_with_the_status_only(self) -> None:
        remains = namespaces.Remains()
        remains.add("", "configmaps", [{"metadata": {"name": "a", "finalizers": ["x"]}}], 0, "n")
        first = namespaces.conditions_after({"metadata": {}}, remains, "t1")
        remains.add("", "secrets", [{"metadata": {"name": "b", "finalizers": ["x"]}}], 0, "n")
        second = namespaces.conditions_after({"metadata": {}, "status": {"conditions": first}}, remains, "t2")
        assert second is not None
        content = next(item for item in second if item["type"] == "NamespaceContentRemaining")
        self.assertEqual(content["lastTransitionTime"], "t1")
        self.assertIn("configmaps. has 1 resource instances, secrets. has 1 resource instances", content["message"])

    def test_content_that_nothing_holds_is_an_error(self) -> None:
        remains = namespaces.Remains()
        remains.add("apps", "deployments", [{"metadata": {"name": "a"}}], 0, "n")
        self.assertEqual(remains.errors, ["unexpected items still remain in namespace: n for gvr: deployments.apps"])

    def test_ended_pods_need_no_time(self) -> None:
        pods = [
            {"status": {"phase": "Succeeded"}, "spec": {"terminationGracePeriodSeconds": 90}},
            {"status": {"phase": "Running"}, "spec": {"terminationGracePeriodSeconds": 30}},
        ]
        self.assertEqual(namespaces.seconds_for_pods(pods, 10), 20)
        self.assertEqual(namespaces.seconds_for_pods(pods, 100), 0)
