"""Objects that are kept while they are used, and objects that go when their time is over."""

from __future__ import annotations

import base64
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from twisted.trial.unittest import TestCase

from kapi.controllers import podgc
from kapi.controllers.bootstraptokens import BootstrapSigner, TokenCleaner, signature
from kapi.controllers.bootstraptokens import expires as token_expires
from kapi.controllers.podgc import Pod, PodGarbageCollector, pod_of
from kapi.controllers.ttlafterfinished import TTLAfterFinishedController
from kapi.controllers.volumeprotection import ClaimProtectionController, VolumeProtectionController, uses
from kapi.machinery.gvk import GroupResource
from kapi.machinery.time import stamp
from tests.controllers.served import Object, Served

CLAIMS, PODS = "/api/v1/namespaces/n1/persistentvolumeclaims", "/api/v1/namespaces/n1/pods"
VOLUMES, NODES, JOBS = "/api/v1/persistentvolumes", "/api/v1/nodes", "/apis/batch/v1/namespaces/n1/jobs"
SECRETS, INFO = "/api/v1/namespaces/kube-system/secrets", "/api/v1/namespaces/kube-public/configmaps/cluster-info"
PROTECTED = ["kubernetes.io/pvc-protection"]


def pod(name: str, node: str = "", *, claim: str = "", **metadata: Any) -> Object:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def claim(name: str) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, "finalizers": PROTECTED}, "spec": spec}


