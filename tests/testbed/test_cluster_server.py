"""What serves a logical cluster is made as far as it is asked for, and answers as if all of it were there."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import ref

import orjson
import pytest
import yaml
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import globalLogPublisher

from kapi.codecs.split import encode_halves
from kapi.serving.run import RequestRunner
from kapi.store.memory import Snapshot
from kapi.store.table import Value
from kapi.testbed import extension as testbed
from kapi.testbed.cluster_chain import ClusterChain
from kapi.testbed.cluster_server import ClusterServer
from kapi.testbed.clusters import Clusters
from kapi.testbed.logical_cluster import LogicalCluster
from kapi.testing.http import MemoryRequest
from tests.assembly.assembled import assembled

CRD = Path(__file__).parents[2] / "docs" / "testing" / "examples" / "widgets.yaml"
NAMESPACE, MAPS = "/api/v1/namespaces/default", "/api/v1/namespaces/default/configmaps"
UNKNOWN = "/apis/nobody.example.com/v1/things"  # only the chain can say that nobody serves it
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


class Request(MemoryRequest):
    """As the server's own channels make them: metrics ask how much was sent."""

    sentLength = 0


class World:
    """A server with logical clusters, in memory; its administrator asks."""

    def __init__(self, directory: Path, *flags: str) -> None:
        tokens = directory / "tokens.csv"
        tokens.write_text('t,admin,1,"system:masters"\n')
        server = assembled(directory, "--testbed", "--enable-logical-clusters", f"--token-auth-file={tokens}", *flags)
        self.reactor: MemoryReactorClock = server.config.reactor
        self.runner = RequestRunner(server.handler_chain(), self.reactor)
        extension = server.extension
        assert isinstance(extension, testbed.Testbed) and extension.clusters is not None
        self.clusters: Clusters = extension.clusters
        made: list[Any] = []
        hook = server.chain.core.post_start_hooks()["start-logical-clusters"]
        Deferred.fromCoroutine(hook()).addBoth(made.append)  # type: ignore[arg-type]
        self.until(lambda: made)
        assert made == [None]

    def until(self, done: Callable[[], object]) -> None:
        for _ in range(2000):
            if done():
                return
            self.reactor.advance(0.005)
        raise AssertionError("it did not happen")

    def ask(self, cluster: LogicalCluster, method: str, path: str, body: Any = None, **headers: str) -> MemoryRequest:
        request = self.send(cluster, method, path, body, **headers)
        self.until(lambda: request.finished)
        return request

    def send(self, cluster: LogicalCluster, method: str, path: str, body: Any = None, **more: str) -> MemoryRequest:
        headers = {"User-Agent": "tests/1", "Content-Type": "application/json", "Authorization": "Bearer t"}
        headers.update((name.replace("_", "-"), value) for name, value in more.items())
        data = b"" if body is None else orjson.dumps(body)
        request = Request(method, f"/clusters/{cluster.name}{path}", headers, data)
        self.runner.serve(request)
        return request


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("data"))


@pytest.fixture
def cluster(world: World, request: pytest.FixtureRequest) -> LogicalCluster:
    return world.clusters.create(f"c-{request.node.name.replace('_', '-')[:50].rstrip('-')}")


def served(cluster: LogicalCluster) -> ClusterServer:
    assert isinstance(cluster.served, ClusterServer)
    return cluster.served


def looked_into(cluster: LogicalCluster) -> set[str]:
    return {str(cache.resource) for cache in served(cluster).caches.all()}


def test_reading_a_built_in_resource_looks_into_that_alone(world: World, cluster: LogicalCluster) -> None:
    assert world.ask(cluster, "GET", NAMESPACE).json["metadata"]["name"] == "default"
    assert looked_into(cluster) == {"namespaces"}
    assert world.ask(cluster, "GET", "/apis/apps/v1/deployments?limit=5").json["items"] == []
    assert looked_into(cluster) == {"namespaces", "deployments.apps"}


def test_what_only_the_whole_chain_can_say_is_answered_at_once_too(world: World, cluster: LogicalCluster) -> None:
    for path in (UNKNOWN, "/nothing"):
        assert world.ask(cluster, "GET", path).written == b"404 page not found\n"
    assert world.ask(cluster, "GET", "/api/v1/nothing").json["reason"] == "NotFound"
    services = world.ask(cluster, "GET", "/apis/apiregistration.k8s.io/v1/apiservices").json["items"]
    assert "v1.apps" in {service["metadata"]["name"] for service in services}


