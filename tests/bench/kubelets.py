"""What a cluster of simulated kubelets costs a server, and how long its kubelets wait.

Each has a Node, a Lease that it renews every ten seconds and a watch of the Pods on its Node.  Meanwhile Pods come and go, as
many a second as upstream's scalability tests allow a scheduler (clusterloader2's load test): each is created, bound to a node,
reported as running and deleted, with the Events that a scheduler and a kubelet tell of it.
All of that is asked for at its time, whether earlier answers have come or not.

Then 300 Pods come at once, each with a token of its ServiceAccount, on an otherwise idle machine and beside four processes that
want a core each.  The second time is also told as it were if the server had not stood in line for a core.
"""

from __future__ import annotations

import heapq
import json
import multiprocessing
import re
import statistics
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.bench.cases import Bench, Row, pod
from tests.bench.load import Answer, Connection, Polled, Target, arrived, cpu_seconds
from tests.bench.stall_observer import Waits

_LEASE_PERIOD = 10.0  # seconds, the kubelet's default
_PODS_A_SECOND = 10.0
_RUN = 30.0  # seconds
_CONNECTIONS = 32
_LONGEST = 60.0  # seconds for what is under way at the end
_ROLLOUT = 300  # Pods that come at once
_BUSY = 4  # processes that want a core each
_BOUND = re.compile(rb'"bound-at":"([0-9.]+)"')


def kubelets(bench: Bench, counts: list[int], events: int) -> None:
    """``counts``: how many there are, rising; ``events``: of each Pod."""
    for count in counts:
        cluster = _Cluster(bench, count, events)
        try:
            cluster.run()
            cluster.roll_out()
        finally:
            cluster.remove()


@dataclass(slots=True)
class _Job:
    """Requests of one kubelet or Pod that follow each other; what each takes is noted under its kind."""

    requests: Iterator[tuple[str, bytes]]
    kind: str = ""