class Claims(Served):
    async def begin(self) -> None:
        await super().begin()
        await self.run_controller(ClaimProtectionController(self.api.registry.client, self.api.clock))

    async def test_a_claim_that_nobody_uses_goes(self) -> None:
        await self.begin()
        self.create(CLAIMS, claim("c"))
        self.delete(f"{CLAIMS}/c")
        self.wait()
        self.assertEqual(self.code(f"{CLAIMS}/c"), 404)

    async def test_a_claim_stays_until_the_last_pod_is_gone(self) -> None:
        await self.begin()
        self.create(CLAIMS, claim("c"))
        for name in ("one", "two"):
            self.create(PODS, pod(name, "node", claim="c"))
        self.create(PODS, pod("waits", claim="c"))
        self.delete(f"{CLAIMS}/c")
        for name in ("one", "two"):
            self.wait()
            self.assertEqual(self.get(f"{CLAIMS}/c")["metadata"]["finalizers"], PROTECTED)
            self.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
        self.wait()
        self.assertEqual(self.code(f"{CLAIMS}/c"), 404)

    async def test_a_claim_without_protection_gets_it(self) -> None:
        await self.begin()
        self.create(CLAIMS, {**claim("c"), "metadata": {"name": "c", "finalizers": ["example.com/mine"]}})
        self.wait()
        self.assertEqual(self.get(f"{CLAIMS}/c")["metadata"]["finalizers"], ["example.com/mine", *PROTECTED])

    def test_the_claim_of_an_ephemeral_volume_is_used_by_its_pod_alone(self) -> None:
        own = {"metadata": {"name": "p-v", "ownerReferences": [{"uid": "u", "controller": True}]}}
        user = {
            "metadata": {"name": "p", "uid": "u"},
            "spec": {"nodeName": "n", "volumes": [{"name": "v", "ephemeral": {}}]},
        }
        self.assertTrue(uses(user, own))
        self.assertFalse(uses({**user, "metadata": {"name": "p", "uid": "other"}}, own))
        shut_down = {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
        self.assertFalse(uses({**user, "metadata": {"name": "p", "uid": "u", **shut_down}}, own))


class Volumes(Served):
    async def test_a_volume_stays_while_it_is_bound(self) -> None:
        await self.begin()
        await self.run_controller(VolumeProtectionController(self.api.registry.client, self.api.clock))
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
        self.create(VOLUMES, {"metadata": {"name": "v"}, "spec": spec})
        self.wait()
        self.assertEqual(self.get(f"{VOLUMES}/v")["metadata"]["finalizers"], ["kubernetes.io/pv-protection"])
        self.patch(f"{VOLUMES}/v/status", {"status": {"phase": "Bound"}})
        self.delete(f"{VOLUMES}/v")
        self.wait()
        self.assertEqual(self.code(f"{VOLUMES}/v"), 200)
        self.patch(f"{VOLUMES}/v/status", {"status": {"phase": "Released"}})
        self.wait()
        self.assertEqual(self.code(f"{VOLUMES}/v"), 404)


class Pods(Served):
    async def begin(self, threshold: int = 100) -> None:
        await super().begin()
        api = self.api
        cache = api.caches.cache(GroupResource("", "pods"))
        now = api.environment.now

        async def run(function: Any, *arguments: Any) -> Any:
            return function(*arguments)

        await self.run_controller(PodGarbageCollector(api.registry.client, cache, api.clock, now, run, threshold))

    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.get(PODS)["items"]]

    async def test_pods_of_a_node_that_is_gone_go_after_a_while(self) -> None:
        await self.begin()
        self.create(NODES, {"metadata": {"name": "there"}})
        for name, node in (("kept", "there"), ("lost", "gone"), ("pending", "")):
            self.create(PODS, pod(name, node))
        self.create(PODS, pod("held", "gone", finalizers=["example.com/mine"]))
        self.wait(50)
        self.assertEqual(self.names(), ["held", "kept", "lost", "pending"])
        self.wait(30)
        self.assertEqual(self.names(), ["held", "kept", "pending"])
        state = self.get(f"{PODS}/held")["status"]
        self.assertEqual(state["phase"], "Failed")
        [condition] = [one for one in state["conditions"] if one["type"] == "DisruptionTarget"]
        self.assertEqual(
            (condition["reason"], condition["message"]), ("DeletionByPodGC", "PodGC: node no longer exists")
        )

    async def test_a_node_that_comes_back_in_time_keeps_its_pods(self) -> None:
        await self.begin()
        self.create(PODS, pod("p", "late"))
        self.wait(45)
        self.create(NODES, {"metadata": {"name": "late"}})
        self.wait(100)
        self.assertEqual(self.names(), ["p"])

    async def test_too_many_that_have_ended_lose_the_oldest(self) -> None:
        await self.begin(threshold=2)
        self.create(NODES, {"metadata": {"name": "n"}})
        for number in range(4):
            self.create(PODS, pod(f"p{number}", "n"))
            self.patch(f"{PODS}/p{number}/status", {"status": {"phase": "Succeeded" if number % 2 else "Failed"}})
            self.wait(1)
        self.create(PODS, pod("runs", "n"))
        self.wait(21)
        self.assertEqual(self.names(), ["p2", "p3", "runs"])

    async def test_evicted_pods_go_before_older_ones(self) -> None:
        await self.begin(threshold=2)
        self.create(NODES, {"metadata": {"name": "n"}})
        states: list[Object] = [
            {"phase": "Succeeded"},
            {"phase": "Failed"},
            {"phase": "Succeeded", "reason": "Evicted"},
            {"phase": "Failed", "reason": "Evicted"},
            {"phase": "Unknown"},
            {"phase": "Other"},
        ]
        for number, state in enumerate(states):
            self.create(PODS, pod(f"p{number}", "n"))
            self.patch(f"{PODS}/p{number}/status", {"status": state})
            self.wait(1)
        self.wait(21)
        self.assertEqual(self.names(), ["p2", "p4", "p5"])

    async def test_pods_that_go_for_another_reason_count_as_ended_as_well(self) -> None:
        await self.begin(threshold=2)
        self.create(NODES, {"metadata": {"name": "n"}})
        for number in range(3):
            self.create(PODS, pod(f"p{number}", "gone" if number == 2 else "n"))
        self.wait(41)
        for number in range(3):
            self.patch(f"{PODS}/p{number}/status", {"status": {"phase": "Failed"}})
        self.wait(41)
        self.assertEqual(self.names(), ["p1"])

    async def test_a_condition_of_a_disruption_keeps_its_place_and_time(self) -> None:
        await self.begin()
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "x",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }
        self.create(PODS, pod("p", "gone", finalizers=["example.com/mine"]))
        self.patch(f"{PODS}/p/status", {"status": {"conditions": [condition, {"type": "Ready", "status": "False"}]}})
        self.wait(80)
        found = self.get(f"{PODS}/p")["status"]["conditions"]
        self.assertEqual([one["type"] for one in found], ["DisruptionTarget", "Ready"])
        self.assertEqual(
            (found[0]["reason"], found[0]["lastTransitionTime"]), ("DeletionByPodGC", "2020-01-01T00:00:00Z")
        )

    async def test_a_node_that_has_never_been_ready_is_not(self) -> None:
        await self.begin()
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        self.create(NODES, {"metadata": {"name": "n"}, "spec": {"taints": [taint]}})
        self.create(PODS, pod("p", "n"))
        self.delete(f"{PODS}/p")
        self.wait(21)
        self.assertEqual(self.names(), [])

    async def test_a_pod_that_goes_on_a_node_out_of_service_goes_at_once(self) -> None:
        await self.begin()
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        self.create(NODES, {"metadata": {"name": "n"}, "spec": {"taints": [taint]}})
        self.patch(f"{NODES}/n/status", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})
        self.create(PODS, pod("p", "n"))
        self.create(PODS, pod("kept", "n"))
        self.delete(f"{PODS}/p")
        self.wait(1)
        self.assertEqual(self.names(), ["kept", "p"])
        self.wait(21)
        self.assertEqual(self.names(), ["kept"])

    async def test_only_pods_that_have_changed_are_looked_into_again(self) -> None:
        read: list[str] = []

        def noted(data: bytes) -> Pod:
            found = pod_of(data)
            read.append(found.metadata.name)
            return found

        TestCase.patch(self, podgc, "pod_of", noted)
        await self.begin()
        self.create(NODES, {"metadata": {"name": "n"}})
        for name in ("a", "b", "c"):
            self.create(PODS, pod(name, "n"))
        self.wait(21)
        self.assertEqual(sorted(read), ["a", "b", "c"])
        read.clear()
        self.wait(60)
        self.assertEqual(read, [])
        self.patch(f"{PODS}/b", {"metadata": {"labels": {"l": "1"}}})
        self.patch(f"{PODS}/b", {"metadata": {"labels": {"l": "2"}}})
        self.delete(f"{PODS}/a?gracePeriodSeconds=0")
        self.wait(21)
        self.assertEqual(read, ["b"])
        self.delete(f"{NODES}/n")
        self.wait(100)
        self.assertEqual(self.names(), [])

    async def test_pods_are_all_looked_at_when_it_is_not_known_what_has_changed(self) -> None:
        await self.begin()
        self.create(PODS, pod("p", "there"))
        self.create(NODES, {"metadata": {"name": "there"}})
        self.wait(21)
        self.create(PODS, pod("lost", "gone"))
        self.api.caches.cache(GroupResource("", "pods")).forget_history()
        self.wait(100)
        self.assertEqual(self.names(), ["p"])