DISCOVERY = ("/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3", "/openapi/v3/apis/apps/v1", "/")


def test_discovery_of_a_fresh_one_is_that_of_all_and_looks_into_nothing(world: World, cluster: LogicalCluster) -> None:
    shared = [world.ask(cluster, "GET", path).json for path in DISCOVERY]
    assert looked_into(cluster) == set()
    world.ask(cluster, "GET", UNKNOWN)  # from now on it answers by itself
    assert looked_into(cluster) != set()
    assert [world.ask(cluster, "GET", path).json for path in DISCOVERY] == shared


def test_discovery_follows_what_a_fork_began_with(world: World, cluster: LogicalCluster) -> None:
    def place(of: LogicalCluster) -> int:
        return [group["name"] for group in world.ask(of, "GET", "/apis").json["groups"]].index("batch")

    assert place(cluster) > 1
    changed = apiservice(cluster.store.snapshot(), "v1.batch", groupPriorityMinimum=20_000)
    fork = world.clusters.create("batch-first", changed)
    world.until(lambda: place(fork) == 1)  # after apiregistration.k8s.io


def test_a_first_write_is_admitted_as_any_other(world: World, cluster: LogicalCluster) -> None:
    refused = world.ask(cluster, "POST", "/api/v1/namespaces/missing/configmaps", {"metadata": {"name": "m"}})
    assert (refused.code, refused.json["reason"]) == (404, "NotFound")
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    made = world.ask(cluster, "POST", "/api/v1/namespaces/default/services", service)
    assert made.json["spec"]["clusterIP"].startswith("10.")


def test_a_first_write_sets_the_controllers_to_work(world: World, cluster: LogicalCluster) -> None:
    assert world.ask(cluster, "POST", "/api/v1/namespaces", {"metadata": {"name": "new"}}).code == 201
    accounts = "/api/v1/namespaces/new/serviceaccounts"
    world.until(lambda: world.ask(cluster, "GET", accounts).json["items"])


def test_reviews_and_subresources_need_nothing_before_them(world: World, cluster: LogicalCluster) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert world.ask(cluster, "POST", path, review).json["status"]["allowed"] is True
    assert world.ask(cluster, "GET", f"{NAMESPACE}/status").json["metadata"]["name"] == "default"
    log = world.ask(world.clusters.create("logs"), "GET", f"{NAMESPACE}/pods/none/log")
    assert log.json["message"] == 'pods "none" not found'


def test_the_past_is_read_without_anything_before_it(world: World, cluster: LogicalCluster) -> None:
    revision = cluster.store.newest
    found = world.ask(cluster, "GET", f"{NAMESPACE}?kapiRevision={revision}")
    assert found.json["metadata"]["name"] == "default"


def test_a_fork_serves_what_its_origin_had_defined(world: World, cluster: LogicalCluster) -> None:
    crd = yaml.safe_load(CRD.read_text())
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert world.ask(cluster, "POST", definitions, crd).code == 201
    world.until(lambda: world.ask(cluster, "GET", WIDGETS).code == 200)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    assert world.ask(cluster, "POST", WIDGETS, widget).code == 201
    fork = world.clusters.create("fork", cluster.store.snapshot())
    assert world.ask(fork, "GET", f"{WIDGETS}/w").json["metadata"]["name"] == "w"
    again = world.clusters.create("fork-again", cluster.store.snapshot())
    groups = world.ask(again, "GET", "/apis").json["groups"]
    assert "example.com" in {group["name"] for group in groups}


