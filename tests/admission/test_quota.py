"""ResourceQuota: what is charged, what is refused, and that nobody takes the last unit twice."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from kapi.admission.interface import UPDATE, Attributes, Plugin
from kapi.admission.quota import plugin as quota
from kapi.endpoints.errors import to_status
from kapi.machinery.status import Conflict, Forbidden, StatusError, bad_request, service_unavailable
from kapi.machinery.tree import Object
from kapi.store.errors import StoreUnavailable
from tests.admission.fakes import FakeClient, FakeResource, attributes, finish, initializer, pod


def resource_quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> Object:
    status = {"hard": hard, "used": used if used is not None else {name: "0" for name in hard}}
    return {"metadata": {"name": "q", "namespace": "n"}, "spec": {"hard": hard, **spec}, "status": status}


def make(client: FakeClient, *limited: Object) -> Plugin:
    return quota.ResourceQuota(initializer(client, reactor=Clock()), {"limitedResources": list(limited)})


def used(client: FakeClient) -> dict[str, str]:
    found: dict[str, str] = client.resource("", "resourcequotas").objects[("n", "q")]["status"]["used"]
    return found


def a_pod(name: str = "p", **requests: str) -> Object:
    return pod(name, containers=[{"name": "c", "image": "i", "resources": {"requests": requests}}])


def cluster(quota_: Object) -> FakeClient:
    client = FakeClient()
    client.put("", "resourcequotas", quota_)
    return client


def test_charges_and_refuses() -> None:
    client = cluster(resource_quota({"pods": "3", "requests.cpu": "1"}))
    plugin = make(client)
    finish(plugin.validate(attributes(a_pod(cpu="600m"))))
    assert used(client) == {"pods": "1", "requests.cpu": "600m"}
    with pytest.raises(Forbidden) as caught:
        finish(plugin.validate(attributes(a_pod("b", cpu="500m"))))
    assert caught.value.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, '
        "limited: requests.cpu=1"
    )
    assert used(client) == {"pods": "1", "requests.cpu": "600m"}


def refused(plugin: Plugin, request: Attributes) -> str:
    with pytest.raises(StatusError) as caught:
        finish(plugin.validate(request))
    return caught.value.message


def test_a_quota_that_was_never_counted_allows_nothing_that_it_limits() -> None:
    client = cluster(resource_quota({"pods": "3", "services": "1"}, {"services": "0"}))
    text = 'pods "p" is forbidden: status unknown for quota: q, resources: pods'
    assert refused(make(client), attributes(pod())) == text
    finish(make(client).validate(attributes(node_ports(0), resource="services", kind="Service")))
    assert used(client) == {"services": "1"}


@pytest.mark.parametrize("listed", [{}, {"hard": {}, "used": {}}])
def test_a_quota_that_was_counted_meanwhile_is_read_from_the_store(listed: Object) -> None:
    client = cluster(resource_quota({"pods": "3"}, {"pods": "1"}))
    quotas = client.resource("", "resourcequotas")
    quotas.cached = {key: {**stored, "status": listed} for key, stored in quotas.objects.items()}
    finish(make(client).validate(attributes(pod())))
    assert used(client) == {"pods": "2"}


def test_less_than_nothing_is_not_charged() -> None:
    client = cluster(resource_quota({"requests.cpu": "3"}))
    text = 'pods "p" is forbidden: quota usage is negative for resource(s): '
    assert refused(make(client), attributes(a_pod(cpu="-1"))).startswith(text)
    assert used(client) == {"requests.cpu": "0"}


def test_an_update_needs_what_was_there_before() -> None:
    client = cluster(resource_quota({"services.nodeports": "3"}))
    request = attributes(node_ports(1), operation=UPDATE, resource="services", kind="Service")
    assert refused(make(client), request) == (
        'services "s" is forbidden: unable to get previous usage since prior version of object was not found'
    )


def test_an_update_that_makes_an_object_is_charged_in_full() -> None:
    client = cluster(resource_quota({"services.nodeports": "3"}))
    old = node_ports(2)
    del old["metadata"]["resourceVersion"]
    finish(make(client).validate(attributes(node_ports(3), old, operation=UPDATE, resource="services", kind="Service")))
    assert used(client) == {"services.nodeports": "3"}


def test_a_request_waits_for_its_turn_for_ten_seconds() -> None:
    clock = Clock()
    client = cluster(resource_quota({"pods": "7"}))
    client.made[("", "resourcequotas")] = _Slow(client.resource("", "resourcequotas"), clock, seconds=11)
    plugin = quota.ResourceQuota(initializer(client, reactor=clock), None)

    async def create() -> None:
        await plugin.validate(attributes(pod()))  # type: ignore[misc]

    found: list[Any] = []
    Deferred.fromCoroutine(create()).addBoth(found.append)
    clock.advance(9.9)
    assert not found
    clock.advance(0.2)
    assert found[0].value.message == "Internal error occurred: resource quota evaluation timed out"
    clock.advance(1)
    assert used(client) == {"pods": "1"}, "it was written, and is counted again later"


def test_compute_has_to_be_said() -> None:
    client = cluster(resource_quota({"requests.cpu": "1"}))
    with pytest.raises(StatusError) as caught:
        finish(make(client).validate(attributes(pod())))
    assert "failed quota: q: must specify requests.cpu for: c" in caught.value.message


def test_only_what_grows_is_charged() -> None:
    client = cluster(resource_quota({"services.nodeports": "2"}, {"services.nodeports": "1"}))
    port = {"port": 80, "nodePort": 30000}

    def service(count: int) -> Object:
        ports = [{**port, "nodePort": 30000 + i} for i in range(count)]
        metadata = {"name": "s", "namespace": "n", "resourceVersion": "1"}
        return {"metadata": metadata, "spec": {"type": "NodePort", "ports": ports}}

    def change(count: int) -> None:
        request = attributes(service(count), service(1), operation=UPDATE, resource="services", kind="Service")
        finish(make(client).validate(request))

    change(2)
    assert used(client) == {"services.nodeports": "2"}
    with pytest.raises(Forbidden):
        change(3)


def node_ports(count: int) -> Object:
    metadata = {"name": "s", "namespace": "n", "resourceVersion": "1"}
    ports = [{"port": 80, "nodePort": 30000 + number} for number in range(count)]
    return {"metadata": metadata, "spec": {"type": "NodePort", "ports": ports}}


NOT_COVERED = 'services "s" is forbidden: insufficient quota to consume: services.nodeports'


@pytest.mark.parametrize("name", ["services.nodeports", "services", "pods"])
@pytest.mark.parametrize(
    ("count", "before", "text"),
    [(1, 0, NOT_COVERED), (2, 1, NOT_COVERED), (1, 1, ""), (1, 2, "")],
)
def test_what_is_limited_grows_only_where_a_quota_covers_it(name: str, count: int, before: int, text: str) -> None:
    limited = {"resource": "services", "matchContains": ["nodeports"]}
    plugin = make(cluster(resource_quota({name: "5"})), limited)
    request = attributes(node_ports(count), resource="services", kind="Service")
    if before:
        request = attributes(
            node_ports(count), node_ports(before), operation=UPDATE, resource="services", kind="Service"
        )
    if text and name != "services.nodeports":
        with pytest.raises(Forbidden) as caught:
            finish(plugin.validate(request))
        assert caught.value.message == text
    else:
        finish(plugin.validate(request))


def test_other_resources_than_the_limited_ones_need_no_quota() -> None:
    plugin = make(
        cluster(resource_quota({"pods": "5"})), {"apiGroup": "apps", "resource": "services", "matchContains": [""]}
    )
    finish(plugin.validate(attributes(node_ports(1), resource="services", kind="Service")))


def test_pods_of_a_limited_scope_need_a_quota_of_it() -> None:
    important = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    limited = {"resource": "pods", "matchScopes": [important]}
    for quota_, allowed in (
        (resource_quota({"pods": "5"}), False),
        (resource_quota({"pods": "5"}, scopeSelector={"matchExpressions": [important]}), True),
    ):
        plugin = make(cluster(quota_), limited)
        finish(plugin.validate(attributes(pod())))
        request = attributes(pod("q", containers=[{"name": "c", "image": "i"}], priorityClassName="high"))
        if allowed:
            finish(plugin.validate(request))
            continue
        with pytest.raises(StatusError) as caught:
            finish(plugin.validate(request))
        assert caught.value.message == "insufficient quota to match these scopes: [{PriorityClass In [high]}]"


@pytest.mark.parametrize(
    "name", ["requests.hugepages-2Mi", "hugepages-2Mi", "requests.example.com/gpu",
             "requests.deviceclass.resource.kubernetes.io/gpu"],
)  # fmt: skip
def test_other_resources_than_cpu_and_memory_are_charged(name: str) -> None:
    plugin = make(client := cluster(resource_quota({name: "2"})))
    asked = {name.removeprefix("requests."): "2"}
    finish(plugin.validate(attributes(a_pod(**asked))))
    assert used(client) == {name: "2"}
    assert "exceeded quota: q" in refused(plugin, attributes(a_pod("b", **asked)))


@pytest.mark.parametrize("name", ["requests.kubernetes.io/gpu", "requests.gpu", "limits.example.com/gpu"])
def test_what_a_quota_cannot_limit_is_not_charged(name: str) -> None:
    plugin = make(client := cluster(resource_quota({name: "0"})))
    finish(plugin.validate(attributes(a_pod(**{name.partition(".")[2]: "1"}))))
    assert used(client) == {name: "0"}


@pytest.mark.parametrize(
    ("group", "resource", "counts"),
    [
        ("", "bindings", False), ("", "componentstatuses", False), ("", "events", False), ("events.k8s.io", "events", False),
        ("authentication.k8s.io", "tokenreviews", False), ("authentication.k8s.io", "selfsubjectreviews", False),
        ("authorization.k8s.io", "subjectaccessreviews", False), ("authorization.k8s.io", "selfsubjectaccessreviews", False),
        ("authorization.k8s.io", "localsubjectaccessreviews", False),
        ("authorization.k8s.io", "selfsubjectrulesreviews", False), ("metrics.k8s.io", "pods", False),
        ("metrics.k8s.io", "nodes", False), ("apps", "deployments", True), ("example.com", "events", True),
    ],
)  # fmt: skip
def test_objects_count_that_are_stored(group: str, resource: str, counts: bool) -> None:
    name = f"count/{resource}.{group}".rstrip(".")
    plugin = make(client := cluster(resource_quota({name: "1"})))
    finish(plugin.validate(attributes({"metadata": {"name": "a"}}, group=group, resource=resource)))
    assert used(client) == {name: "1" if counts else "0"}


def test_scopes() -> None:
    client = cluster(resource_quota({"pods": "1"}, scopes=["BestEffort"]))
    plugin = make(client)
    finish(plugin.validate(attributes(a_pod(cpu="1"))))
    assert used(client) == {"pods": "0"}
    finish(plugin.validate(attributes(pod())))
    assert used(client) == {"pods": "1"}
    with pytest.raises(Forbidden):
        finish(plugin.validate(attributes(pod("b"))))


def test_a_dry_run_is_checked_but_not_charged() -> None:
    client = cluster(resource_quota({"pods": "1"}))
    finish(make(client).validate(attributes(pod(), dry_run=True)))
    assert used(client) == {"pods": "0"}


class _Counted(FakeResource):
    """Counts the writes; its lister shows the first state alone."""

    def __init__(self, of: FakeResource) -> None:
        super().__init__(of.group_resource)
        self.objects, self.cached, self.revision = of.objects, {**of.objects}, of.revision
        self.writes = 0

    async def update(self, obj: Object, namespace: str = "", subresource: str = "") -> Object:
        self.writes += 1
        return await super().update(obj, namespace, subresource)


def test_quotas_are_known_as_they_were_written_before_the_lister_shows_it() -> None:
    """Else each request would first write to an old state of each quota, in vain."""
    client = cluster(resource_quota({"pods": "7"}))
    other = resource_quota({"pods": "9"})
    other["metadata"]["name"] = "r"
    client.put("", "resourcequotas", other)
    quotas = client.made[("", "resourcequotas")] = _Counted(client.resource("", "resourcequotas"))
    plugin = make(client)
    for number in range(3):
        finish(plugin.validate(attributes(pod(f"p{number}"))))
    assert [quotas.objects[("n", name)]["status"]["used"] for name in ("q", "r")] == [{"pods": "3"}] * 2
    assert quotas.writes == 6


class _Slow(FakeResource):
    """Writes that take a turn of the reactor, so that writers meet."""

    def __init__(self, of: FakeResource, clock: Clock, seconds: float = 0.001) -> None:
        super().__init__(of.group_resource)
        self.objects = self.cached = of.objects
        self.revision = of.revision
        self.clock, self.seconds = clock, seconds

    async def update(self, obj: Object, namespace: str = "", subresource: str = "") -> Object:
        turn: Deferred[None] = Deferred()
        self.clock.callLater(self.seconds, turn.callback, None)
        await turn
        return await super().update(obj, namespace, subresource)


class _Contested(FakeResource):
    """Somebody else is faster for the first writes to some quotas; notes the names of all that are written."""

    def __init__(self, of: FakeResource, first: dict[str, int], error: Exception | None = None) -> None:
        super().__init__(of.group_resource)
        self.objects, self.cached, self.revision = of.objects, {**of.objects}, of.revision
        self.first, self.error = first, error
        self.written: list[str] = []

    async def update(self, obj: Object, namespace: str = "", subresource: str = "") -> Object:
        name = obj["metadata"]["name"]
        self.written.append(name)
        if self.first.get(name):
            self.first[name] -= 1
            if self.error is not None:
                raise self.error
            self.put(copy.deepcopy(self.objects[(namespace, name)]))
        return await super().update(obj, namespace, subresource)


def contested(error: Exception | None = None, **first: int) -> tuple[FakeClient, _Contested]:
    """The quotas q and r."""
    client = cluster(resource_quota({"pods": "7"}))
    other = resource_quota({"pods": "2"})
    other["metadata"]["name"] = "r"
    client.put("", "resourcequotas", other)
    quotas = _Contested(client.resource("", "resourcequotas"), first, error)
    client.made[("", "resourcequotas")] = quotas
    return client, quotas


@pytest.mark.parametrize("conflicts", [0, 1, 9, 10])
def test_a_quota_that_others_change_is_read_again(conflicts: int) -> None:
    """The other one stays charged, once."""
    client, quotas = contested(q=conflicts)
    request = attributes(pod())
    finish(make(client).validate(request))
    assert quotas.written == ["q", "r"] + ["q"] * conflicts
    for name in "qr":
        stored = quotas.objects[("n", name)]
        assert stored["status"]["used"] == {"pods": "1"}
        assert request.charges[name] == int(stored["metadata"]["resourceVersion"])


def test_after_ten_more_attempts_the_conflict_is_the_answer() -> None:
    client, quotas = contested(q=11)
    with pytest.raises(Conflict, match='Operation cannot be fulfilled on resourcequotas "q": the object has been'):
        finish(make(client).validate(attributes(pod())))
    assert quotas.written.count("q") == 11
    assert [used["status"]["used"]["pods"] for used in quotas.objects.values()] == ["0", "1"]


def test_an_error_of_the_last_attempt_is_the_answer() -> None:
    client, _ = contested(bad_request("not today"), q=99)
    assert refused(make(client), attributes(pod())) == "not today"


def test_a_quota_that_goes_meanwhile_limits_nothing() -> None:
    client, quotas = contested()
    del quotas.objects[("n", "q")]
    finish(make(client).validate(attributes(pod())))
    assert quotas.written == ["q", "r"]


def test_what_others_took_meanwhile_is_exceeded() -> None:
    client, quotas = contested(r=1)
    quotas.objects[("n", "r")]["status"]["used"] = {"pods": "1"}
    plugin = make(client)
    finish(plugin.validate(attributes(pod("a"))))
    quotas.first["r"] = 1
    full = copy.deepcopy(quotas.objects[("n", "r")])
    quotas.put(full)  # the lister shows the state before
    assert "exceeded quota: r, requested: pods=1, used: pods=2, limited: pods=2" in refused(
        plugin, attributes(pod("b"))
    )


def test_a_quota_that_is_made_anew_is_not_taken_for_the_former_one() -> None:
    client, quotas = contested()
    plugin = make(client)
    finish(plugin.validate(attributes(pod("a"))))
    fresh = resource_quota({"pods": "7"})
    fresh["metadata"]["uid"] = "another"
    quotas.cached[("n", "q")] = quotas.put(fresh)
    finish(plugin.validate(attributes(pod("b"))))
    assert [quotas.objects[("n", name)]["status"]["used"] for name in "qr"] == [{"pods": "1"}, {"pods": "2"}]
    assert quotas.written == ["q", "r"] * 2


def test_requests_that_wait_are_charged_with_one_write() -> None:
    clock = Clock()
    client = cluster(resource_quota({"pods": "7"}))
    slow = client.made[("", "resourcequotas")] = _Slow(client.resource("", "resourcequotas"), clock)
    plugin = quota.ResourceQuota(initializer(client, reactor=clock), None)
    ended: list[Any] = []
    requests = [attributes(pod(f"p{number}")) for number in range(9)]

    async def create(request: Attributes) -> None:
        await plugin.validate(request)  # type: ignore[misc]

    for request in requests:
        Deferred.fromCoroutine(create(request)).addBoth(ended.append)
    clock.advance(0.001)
    assert (len(ended), used(client), slow.revision) == (1, {"pods": "1"}, 2)
    clock.advance(0.001)
    assert (len(ended), used(client), slow.revision) == (9, {"pods": "7"}, 3)
    assert sum(isinstance(each, Failure) for each in ended) == 2
    assert [request.charges for request in requests] == [{"q": 2}] + [{"q": 3}] * 6 + [{}] * 2


def test_an_error_that_nobody_expects_is_internal_and_ends() -> None:
    client, quotas = contested(ValueError("odd"), q=1)
    plugin = make(client)
    assert refused(plugin, attributes(pod())) == "Internal error occurred: odd"
    finish(plugin.validate(attributes(pod())))
    assert used(client) == {"pods": "1"}


def test_a_new_limit_is_not_charged_before_it_is_counted() -> None:
    """The first count must see the object."""
    client = cluster(resource_quota({"pods": "7", "services": "1"}))
    stored = client.resource("", "resourcequotas").objects[("n", "q")]
    stored["spec"]["hard"] = {"pods": "7", "services": "1", "count/pods": "1", "secrets": "1"}
    request, other = attributes(pod()), attributes(node_ports(0), resource="services", kind="Service")
    finish(make(client).validate(attributes(pod(), dry_run=True)))
    plugin = make(client)
    finish(plugin.validate(other))
    assert other.charges == {"q": 2}
    finish(plugin.validate(request))
    assert (used(client), request.charges) == ({"pods": "1", "services": "1"}, {"q": 3})
    secret = attributes({"metadata": {"name": "s"}}, resource="secrets", kind="Secret")
    finish(plugin.validate(secret))
    assert (used(client), secret.charges) == ({"pods": "1", "services": "1"}, {"q": 3})
    claim = attributes({"metadata": {"name": "c"}}, resource="configmaps", kind="ConfigMap")
    finish(plugin.validate(claim))
    assert claim.charges == {}


@pytest.mark.parametrize(
    ("group", "resource", "namespace", "asked"),
    [("", "namespaces", "n", False), ("example.com", "namespaces", "n", True), ("", "nodes", "", False),
     ("", "secrets", "m", False), ("", "secrets", "n", True)],
)  # fmt: skip
def test_a_quota_is_of_its_namespace(group: str, resource: str, namespace: str, asked: bool) -> None:
    plugin = make(cluster(resource_quota({"pods": "1"})))
    request = attributes({"metadata": {"name": "a"}}, group=group, resource=resource, namespace=namespace)
    waiting = plugin.validate(request)
    assert (waiting is not None) is asked
    finish(waiting)


def test_resources_that_need_a_quota_have_a_name() -> None:
    with pytest.raises(ValueError) as caught:
        make(FakeClient(), {"resource": ""}, {"resource": "pods"}, {"apiGroup": "apps"})
    assert str(caught.value) == (
        "[limitedResources[0].resource: Required value, limitedResources[2].resource: Required value]"
    )


@pytest.mark.parametrize("servers", [1, 3])
def test_concurrent_requests_never_exceed(servers: int) -> None:
    clock = Clock()
    client = cluster(resource_quota({"pods": "7"}))
    client.made[("", "resourcequotas")] = _Slow(client.resource("", "resourcequotas"), clock)
    plugins = [quota.ResourceQuota(initializer(client, reactor=clock), None) for _ in range(servers)]

    async def create(i: int) -> bool:
        try:
            waiting = plugins[i % servers].validate(attributes(pod(f"p{i}")))
            if waiting is not None:
                await waiting
        except Forbidden:
            return False
        return True

    results: list[Any] = []
    DeferredList([Deferred.fromCoroutine(create(i)) for i in range(30)]).addCallback(results.extend)
    for _ in range(2000):
        clock.advance(0.001)
        if results:
            break
    assert sum(allowed for _, allowed in results) == 7
    assert used(client) == {"pods": "7"}


class _Away(FakeResource):
    """The store is away: reads and writes fail."""

    def __init__(self, of: FakeResource, error: Exception) -> None:
        super().__init__(of.group_resource)
        self.objects = self.cached = of.objects
        self.error = error

    async def get(self, name: str, namespace: str = "") -> Object:
        raise self.error

    async def update(self, obj: Object, namespace: str = "", subresource: str = "") -> Object:
        raise self.error


@pytest.mark.parametrize("error", [StoreUnavailable("away"), service_unavailable("the store is not available", 1)])
def test_an_outage_of_the_store_is_no_fault_of_the_server(error: Exception) -> None:
    client = cluster(resource_quota({"pods": "3"}))
    plugin = make(client)
    there = client.resource("", "resourcequotas")
    client.made[("", "resourcequotas")] = _Away(there, error)
    with pytest.raises(type(error)) as caught:
        finish(plugin.validate(attributes(pod())))
    answer = to_status(caught.value)
    assert (answer.code, answer.details["retryAfterSeconds"]) == (503, 1)
    client.made[("", "resourcequotas")] = there
    plugin = make(client)
    finish(plugin.validate(attributes(pod())))
    assert used(client) == {"pods": "1"}