class Jobs(Served):
    def finish(self, name: str, kind: str = "Complete") -> None:
        now = stamp(self.api.clock.seconds())
        first = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
        conditions = [{"type": one, "status": "True", "lastTransitionTime": now} for one in (first, kind)]
        state: Object = {"startTime": now, "conditions": conditions}
        if kind == "Complete":
            state |= {"completionTime": now, "succeeded": 1}
        self.patch(f"{JOBS}/{name}/status", {"status": state})

    async def test_a_job_that_has_finished_goes_when_its_time_is_over(self) -> None:
        await self.begin()
        client, now = self.api.registry.client, self.api.environment.now
        await self.run_controller(TTLAfterFinishedController(client, self.api.clock, now))
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        for name, seconds in (("soon", 10), ("longer", 10), ("runs", 10), ("stays", None)):
            spec: Object = {"template": template}
            if seconds is not None:
                spec["ttlSecondsAfterFinished"] = seconds
            self.create(JOBS, {"metadata": {"name": name}, "spec": spec})
        for name in ("soon", "longer", "stays"):
            self.finish(name, "Failed" if name == "longer" else "Complete")
        self.patch(f"{JOBS}/longer", {"spec": {"ttlSecondsAfterFinished": 100}})
        self.wait(8)
        self.assertEqual(self.code(f"{JOBS}/soon"), 200)
        self.wait(4)
        going = self.get(f"{JOBS}/soon")["metadata"]
        self.assertEqual(going["finalizers"], ["foregroundDeletion"])  # the garbage collector does the rest
        for name in ("longer", "runs", "stays"):
            self.assertNotIn("deletionTimestamp", self.get(f"{JOBS}/{name}")["metadata"])
        self.wait(100)
        self.assertIn("deletionTimestamp", self.get(f"{JOBS}/longer")["metadata"])


