"""Classification, limits, bootstrap objects, and the filter around them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kapi.filters.priority_and_fairness import priority_and_fairness
from kapi.flowcontrol import controller as bootstrap
from kapi.flowcontrol.concurrency import Concurrency
from kapi.flowcontrol.controller import FlowController
from kapi.flowcontrol.estimator import WorkEstimate, estimate, watches_of
from kapi.flowcontrol.queue import Request
from kapi.machinery.gvk import GroupResource
from kapi.process.shares import Flow
from kapi.process.turn import Turn
from kapi.request.user import UserInfo
from tests.filters.requests import request
from tests.flowcontrol.controller_kit import ADMIN, ALICE, AUTHENTICATED, controller

NODE = UserInfo("system:node:n", groups=("system:nodes", AUTHENTICATED))
MANAGER = UserInfo("system:kube-controller-manager", groups=(AUTHENTICATED,))
ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))


def account(namespace: str, name: str) -> UserInfo:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return UserInfo(f"system:serviceaccount:{namespace}:{name}", groups=groups)


def test_the_suggested_levels_are_those_of_upstream() -> None:
    found = {}
    for obj in bootstrap.levels(mandatory=False):
        limited = obj["spec"]["limited"]
        queuing = limited["limitResponse"]["queuing"]
        shares = limited["nominalConcurrencyShares"], limited["lendablePercent"]
        found[obj["metadata"]["name"]] = (*shares, queuing["queues"], queuing["handSize"], queuing["queueLengthLimit"])
    assert found == {
        "system": (30, 33, 64, 6, 50),
        "node-high": (40, 25, 64, 6, 50),
        "leader-election": (10, 0, 16, 4, 50),
        "workload-high": (40, 50, 128, 6, 50),
        "workload-low": (100, 90, 128, 6, 50),
        "global-default": (20, 50, 128, 6, 50),
    }


@pytest.mark.parametrize(
    ("uri", "method", "user", "schema", "level"),
    [
        ("/api/v1/pods", "GET", ADMIN, "exempt", "exempt"),
        ("/healthz", "GET", ANONYMOUS, "probes", "exempt"),
        ("/readyz/ping", "GET", ALICE, "probes", "exempt"),
        ("/version", "GET", ANONYMOUS, "global-default", "global-default"),
        ("/api/v1/pods", "GET", ALICE, "global-default", "global-default"),
        ("/api/v1/nodes/n/status", "PATCH", NODE, "system-node-high", "node-high"),
        ("/apis/coordination.k8s.io/v1/namespaces/n/leases/n", "PUT", NODE, "system-node-high", "node-high"),
        ("/api/v1/pods", "GET", NODE, "system-nodes", "system"),
        (
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l", "PUT", MANAGER,
            "system-leader-election", "leader-election",
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/x/leases/l", "PATCH", MANAGER,
            "kube-controller-manager", "workload-high",
        ),
        ("/api/v1/pods", "GET", MANAGER, "kube-controller-manager", "workload-high"),
        ("/api/v1/pods", "GET", account("kube-system", "x"), "kube-system-service-accounts", "workload-high"),
        ("/api/v1/pods", "GET", account("kube-system-2", "x"), "service-accounts", "workload-low"),
    ],
)  # fmt: skip
def test_the_bootstrap_schemas_classify(uri: str, method: str, user: UserInfo, schema: str, level: str) -> None:
    made = controller()
    info = request(uri, method).info
    assert info is not None
    for _ in range(2):
        chosen = made.classify(info, user)
        assert (chosen.schema.name, chosen.level.name) == (schema, level)


def test_flows_are_told_apart_by_user_or_namespace() -> None:
    made = controller()
    info = request("/api/v1/namespaces/x/pods").info
    assert info is not None
    assert made.classify(info, ALICE).distinguisher == "alice"
    assert made.classify(info, MANAGER).distinguisher == "x"


def test_limits_are_those_of_upstream_for_600_seats() -> None:
    made = controller()
    nominal = {level.name: (level.nominal, level.lower, level.current) for level in made.levels.values()}
    assert nominal["exempt"][0] == 0
    assert nominal["catch-all"] == (13, 13, nominal["catch-all"][2])
    assert nominal["workload-low"][:2] == (245, 24)
    assert nominal["system"][:2] == (74, 50)
    assert nominal["leader-election"][:2] == (25, 25)
    assert made.levels["workload-low"].max_seats == 37
    assert made.levels["leader-election"].max_seats == 4


def test_without_objects_the_mandatory_ones_serve() -> None:
    made = controller(suggested=False)
    info = request("/api/v1/pods").info
    assert info is not None
    assert made.classify(info, ADMIN).level.name == "exempt"
    assert made.classify(info, ALICE).level.name == "catch-all"


def test_lending_and_borrowing() -> None:
    made = controller()
    low = made.levels["workload-low"]
    requests = [
        made.request(made.classify(request("/api/v1/pods").info, account("n", "a")), WorkEstimate()) for _ in range(300)
    ]  # type: ignore[arg-type]
    outcomes = [low.queues.admit(item, 60) for item in requests]
    before = sum(1 for outcome in outcomes if outcome == "")
    made._reactor.advance(10)
    made.adjust()
    assert low.current > before, "the busy level borrows what others do not need"
    assert sum(level.current for level in made.levels.values()) <= made._nominal_sum + len(made.levels)
    for level in made.levels.values():
        assert level.lower <= level.current <= level.upper
    assert low.queues.executing == min(low.current, 300)


def test_a_level_that_is_gone_drains() -> None:
    made = controller()
    level = made.levels["workload-low"]
    info = request("/api/v1/pods").info
    assert info is not None
    running = made.request(made.classify(info, account("n", "a")), WorkEstimate())
    level.queues.admit(running, 9)
    gone = next(obj for obj in bootstrap.levels(mandatory=False) if obj["metadata"]["name"] == "workload-low")
    made.level_changed("DELETED", gone)
    made._reactor.advance(0)
    assert made.classify(info, account("n", "a")).schema.name == "global-default", "its schema has lost its level"
    assert level.quiescing
    level.queues.finish(running)
    made.adjust()
    assert "workload-low" not in made.levels


class FakeCache:
    def __init__(self, count: int, size: int, watches: int) -> None:
        self.count, self.size, self.watches = count, size, watches

    def __len__(self) -> int:
        return self.count


@pytest.mark.parametrize(
    ("uri", "method", "work"),
    [
        ("/api/v1/pods", "GET", WorkEstimate(10)),
        ("/api/v1/pods?limit=100", "GET", WorkEstimate(3)),
        ("/api/v1/pods?fieldSelector=metadata.name%3Dx", "GET", WorkEstimate(1)),
        ("/api/v1/pods?watch=1&resourceVersion=5", "GET", WorkEstimate(1)),
        ("/api/v1/pods?watch=1", "GET", WorkEstimate(10)),
        ("/api/v1/pods?watch=1&resourceVersion=5&sendInitialEvents=true", "GET", WorkEstimate(10)),
        ("/api/v1/configmaps", "GET", WorkEstimate(1)),
        ("/api/v1/namespaces/x/pods/p", "GET", WorkEstimate(1)),
        ("/api/v1/namespaces/x/pods", "POST", WorkEstimate(1, 10, 0.05)),
        ("/api/v1/namespaces/x/configmaps", "POST", WorkEstimate(1)),
        ("/version", "GET", WorkEstimate(1)),
    ],
)
def test_work_estimates(uri: str, method: str, work: WorkEstimate) -> None:
    caches = {GroupResource("", "pods"): FakeCache(10_000, 26_000_000, 1000)}
    asked = request(uri, method)
    assert asked.info is not None
    watches = watches_of(asked.info, caches.get)  # type: ignore[arg-type]
    assert estimate(asked, caches.get, 37, watches) == work  # type: ignore[arg-type]


def test_the_filter_names_schema_and_level_and_frees_the_seat() -> None:
    made = controller()
    check = priority_and_fairness(made, lambda resource: None, made._reactor)
    ctx = request("/api/v1/namespaces/x/pods/p", user=ALICE)
    assert check(ctx) is None
    assert ctx.response_headers == [
        (b"X-Kubernetes-PF-FlowSchema-UID", b"schema-global-default"),
        (b"X-Kubernetes-PF-PriorityLevel-UID", b"level-global-default"),
    ]
    queues = made.levels["global-default"].queues
    assert queues.executing == 1
    ctx.finishers[0](ctx, 200)
    assert queues.idle


def with_turn() -> tuple[FlowController, Turn]:
    """A controller whose work takes no time."""
    made = controller()
    turn = made.turn = Turn(made._reactor)
    return made, turn


def test_the_filter_tells_for_whom_the_thread_works_and_whose_the_connection_is() -> None:
    made, turn = with_turn()
    check = priority_and_fairness(made, lambda resource: None, made._reactor)
    transport = SimpleNamespace(flow=turn.new_connection_flow("10.0.0.1"))
    flows = []
    for user in (ALICE, NODE, ALICE):
        ctx = request("/api/v1/namespaces/x/pods/p", user=user)
        ctx.http.transport = transport
        assert check(ctx) is None
        flows.append(ctx.flow)
        assert transport.flow is ctx.flow
    assert flows[0] is flows[2] is not flows[1]
    assert [flow.level.name for flow in flows[:2]] == ["global-default", "system"]


def test_the_thread_is_shared_by_seats_and_the_exempt_come_first() -> None:
    made, _ = with_turn()
    weights = {name: level.thread_level.weight for name, level in made.levels.items()}
    nominal = {name: level.nominal for name, level in made.levels.items() if not level.exempt}
    assert {name: weights[name] for name in nominal} == nominal
    assert weights["exempt"] >= 3 * sum(nominal.values()) * 0.95


@pytest.mark.parametrize(
    ("user", "original", "schema"),
    [
        (ADMIN, None, "exempt"),
        (ADMIN, ALICE, "global-default"),
        (MANAGER, ALICE, "global-default"),
        (NODE, account("kube-system", "x"), "global-default"),
        (account("kube-system", "x"), None, "global-default"),
        (UserInfo("system:bootstrap:abcdef", groups=("system:bootstrappers", AUTHENTICATED)), None, "global-default"),
        (ALICE, ADMIN, "exempt"),
        (ALICE, None, "global-default"),
        (ANONYMOUS, None, "global-default"),
    ],
)
def test_names_and_groups_of_a_logical_cluster_give_nothing(
    user: UserInfo, original: UserInfo | None, schema: str
) -> None:
    """Neither exemption nor another level: whom somebody impersonates there, and ServiceAccounts, are its own."""
    made = controller()
    check = priority_and_fairness(made, lambda resource: None, made._reactor)
    flows = set()
    for path in ("/api/v1/namespaces/x/pods", "/api/v1/namespaces/y/secrets"):
        ctx = request(path, user=user)
        ctx.cluster, ctx.original_user = "own", original
        assert check(ctx) is None
        assert isinstance(ctx.seats, Request)
        assert ctx.seats.schema == schema
        flows.add(ctx.seats.flow_hash)
    assert len(flows) == 1


def test_a_logical_cluster_is_one_flow() -> None:
    """However many users it has; its own probes wait with the rest of it."""
    made = controller()

    def seats(uri: str, user: UserInfo, cluster: str) -> Request:
        ctx = request(uri, user=user)
        ctx.cluster = cluster
        priority_and_fairness(made, lambda resource: None, made._reactor)(ctx)
        assert isinstance(ctx.seats, Request)
        return ctx.seats

    pods = "/api/v1/namespaces/x/pods"
    users = [
        *(account(f"n{number}", "a") for number in range(3)),
        *(UserInfo(f"u{n}", groups=(AUTHENTICATED,)) for n in range(3)),
    ]
    assert len({seats(pods, user, "own").flow_hash for user in users}) == 1
    assert len({seats(pods, user, cluster).flow_hash for user in users for cluster in ("own", "other")}) == 2
    assert seats("/healthz", users[0], "own").schema == "global-default"
    assert seats("/healthz", users[0], "").schema == "probes"


def test_reads_and_writes_of_a_user_are_two_flows_and_so_are_exempt_users() -> None:
    made, _ = with_turn()
    root, other = (UserInfo(name, groups=("system:masters",)) for name in ("root", "other"))

    def flow(user: UserInfo, method: str = "GET", uri: str = "/api/v1/namespaces/x/pods/p") -> Any:
        ctx = request(uri, method, user=user)
        assert ctx.info is not None
        return made.classify(ctx.info, user).flow

    assert flow(ALICE) is flow(ALICE, uri="/api/v1/namespaces/y/secrets?watch=1")
    assert flow(ALICE) is not flow(ALICE, "POST", "/api/v1/namespaces/x/pods")
    assert flow(ALICE, "POST", "/api/v1/namespaces/x/pods") is flow(ALICE, "DELETE")
    assert flow(root).level is flow(other).level
    assert flow(root) is not flow(other)


def test_a_request_waits_for_its_own_turn_when_its_connection_was_read_for_another_flow() -> None:
    """Leases and writes of a controller on one connection, which is read for the leases."""
    made, turn = with_turn()
    check = priority_and_fairness(made, lambda resource: None, made._reactor)
    lease, write = (
        request(uri, "PUT", user=MANAGER)
        for uri in ("/apis/coordination.k8s.io/v1/namespaces/x/leases/l", "/api/v1/namespaces/x/pods/p")
    )
    order: list[str] = []

    def read() -> None:
        for name, ctx in (("lease", lease), ("write", write)):
            answer = check(ctx)
            if answer is None:
                order.append(name)
            else:
                assert isinstance(answer, Deferred)
                answer.addCallback(lambda _, name=name: order.append(name))

    assert lease.info is not None
    turn.wait(read, made.classify(lease.info, MANAGER).flow)
    turn.wait(lambda: order.append("other"), Flow(made.levels["global-default"].thread_level))
    made._reactor.advance(0)
    assert order == ["lease", "other", "write"]


def test_a_watch_frees_its_seat_when_it_is_under_way() -> None:
    made = controller()
    check = priority_and_fairness(made, lambda resource: None, made._reactor)
    ctx = request("/api/v1/pods?watch=1", user=ALICE)
    assert check(ctx) is None
    assert ctx.release_seats is not None
    ctx.release_seats(ctx)
    assert made.levels["global-default"].queues.idle
    ctx.finishers[0](ctx, 200)
    assert check(request("/api/v1/namespaces/x/pods/p/log", user=ALICE)) is None
    assert made.levels["global-default"].queues.idle, "logs are not counted"


def test_watches_count_while_they_wait_and_until_they_are_under_way() -> None:
    made = controller()
    counted = Concurrency()
    check = priority_and_fairness(made, lambda resource: None, made._reactor, concurrency=counted)
    reads = counted.executing["readOnly"], counted.waiting["readOnly"]
    level = made.levels["global-default"]
    first = request("/api/v1/pods?watch=1", user=ALICE)
    assert check(first) is None
    assert [count.now for count in reads] == [1, 0]
    first.finishers[0](first, 200)
    first.finishers[0](first, 200)
    assert [count.now for count in reads] == [0, 0]
    running = []
    while level.queues.admit(one := made.request(made.classify(first.info, ALICE), WorkEstimate()), 0) == "":  # type: ignore[arg-type]
        running.append(one)
    watch = request("/api/v1/pods?watch=1", user=ALICE)
    waiting: Any = check(watch)
    begun = Deferred.fromCoroutine(waiting)
    assert [count.now for count in reads] == [0, 1]
    for one in running:
        level.queues.finish(one, 0.0)
    made._reactor.pump([0.1] * 10)
    assert begun.called and [count.now for count in reads] == [1, 0]
    watch.finishers[0](watch, 200)
    assert [count.now for count in reads] == [0, 0]
