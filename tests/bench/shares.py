"""What is left to one client of a server that a hundred others saturate, and to the leases that a cluster lives by.

A service account keeps a hundred connections busy with GETs from a process of its own.  Beside it, on one HTTP/2 connection,
a client creates ConfigMaps: as another service account or the same one, and in system:masters, which is exempt.  And the
leases of a hundred nodes, the scheduler and the controller manager are renewed as in a cluster: what counts there is the
longest wait.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.bench.cases import Bench, Row, small
from tests.bench.fairness import CONNECTIONS, account, flood
from tests.bench.http2 import Request, block, drive_http2
from tests.bench.load import Answer, Connection, Outcome, Polled, Target, arrived

NODES = 100
_WARM = 1.5  # seconds of noise before somebody is timed
_NODE_PERIOD, _LEADER_PERIOD = 10.0, 2.0  # seconds between two renewals, as the kubelet's and client-go's default
_LEADERS = ("system:kube-scheduler", "system:kube-controller-manager")
_PROTOCOLS = ("HTTP/1.1", "HTTP/2")


def shares(bench: Bench) -> None:
    """A row for each writer beside each kind of noise, and one for the leases."""
    crowd, writer, masters = account(bench, "crowd"), account(bench, "writer"), bench.target
    leases = _leases(bench)
    alone: dict[tuple[str, int], Outcome] = {}
    for protocol in _PROTOCOLS:
        for who, target, streams, others, noisy in (
            ("account", writer, 20, "another's", crowd),
            ("account", writer, 20, "its own", writer),
            ("masters", masters, 20, "an account's", crowd),
            ("masters", masters, 20, "its own", masters),
            ("masters", masters, 1, "its own", masters),
        ):
            if (who, streams) not in alone:
                alone[who, streams] = _middle([_write(target, bench, streams) for _ in range(bench.runs)])
            beside = []
            for _ in range(bench.runs):
                noise = _noise(noisy, bench, protocol)
                beside.append(_write(target, bench, streams))
                noise.join()
            after, before = _middle(beside), alone[who, streams]
            note = f"{before.rate:,.0f} alone"
            if bench.target.pids:  # what a busy machine does to both is not the server's doing
                note += f"; of the server's CPU {before.cpu / after.cpu:.0%}, a second of it is {1e6 / after.cpu:,.0f} POSTs"
            name = f"POST {who}, {streams} in flight, {CONNECTIONS} x {protocol} {others}"
            bench.add(Row(name, after.rate, "1/s", note=note))
        _connect(bench, leases)
        noise = _noise(crowd, bench, protocol)
        waits = sorted(renew(bench, leases, bench.seconds))
        noise.join()
        for lease in leases:
            lease.connection.close()
        note = f"p50 {waits[len(waits) // 2] * 1000:.0f} ms, {len(waits)} renewals"
        bench.add(Row(f"longest lease renewal, {CONNECTIONS} x {protocol}", waits[-1] * 1000, "ms", note=note))
    _forget(bench, leases)
    bench.empty("configmaps")


def _middle(outcomes: list[Outcome]) -> Outcome:
    return sorted(outcomes, key=lambda outcome: outcome.rate)[len(outcomes) // 2]


def _write(target: Target, bench: Bench, streams: int) -> Outcome:
    creation = block(target, "POST", f"{bench.base}/configmaps")
    first = time.monotonic_ns()
    target.pids = bench.target.pids
    outcome = drive_http2(
        target,
        lambda n: Request(creation, small(f"s-{os.getpid()}-{first}-{n}")),
        1,
        streams,
        bench.seconds,
    )
    assert not outcome.failures, f"{outcome.failures} failed"
    return outcome


def _noise(target: Target, bench: Bench, protocol: str) -> multiprocessing.Process:
    """The hundred, warmed up."""
    seconds = bench.seconds + 2 * _WARM
    work: Callable[..., None] = flood if protocol == "HTTP/1.1" else _flood2
    process = multiprocessing.Process(target=work, args=(target, f"{bench.base}", "GET", seconds))
    process.start()
    time.sleep(_WARM)
    return process


def _flood2(target: Target, base: str, kind: str, seconds: float) -> None:
    os.nice(10)
    target.pids = ()
    get = Request(block(target, kind, f"{base}/configmaps/one"))
    drive_http2(target, lambda n: get, CONNECTIONS, 1, seconds)


@dataclass(slots=True)
class _Lease:
    """Renewed every ``period`` seconds; ``due`` next at this time of perf_counter."""

    path: str
    headers: dict[str, str]
    period: float
    state: bytes  # the object as the server has answered it last
    connection: Connection = field(init=False)
    due: float = 0.0
    sent: float = 0.0  # 0 while nothing is under way

    def renewal(self, target: Target) -> bytes:
        lease = json.loads(self.state)
        lease["spec"]["renewTime"] = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        return target.request("PUT", self.path, json.dumps(lease).encode(), **self.headers)


def renew(bench: Bench, leases: list[_Lease], seconds: float) -> list[float]:
    """Seconds that each renewal took; a client that still waits does not ask again."""
    of = {lease.connection: lease for lease in leases}
    polled = Polled(of)
    now = time.perf_counter()
    for position, lease in enumerate(leases):
        lease.due = now + lease.period * position / len(leases)
    waits: list[float] = []
    end = now + seconds
    while now < end or any(lease.sent for lease in leases):
        for lease in leases:
            if lease.due <= now < end and not lease.sent:
                lease.connection.send(lease.renewal(bench.target))
                lease.sent, lease.due = now, max(lease.due + lease.period, now)
        for connection in polled.ready(0.005):
            for data in arrived(connection):
                if not data:
                    raise ConnectionError("the server closed the connection")
                answer, lease = connection.answer, of[connection]
                if answer.feed(data):
                    body = b"".join(answer.parts)
                    assert answer.status == 200, body
                    waits.append(time.perf_counter() - lease.sent)
                    lease.sent, lease.state, connection.answer = 0.0, body, Answer()
        now = time.perf_counter()
        if now > end + 60:
            raise TimeoutError("leases are not renewed")
    return waits


def _leases(bench: Bench) -> list[_Lease]:
    """Those of nodes and of components that elect a leader."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{bench.namespace}"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "leaders"}
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}]
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user} for user in _LEADERS]
    for path, body in (
        (f"{rbac}/roles", {"metadata": {"name": "leaders"}, "rules": rules}),
        (f"{rbac}/rolebindings", {"metadata": {"name": "leaders"}, "roleRef": role, "subjects": subjects}),
    ):
        code, answer = bench.ask("POST", path, json.dumps(body).encode())
        assert code == 201, answer
    found = []
    for number in range(NODES):
        name = f"{bench.namespace}-{number}"
        headers = {"Impersonate_User": f"system:node:{name}", "Impersonate_Group": "system:nodes"}
        found.append(_lease(bench, "kube-node-lease", name, headers, _NODE_PERIOD))
    for user in _LEADERS:
        name = user.removeprefix("system:")
        found.append(_lease(bench, bench.namespace, name, {"Impersonate_User": user}, _LEADER_PERIOD))
    return found


def _lease(bench: Bench, namespace: str, name: str, headers: dict[str, str], period: float) -> _Lease:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    body = {"metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}}
    code, answer = bench.ask("POST", path, json.dumps(body).encode())
    assert code == 201, answer
    return _Lease(f"{path}/{name}", headers, period, answer)


def _connect(bench: Bench, leases: list[_Lease]) -> None:
    """A connection for each that the server knows: just before it is needed, since a server closes idle ones."""
    context = bench.target.context()
    for lease in leases:
        lease.connection = Connection(bench.target, context)
        for _ in range(100):
            code, answer = lease.connection.roundtrip(lease.renewal(bench.target))
            if code == 200:
                break
            time.sleep(0.1)  # the binding is not in force yet
        else:
            raise AssertionError(answer)
        lease.state = answer


def _forget(bench: Bench, leases: list[_Lease]) -> None:
    for lease in leases:
        bench.ask("DELETE", lease.path)