class Tokens(Served):
    async def begin(self) -> None:
        await super().begin()
        for name in ("kube-system", "kube-public"):
            self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        client, clock, now = self.api.registry.client, self.api.clock, self.api.environment.now
        await self.run_controller(TokenCleaner(client, clock, now))
        await self.run_controller(BootstrapSigner(client, clock, now))

    def token(self, token: str, key: str = "0123456789abcdef", **data: str) -> None:
        given = {"token-id": token, "token-secret": key, "usage-bootstrap-signing": "true", **data}
        encoded = {name.replace("_", "-"): base64.b64encode(text.encode()).decode() for name, text in given.items()}
        body = {
            "metadata": {"name": f"bootstrap-token-{token}"},
            "type": "bootstrap.kubernetes.io/token",
            "data": encoded,
        }
        self.create(SECRETS, body)

    async def test_a_token_goes_when_its_time_is_over(self) -> None:
        await self.begin()
        self.token("aaaaaa", expiration=stamp(self.api.clock.seconds() + 10))
        self.token("bbbbbb")
        self.token("cccccc", expiration="some day")
        self.create(SECRETS, {"metadata": {"name": "other"}, "stringData": {"expiration": "2000-01-01T00:00:00Z"}})
        self.wait(5)
        names = [item["metadata"]["name"] for item in self.get(SECRETS)["items"]]
        self.assertEqual(names, ["bootstrap-token-aaaaaa", "bootstrap-token-bbbbbb", "other"])
        self.wait(7)
        names = [item["metadata"]["name"] for item in self.get(SECRETS)["items"]]
        self.assertEqual(names, ["bootstrap-token-bbbbbb", "other"])

    async def test_cluster_info_is_signed_with_each_token_as_long_as_there_is_one(self) -> None:
        await self.begin()
        info = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "content", "jws-kubeconfig-zzzzzz": "old"}}
        self.create(INFO.rpartition("/")[0], info)
        self.token("aaaaaa", expiration=stamp(self.api.clock.seconds() + 10))
        self.token("bbbbbb")
        self.token("cccccc", usage_bootstrap_signing="false")
        self.wait(2)
        data = self.get(INFO)["data"]
        self.assertEqual(set(data), {"kubeconfig", "jws-kubeconfig-aaaaaa", "jws-kubeconfig-bbbbbb"})
        self.assertEqual(data["jws-kubeconfig-bbbbbb"], signature("content", "bbbbbb", "0123456789abcdef"))
        self.patch(INFO, {"data": {"kubeconfig": "changed"}})
        self.wait(2)
        again = self.get(INFO)["data"]["jws-kubeconfig-bbbbbb"]
        self.assertEqual(again, signature("changed", "bbbbbb", "0123456789abcdef"))
        self.wait(10)
        self.assertEqual(set(self.get(INFO)["data"]), {"kubeconfig", "jws-kubeconfig-bbbbbb"})

    def test_a_signature_is_a_jws_without_its_payload(self) -> None:
        header, nothing, end = signature("content", "abcdef", "0123456789abcdef").split(".")
        self.assertEqual(nothing, "")
        self.assertEqual(base64.urlsafe_b64decode(header + "=="), b'{"alg":"HS256","kid":"abcdef"}')
        whole = HMAC(b"0123456789abcdef", SHA256())
        whole.update(f"{header}.{base64.urlsafe_b64encode(b'content').decode().rstrip('=')}".encode())
        whole.verify(base64.urlsafe_b64decode(end + "="))

    def test_a_time_without_zone_is_none(self) -> None:
        encoded = base64.b64encode(b"2030-01-01T00:00:00").decode()
        self.assertEqual(token_expires({"data": {"expiration": encoded}}), 0.0)
