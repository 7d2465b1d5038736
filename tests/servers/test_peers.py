"""What a server knows of others, and which requests go there; other servers are fakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery import status
from kapi.machinery.server_id import IDENTITY_LABEL, KUBE_APISERVER
from kapi.machinery.tree import Object
from kapi.servers.aggregator.backend import BackendAnswer
from kapi.servers.peers import GRACE_SECONDS, HEADER, REROUTED, Peers
from tests.filters.requests import request
from tests.servers.aggregator.controller_case import FakeClient, FakeResource

FORM = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def document(*resources: str) -> bytes:
    """``resources`` as group/version/resource; the core group is empty."""
    items: dict[str, dict[str, list[Object]]] = {}
    for each in resources:
        group, version, plural = each.split("/")
        entry: Object = {"resource": plural, "verbs": ["get"], "scope": "Namespaced"}
        items.setdefault(group, {}).setdefault(version, []).append(entry)
    return orjson.dumps(
        {
            "kind": "APIGroupDiscoveryList",
            "items": [
                {
                    "metadata": {"name": group} if group else {},
                    "versions": [{"version": each, "resources": found} for each, found in versions.items()],
                }
                for group, versions in items.items()
            ],
        }
    )


class NamespacedResource(FakeResource):
    def watch(self, handler: Any, namespace: str = "") -> Callable[[], None]:
        return super().watch(handler)


class NamespacedClient(FakeClient):
    def resource(self, group: str, plural: str) -> FakeResource:
        return self.resources.setdefault((group, plural), NamespacedResource(group, plural))


class FakeServers:
    """The backends of other servers, and what these answer by their names and paths; those in ``silent`` do not."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.there: dict[str, tuple[Any, ...]] = {}
        self.answers: dict[tuple[str, str], tuple[int, str, bytes]] = {}
        self.silent: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    def set(self, name: str, targets: Any, spec: Object, identity: object) -> None:
        self.there[name] = (tuple(targets), spec, identity)

    def get(self, name: str) -> Any:
        return self.there.get(name)

    def remove(self, name: str) -> None:
        self.there.pop(name, None)

    def close(self) -> Deferred[None]:
        closed: Deferred[None] = Deferred()
        closed.callback(None)
        return closed

    async def ask(self, name: str, path: str, seconds: float, limit: int, accept: str) -> BackendAnswer:
        self.asked.append((name, path))
        if name in self.silent:
            await Deferred().addTimeout(seconds, self._clock)
        code, form, body = self.answers.get((name, path), (200, FORM, document()))
        return BackendAnswer(code, body, form)

    def serve(self, name: str, *resources: str, path: str = "/apis") -> None:
        self.answers[name, path] = 200, FORM, document(*resources)


class PeersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.client = NamespacedClient()
        self.servers: Any = FakeServers(self.clock)
        self.served: set[tuple[str, str, str]] = {("apps", "v1", "deployments")}
        self.addresses: dict[str, list[str]] = {"other": ["192.0.2.2:6443"]}
        self.identity: Any = object()
        self.changes = 0
        self.peers = Peers(
            self.client,
            self.clock,  # type: ignore[arg-type]
            server="own",
            addresses=lambda: self.addresses,
            serves=lambda group, version, plural, sub: (group, version, plural) in self.served,
            backends=self.servers,
            identity=lambda: self.identity,
            authorities=lambda: b"bundle",
            changed=self.changed,
            backend_client=self.servers,
        )
        self.addCleanup(self.peers.stop)

    def changed(self) -> None:
        self.changes += 1

    def lease(self, name: str = "other", holder: str = "1", label: str = KUBE_APISERVER) -> None:
        metadata = {"name": name, "labels": {IDENTITY_LABEL: label}}
        self.leases.put({"metadata": metadata, "spec": {"holderIdentity": holder}}, "kube-system")

    @property
    def leases(self) -> FakeResource:
        return self.client.resource("coordination.k8s.io", "leases")

    def define(self, group: str) -> None:
        spec = {"group": group, "versions": [{"name": "v1"}]}
        definitions = self.client.resource("apiextensions.k8s.io", "customresourcedefinitions")
        definitions.put({"metadata": {"name": f"things.{group}"}, "spec": spec})

    def start(self) -> Deferred[None]:
        started = Deferred.fromCoroutine(self.peers.start())
        self.later(0)
        return started

    def later(self, seconds: float = 1.0) -> None:
        self.clock.pump([0, seconds, 0, 0])

    def goes_elsewhere(self, path: str = JOBS, **headers: str | list[str]) -> bool:
        answer = self.peers.filter(request(path, headers=headers))
        if answer is not None:
            answer.close()
        return answer is not None

    def test_only_what_this_server_does_not_serve_goes_to_others(self) -> None:
        self.servers.serve("other", "batch/v1/jobs", "apps/v1/deployments")
        self.servers.serve("other", "/v1/pods", path="/api")
        self.lease()
        self.lease("own")
        self.lease("component", label="other-component")
        self.successResultOf(self.start())
        self.assertTrue(self.goes_elsewhere())
        self.assertTrue(self.goes_elsewhere(f"{JOBS}/one/status"))
        self.assertTrue(self.goes_elsewhere("/api/v1/namespaces/default/pods"))
        for path in ("/apis/apps/v1/deployments", "/apis/batch/v2/jobs", "/apis/batch/v1", "/healthz"):
            self.assertFalse(self.goes_elsewhere(path), path)
        self.assertFalse(self.goes_elsewhere(**{HEADER: "true"}))
        self.assertEqual(self.servers.asked, [("other", "/api"), ("other", "/apis")])
        (target,) = self.servers.there["other"][0]
        self.assertEqual(target, ("192.0.2.2", 6443, "kubernetes.default.svc"))
        self.served.add(("batch", "v1", "jobs"))
        self.assertFalse(self.goes_elsewhere())

    def test_nothing_is_passed_on_before_a_server_is_known_and_after_it_has_left(self) -> None:
        self.servers.serve("other", "batch/v1/jobs")
        self.assertFalse(self.goes_elsewhere())
        self.successResultOf(self.start())
        self.assertFalse(self.goes_elsewhere())
        self.lease()
        self.later()
        self.assertTrue(self.goes_elsewhere())
        self.assertEqual(self.changes, 1)
        self.leases.remove("other", "kube-system")
        self.assertFalse(self.goes_elsewhere())
        self.assertEqual((self.changes, self.servers.there), (2, {}))

    def test_another_process_behind_an_identity_is_asked_again(self) -> None:
        self.servers.serve("other", "batch/v1/jobs")
        self.lease()
        self.successResultOf(self.start())
        self.lease()  # a renewal
        self.servers.serve("other", "batch/v2/jobs")
        self.later()
        self.assertTrue(self.goes_elsewhere())
        self.lease(holder="2")
        self.later()
        self.assertFalse(self.goes_elsewhere())
        self.assertTrue(self.goes_elsewhere("/apis/batch/v2/jobs"))

    def test_a_server_without_an_address_is_answered_for(self) -> None:
        self.servers.serve("other", "batch/v1/jobs")
        self.lease()
        self.successResultOf(self.start())
        for wrong in ([], ["192.0.2.2"], ["192.0.2.2:https"], [":6443"]):
            self.addresses["other"] = wrong
            with self.assertRaises(status.ServiceUnavailable) as caught:
                self.peers.filter(request(JOBS))
            self.assertEqual(
                caught.exception.message, "Error getting ip and port info of the remote server while proxying"
            )
        self.addresses["other"] = ["[2001:db8::1]:6443"]
        self.assertTrue(self.goes_elsewhere())
        self.assertEqual(self.servers.there["other"][0][0].host, "2001:db8::1")
        self.identity = object()
        self.assertTrue(self.goes_elsewhere())
        self.assertIs(self.servers.there["other"][2], self.identity)

    def test_a_server_that_does_not_answer_does_not_hold_up_the_start_and_is_asked_again(self) -> None:
        self.servers.silent.add("other")
        self.servers.serve("third", "batch/v1/jobs")
        self.addresses["third"] = ["192.0.2.3:6443"]
        self.lease()
        self.lease("third")
        started = self.start()
        self.assertNoResult(started)
        self.assertTrue(self.goes_elsewhere())
        self.later(5.1)
        self.successResultOf(started)
        self.servers.silent.clear()
        self.servers.serve("other", "policy/v1/budgets")
        self.later(5)
        self.later(1)
        self.assertTrue(self.goes_elsewhere("/apis/policy/v1/budgets"))

    def test_what_is_no_discovery_is_asked_for_again(self) -> None:
        wrong = [
            (503, FORM, document("batch/v1/jobs")),
            (200, "application/json", document("batch/v1/jobs")),
            (200, FORM, b"{"),
            (200, FORM, b'{"kind":"APIGroupList"}'),
            (200, FORM, b'{"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{}]}]}'),
            (200, FORM, b"[]"),
        ]
        self.lease()
        for answer in wrong:
            self.servers.answers["other", "/apis"] = answer
            if answer is wrong[0]:
                self.successResultOf(self.start())
            self.later(60)
            self.assertFalse(self.goes_elsewhere())
        before = len(self.servers.asked)
        self.later(1)
        self.assertEqual(len(self.servers.asked), before)  # the pauses have grown
        self.servers.serve("other", "batch/v1/jobs")
        self.later(60)
        self.assertTrue(self.goes_elsewhere())
        self.assertTrue(any("503" in line for line in str(list(REROUTED.collect())).splitlines()))

    def test_custom_and_aggregated_resources_are_not_asked_of_others_nor_soon_after_their_deletion(self) -> None:
        self.servers.serve("other", "a.io/v1/things", "b.io/v1/things", "c.io/v1/things", "d.io/v1/things")
        self.lease()
        self.define("a.io")
        self.define("b.io")
        services = self.client.resource("apiregistration.k8s.io", "apiservices")
        for group, more in (("c.io", {"service": {"name": "x"}}), ("d.io", {})):
            services.put({"metadata": {"name": f"v1.{group}"}, "spec": {"group": group, "version": "v1", **more}})
        self.successResultOf(self.start())

        def elsewhere() -> str:
            merged = [group["metadata"]["name"][0] for group in self.peers.merge([])]
            found = [name for name in "abcd" if self.goes_elsewhere(f"/apis/{name}.io/v1/things")]
            self.assertEqual(merged, found)
            return "".join(found)

        self.assertEqual(elsewhere(), "d")
        definitions = self.client.resource("apiextensions.k8s.io", "customresourcedefinitions")
        definitions.remove("things.a.io")
        self.later(10)
        definitions.remove("things.b.io")
        self.assertEqual(elsewhere(), "d")
        self.later(GRACE_SECONDS - 5)
        self.assertEqual(elsewhere(), "ad")
        self.define("d.io")
        self.later(10)
        self.assertEqual(elsewhere(), "ab")