def test_kubelets_reach_what_belongs_to_their_pods_while_they_are_there(world: World, cluster: LogicalCluster) -> None:
    kubelet = {"Impersonate_User": "system:node:n1", "Impersonate_Group": "system:nodes"}
    secret = f"{NAMESPACE}/secrets/s"
    container = {"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [container]}}
    assert world.ask(cluster, "POST", f"{NAMESPACE}/secrets", {"metadata": {"name": "s"}}).code == 201
    assert world.ask(cluster, "POST", f"{NAMESPACE}/pods", pod).code == 201
    assert world.ask(cluster, "GET", secret, **kubelet).code == 200
    other = {**kubelet, "Impersonate_User": "system:node:n2"}
    assert world.ask(cluster, "GET", secret, **other).code == 403
    now = {"gracePeriodSeconds": 0}
    assert world.ask(cluster, "DELETE", f"{NAMESPACE}/pods/p", now).code == 200
    world.until(lambda: world.ask(cluster, "GET", secret, **kubelet).code == 403)


def apiservice(snapshot: Snapshot, name: str, **spec: Any) -> Snapshot:
    """The state with another spec of an APIService, which nobody brings back."""
    key = f"apiregistration.k8s.io/apiservices//{name}"
    found = snapshot.get(key)
    assert found is not None
    obj = orjson.loads(found.data)
    del obj["metadata"]["labels"]  # by which a start brings back what is built in
    obj["spec"].update(spec)
    obj["status"] = {"conditions": [{"type": "Available", "status": "False" if "service" in spec else "True"}]}
    head, tail = encode_halves(obj)
    return snapshot.with_objects([Value.of(key, head, found.revision, tail)])


def test_what_another_server_has_is_not_served_here_meanwhile(world: World, cluster: LogicalCluster) -> None:
    service = {"namespace": "default", "name": "other", "port": 443}
    fork = world.clusters.create("elsewhere", apiservice(cluster.store.snapshot(), "v1.apps", service=service))
    assert world.ask(fork, "GET", "/apis/apps/v1/deployments").code == 503
    assert world.ask(fork, "GET", "/api/v1/pods").code == 200


def test_a_chain_that_could_not_start_is_made_anew(
    world: World, cluster: LogicalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    globalLogPublisher.addObserver(told.append)

    async def fails(chain: ClusterChain) -> None:
        raise ValueError("no")

    try:
        with monkeypatch.context() as patched:
            patched.setattr(ClusterChain, "start", fails)
            assert world.ask(cluster, "GET", UNKNOWN).code == 503
            assert world.ask(cluster, "GET", NAMESPACE).code == 200
    finally:
        globalLogPublisher.removeObserver(told.append)
    assert [one["log_format"] for one in told if "log_failure" in one] == [
        "the servers of a logical cluster could not be started"
    ]
    assert world.ask(cluster, "GET", UNKNOWN).code == 404


def test_requests_that_come_together_wait_for_one_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    cluster = world.clusters.create("one")
    starts: list[Deferred[None]] = []
    start = ClusterChain.start

    async def slowly(chain: ClusterChain) -> None:
        starts.append(Deferred())
        await starts[-1]
        await start(chain)

    monkeypatch.setattr(ClusterChain, "start", slowly)
    asked = [world.send(cluster, "GET", UNKNOWN) for _ in range(3)]
    world.reactor.advance(0.1)
    assert [request.finished for request in asked] == [False] * 3
    starts[0].callback(None)
    world.until(lambda: all(request.finished for request in asked))
    assert ({request.code for request in asked}, len(starts)) == ({404}, 1)


def test_a_cluster_that_goes_while_it_starts_leaves_nobody_waiting(
    world: World, cluster: LogicalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(chain: ClusterChain) -> None:
        await Deferred()  # type: ignore[misc]

    monkeypatch.setattr(ClusterChain, "start", never)
    request = world.send(cluster, "GET", UNKNOWN)
    world.reactor.advance(0.1)
    gone: list[object] = []
    Deferred.fromCoroutine(world.clusters.remove(cluster.name)).addBoth(gone.append)
    world.until(lambda: request.finished and gone)
    assert (request.code, gone) == (503, [True])


def test_nothing_keeps_what_served_a_cluster_that_was_removed(world: World, cluster: LogicalCluster) -> None:
    """Not even the metrics of admission, which are read rarely."""
    assert world.ask(cluster, "POST", MAPS, {"metadata": {"name": "m"}}).code == 201
    world.until(lambda: served(cluster)._beginning and not served(cluster).beginning)
    kept = [ref(served(cluster).caches), ref(served(cluster).client)]
    gone: list[object] = []
    Deferred.fromCoroutine(world.clusters.remove(cluster.name)).addBoth(gone.append)
    world.until(lambda: gone)
    world.reactor.advance(600)
    gc.collect()
    assert [one() for one in kept] == [None, None]
