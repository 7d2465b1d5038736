"""What a client that asks for a hundred times its share does to the answers of another one.

Both are service accounts, which priority and fairness puts into one level and tells apart by user.  The noisy one keeps a
hundred requests in flight, from a process of its own and with less claim to the CPU than the server; the quiet one sends
one request after another, with a pause between them.  It is timed alone and beside the noise in turns.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import statistics
import time

from tests.bench.cases import Bench, Row, small
from tests.bench.load import Connection, Target, drive

CONNECTIONS = 100
_PAUSE = 0.01  # seconds between two requests of the quiet client
_WARM = 1.0  # seconds of noise before the quiet client is timed


def fairness(bench: Bench) -> None:
    """A row for each kind of request of the quiet client and of the noisy one."""
    noisy, quiet = account(bench, "noisy"), account(bench, "quiet")
    for wanted in ("GET", "CREATE"):
        for noise in ("GET", "CREATE"):
            alone, beside = [], []
            for _ in range(bench.runs):
                alone.append(latencies(quiet, bench.base, wanted, bench.seconds))
                other = multiprocessing.Process(target=flood, args=(noisy, bench.base, noise, bench.seconds + _WARM))
                other.start()
                time.sleep(_WARM)
                beside.append(latencies(quiet, bench.base, wanted, bench.seconds))
                other.join()
            before, after = _p99(alone), _p99(beside)
            bench.add(
                Row(
                    f"{wanted} beside {CONNECTIONS} x {noise}",
                    after / before,
                    "x p99",
                    note=f"p50 {_p50(alone):.2f} -> {_p50(beside):.2f} ms, p99 {before:.2f} -> {after:.2f} ms",
                )
            )


def account(bench: Bench, name: str, role: str = "admin") -> Target:
    """A service account with the rights of ``role``, a ClusterRole, in the bench's namespace."""
    metadata = {"metadata": {"name": name}}
    granted = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": bench.namespace}
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{bench.namespace}/rolebindings"
    accounts = f"{bench.base}/serviceaccounts"
    for path, body in (
        (accounts, metadata),
        (bindings, {**metadata, "roleRef": granted, "subjects": [subject]}),
        (f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 3600}}),
    ):
        code, answer = bench.ask("POST", path, json.dumps(body).encode())
        assert code == 201, answer
    target = dataclasses.replace(bench.target, token=json.loads(answer)["status"]["token"])
    connection = Connection(target)
    while connection.roundtrip(target.request("GET", f"{bench.base}/configmaps/one"))[0] != 200:
        time.sleep(0.1)  # the binding is not in force yet
    connection.close()
    return target


def _request(target: Target, base: str, kind: str) -> bytes:
    if kind == "GET":
        return target.request("GET", f"{base}/configmaps/one")
    return target.request("POST", f"{base}/configmaps", small(f"f-{os.getpid()}-{time.monotonic_ns()}"))


def flood(target: Target, base: str, kind: str, seconds: float) -> None:
    os.nice(10)
    target.pids = ()
    drive(target, lambda n: _request(target, base, kind), CONNECTIONS, seconds)


def latencies(target: Target, base: str, kind: str, seconds: float) -> list[float]:
    """Milliseconds, sorted."""
    connection = Connection(target)
    connection.roundtrip(_request(target, base, "GET"))  # the handshake is not timed
    found = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        time.sleep(_PAUSE)
        data = _request(target, base, kind)
        begin = time.perf_counter()
        code, answer = connection.roundtrip(data)
        found.append((time.perf_counter() - begin) * 1000)
        assert code in (200, 201), answer
    connection.close()
    return sorted(found)


def _p50(runs: list[list[float]]) -> float:
    return statistics.median(run[len(run) // 2] for run in runs)


def _p99(runs: list[list[float]]) -> float:
    """The median of the runs': a single one may have met a busy neighbour."""
    return statistics.median(run[int(len(run) * 0.99)] for run in runs)