class _Cluster:
    def __init__(self, bench: Bench, count: int, events: int) -> None:
        self._bench = bench
        self._target = bench.target
        self._count = count
        self._events = events
        self._names = [f"{bench.namespace}-{count}-{number}" for number in range(count)]
        self._took: dict[str, list[float]] = {}
        self._failures = 0

    def run(self) -> None:
        for name in self._names:
            self._made("/api/v1/nodes", {"metadata": {"name": name}})
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40}
            self._made(_LEASES, {"metadata": {"name": name}, "spec": spec})
        here, there = multiprocessing.Pipe()
        paths = [f"/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3D{name}" for name in self._names]
        watchers = multiprocessing.Process(target=_watch, args=(self._target, paths, there), daemon=True)
        watchers.start()
        there.close()  # so that the end of the process is seen
        assert here.recv() == "ready"
        before, begin = self._target.cpu_of_each(), time.perf_counter()
        self._drive(self._schedule())
        took = time.perf_counter() - begin
        used = {name: (cpu - before[name]) / took * 1000 for name, cpu in self._target.cpu_of_each().items()}
        here.send("stop")
        delays = here.recv()
        watchers.join(30)
        self._tell(used, delays)

    def roll_out(self) -> None:
        """Seconds from the first request to the last answer."""
        of = f"{self._count} kubelets, {_ROLLOUT} Pods at once"
        self._bench.add(Row(of, statistics.median(self._rolled_out()[0] for _ in range(self._bench.runs)), "s"))
        crowd = [multiprocessing.Process(target=_work, daemon=True) for _ in range(_BUSY)]
        for process in crowd:
            process.start()
        found = sorted(self._rolled_out() for _ in range(self._bench.runs))
        for process in crowd:
            process.kill()
        took, share = found[len(found) // 2]
        note = f"the server had a core for {share:.0%} of the time for which it wanted one"
        self._bench.add(Row(f"{of}, beside {_BUSY} busy processes", took, "s", note=note))
        self._bench.add(Row(f"{of}, beside {_BUSY}, scaled by that", took * share, "s"))

    def _rolled_out(self) -> tuple[float, float]:
        """Seconds, and the share of a core that the server got while it wanted one."""
        waits = Waits(self._target.pids[:1])
        self._bench.empty("pods")
        names = [self._names[number % self._count] for number in range(_ROLLOUT)]
        used, waited, begin = cpu_seconds(self._target.pids[0]), waits.now().waited, time.perf_counter()
        self._drive([(0.0, order, _Job(self._start(name))) for order, name in enumerate(names)])
        took = time.perf_counter() - begin
        used, waited = cpu_seconds(self._target.pids[0]) - used, waits.now().waited - waited
        return took, used / (used + waited)

    def _tell(self, cpu: dict[str, float], delays: list[float]) -> None:
        add, of = self._bench.add, f"{self._count} kubelets"
        note = f"{_PODS_A_SECOND:.0f} Pods a second come and go, {self._events} Events of each"
        add(Row(f"{of}, CPU", sum(cpu.values()), "ms/s", note=f"{self._failures} FAILED" if self._failures else note))
        for name, share in cpu.items():
            add(Row(f"{of}, CPU of {name}", share, "ms/s"))
        add(Row(f"{of}, memory", self._target.memory(), "MB"))
        for kind, times in (*self._took.items(), ("bound, until the kubelet knows", delays)):
            times.sort()
            note = f"p99 {times[int(len(times) * 0.99)] * 1000:.1f} ms, longest {times[-1] * 1000:.1f} ms, {len(times)} times"
            add(Row(f"{of}, {kind}", statistics.median(times) * 1000, "ms", note=note))

    def _made(self, path: str, body: dict[str, Any]) -> None:
        code, answer = self._bench.ask("POST", path, json.dumps(body).encode())
        assert code == 201, answer

    def _schedule(self) -> list[tuple[float, int, _Job]]:
        """When each job begins, in seconds."""
        times: list[tuple[float, _Job]] = []
        for number, name in enumerate(self._names):
            due = _LEASE_PERIOD * number / self._count
            while due < _RUN:
                times.append((due, _Job(self._renewal(name))))
                due += _LEASE_PERIOD
        for number in range(int(_RUN * _PODS_A_SECOND)):
            times.append((number / _PODS_A_SECOND, _Job(self._life(self._names[number % self._count]))))
        return [(due, order, job) for order, (due, job) in enumerate(sorted(times, key=lambda pair: pair[0]))]

    def _renewal(self, name: str) -> Iterator[tuple[str, bytes]]:
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        body = json.dumps({"spec": {"renewTime": now}}).encode()
        yield "renewal of a Lease", self._target.request("PATCH", f"{_LEASES}/{name}", body, _MERGE)

    def _life(self, node: str) -> Iterator[tuple[str, bytes]]:
        request, base, name = self._target.request, f"{self._bench.base}/pods", self._bench.number()
        yield "CREATE Pod", request("POST", base, pod(name))
        metadata = {"name": name, "annotations": {"bound-at": str(time.time())}}
        binding = {"metadata": metadata, "target": {"kind": "Node", "name": node}}
        yield from self._told(name, self._events // 2)
        yield "binding", request("POST", f"{base}/{name}/binding", json.dumps(binding).encode())
        status = {"status": {"phase": "Running", "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}}
        yield "status of a Pod", request("PATCH", f"{base}/{name}/status", json.dumps(status).encode(), _MERGE)
        yield from self._told(name, self._events - self._events // 2)
        yield "DELETE Pod", request("DELETE", f"{base}/{name}?gracePeriodSeconds=0")

    def _start(self, node: str) -> Iterator[tuple[str, bytes]]:
        """A Pod that stays."""
        request, base, name = self._target.request, f"{self._bench.base}/pods", self._bench.number()
        yield "CREATE Pod", request("POST", base, pod(name))
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        yield "binding", request("POST", f"{base}/{name}/binding", json.dumps(binding).encode())
        yield "GET Pod", request("GET", f"{base}/{name}")
        token = {"spec": {"expirationSeconds": 3600, "audiences": None}}
        yield "token", request("POST", f"{self._bench.base}/serviceaccounts/default/token", json.dumps(token).encode())
        for phase in ("Pending", "Running"):
            status = {"status": {"phase": phase, "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}}
            yield "status of a Pod", request("PATCH", f"{base}/{name}/status", json.dumps(status).encode(), _MERGE)
        yield from self._told(name, self._events)

    def _told(self, name: str, count: int) -> Iterator[tuple[str, bytes]]:
        about = {"kind": "Pod", "apiVersion": "v1", "name": name, "namespace": self._bench.namespace}
        source = {"component": "kubelet", "host": "node"}
        for _ in range(count):
            body = {"metadata": {"name": f"{name}.{self._bench.number()}"}, "involvedObject": about, "type": "Normal"}
            body |= {"reason": "Pulled", "source": source, "message": "Container image is already present on machine"}
            yield "CREATE Event", self._target.request("POST", f"{self._bench.base}/events", json.dumps(body).encode())

    def _drive(self, schedule: list[tuple[float, int, _Job]]) -> None:
        """Latencies count from the time at which a request was due."""
        context = self._target.context()
        free = deque(Connection(self._target, context) for _ in range(_CONNECTIONS))
        polled = Polled(free)
        busy: dict[Connection, tuple[_Job, float]] = {}
        waiting: deque[tuple[_Job, float]] = deque()
        heapq.heapify(schedule)
        begin = time.perf_counter()
        while schedule or waiting or busy:
            now = time.perf_counter()
            if now > begin + _RUN + _LONGEST:
                raise TimeoutError(f"{len(busy) + len(waiting)} requests are not answered")
            while schedule and schedule[0][0] <= now - begin:
                due, _, job = heapq.heappop(schedule)
                waiting.append((job, begin + due))
            while waiting and free:
                job, due = waiting.popleft()
                step = next(job.requests, None)
                if step is None:
                    continue
                job.kind = step[0]
                connection = free.popleft()
                connection.send(step[1])
                busy[connection] = job, due
            for connection in polled.ready(0.005):
                for data in arrived(connection):
                    if not data:
                        raise ConnectionError("the server closed the connection")
                    if connection.answer.feed(data):
                        job, due = busy.pop(connection)
                        now = time.perf_counter()
                        self._took.setdefault(job.kind, []).append(now - due)
                        self._failures += not 200 <= connection.answer.status < 300
                        connection.answer = Answer()
                        free.append(connection)
                        waiting.append((job, now))
        for connection in free:
            connection.close()

    def remove(self) -> None:
        self._bench.empty("pods")
        self._bench.empty("events")
        for name in self._names:
            self._bench.ask("DELETE", f"/api/v1/nodes/{name}")
            self._bench.ask("DELETE", f"{_LEASES}/{name}")


_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_MERGE = "application/merge-patch+json"


def _work() -> None:
    while True:
        pass


def _watch(target: Target, paths: list[str], pipe: Any) -> None:
    """Holds a watch for each path until told to stop; says how long each Pod's binding took to arrive, in seconds."""
    context = target.context()
    streams = []
    for path in paths:
        connection = Connection(target, context)
        connection.send(target.request("GET", path))
        streams.append(connection)
    polled = Polled(streams)
    pipe.send("ready")
    delays: list[float] = []
    while not pipe.poll():
        for connection in polled.ready(0.2):
            for data in arrived(connection):
                if not data:
                    polled.forget(connection)
                    break
                if b'"type":"ADDED"' in data:  # with the binding the Pod comes into the kubelet's view
                    delays += [time.time() - float(at) for at in _BOUND.findall(data)[:1]]
    pipe.send(delays)
