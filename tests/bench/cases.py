"""What is measured."""

from __future__ import annotations

import gzip
import json
import statistics
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.flames import Flames
from tests.bench.idle import idle
from tests.bench.load import Connection, Outcome, Target, drive
from tests.bench.watchers import fan_out
from tests.bench.webhooks import WebhookServer


@dataclass(slots=True)
class Row:
    """A measured line: the value with its unit, the spread over runs, CPU-microseconds of the server per operation."""

    name: str
    value: float
    unit: str
    spread: float = 0.0
    cpu: float | None = None
    note: str = ""


def small(name: str, number: int = 0) -> bytes:
    """A ConfigMap as most are: a few short keys."""
    data = {"mode": "fast", "level": "3", "number": str(number)}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).encode()


def configmap(name: str) -> bytes:
    data = {f"key-{index}": "value " * 12 for index in range(25)}  # about 2.6 kB as stored
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).encode()


def pod(name: str) -> bytes:
    container = {
        "name": "main", "image": "registry.example/app:1.2.3", "args": ["--verbose"],
        "env": [{"name": f"V{index}", "value": "x" * 20} for index in range(8)],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "ports": [{"containerPort": 8080}],
    }  # fmt: skip
    metadata = {"name": name, "labels": {"app": "bench", "tier": name[-1]}}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    ).encode()


class Bench:
    """All measurements against one server, in a namespace of its own."""

    def __init__(
        self, target: Target, *, seconds: float, runs: int, pods: int, say: Callable[[str], None], profile: str = ""
    ) -> None:
        self.flames = Flames(profile)
        self.target = target
        self.seconds = seconds
        self.runs = runs
        self.pods = pods
        self.say = say
        self.rows: list[Row] = []
        self.namespace = f"bench-{uuid.uuid4().hex[:6]}"
        self.base = f"/api/v1/namespaces/{self.namespace}"
        self._numbers = 0

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        connection = Connection(self.target)
        try:
            return connection.roundtrip(self.target.request(method, path, body, **headers))
        finally:
            connection.close()

    def add(self, row: Row) -> None:
        self.rows.append(row)
        cpu = f"  {row.cpu:8.0f} us CPU" if row.cpu is not None else ""
        self.say(f"{row.name:34} {row.value:12,.1f} {row.unit:10} ±{row.spread:.0f}%{cpu}  {row.note}")

    def prepare(self) -> None:
        body = json.dumps({"metadata": {"name": self.namespace}}).encode()
        assert self.ask("POST", "/api/v1/namespaces", body)[0] == 201
        account = f"{self.base}/serviceaccounts/default"
        for _ in range(100):
            if self.ask("GET", account)[0] == 200:
                break
            time.sleep(0.1)
        else:  # a server without the controller that makes it
            assert self.ask("POST", f"{self.base}/serviceaccounts", b'{"metadata":{"name":"default"}}')[0] == 201
        assert self.ask("POST", f"{self.base}/configmaps", configmap("one"))[0] == 201

    def clean(self) -> None:
        for kind in ("pods", "configmaps"):
            self.empty(kind)
        self.ask("DELETE", f"/api/v1/namespaces/{self.namespace}")

    def empty(self, kind: str) -> None:
        """Delete all of a kind, in slices that each fit a request's time."""
        while json.loads(self.ask("DELETE", f"{self.base}/{kind}?gracePeriodSeconds=0&limit=2000")[1])["items"]:
            pass

    def throughput(self, name: str, make: Callable[[int], bytes], levels: tuple[int, ...] = (1, 16, 64)) -> None:
        for level in levels:
            outcomes: list[Outcome] = []
            with self.flames.of(f"{name} {level}", self.target.pids):
                for _ in range(self.runs):
                    outcomes.append(drive(self.target, make, level, self.seconds))
            rates = [outcome.rate for outcome in outcomes]
            cpus = [outcome.cpu for outcome in outcomes]
            latencies = sorted(latency for outcome in outcomes for latency in outcome.latencies)
            failures = sum(outcome.failures for outcome in outcomes)
            note = f"p50 {latencies[len(latencies) // 2] * 1000:.2f} ms, p99 {latencies[int(len(latencies) * 0.99)] * 1000:.2f} ms"  # noqa: E501
            if failures:
                note += f", {failures} FAILED"
            self.add(
                Row(
                    f"{name}, {level} in flight",
                    statistics.median(rates),
                    "1/s",
                    _spread(rates),
                    _cpu(self.target, cpus),
                    note,
                )
            )

    def number(self) -> str:
        self._numbers += 1
        return f"n-{self._numbers:07d}"

    def requests(self) -> None:
        ask, base = self.target.request, self.base
        get = ask("GET", f"{base}/configmaps/one")
        self.throughput("GET ConfigMap 2.6 kB", lambda n: get)
        self.throughput("CREATE ConfigMap", lambda n: ask("POST", f"{base}/configmaps", small(self.number())))
        made = [f"n-{index:07d}" for index in range(1, self._numbers)]

        def update(n: int) -> bytes:
            name = made[n % len(made)]
            return ask("PUT", f"{base}/configmaps/{name}", small(name, n))

        self.throughput("UPDATE ConfigMap", update)
        self.throughput(
            "PATCH ConfigMap (merge)",
            lambda n: ask(
                "PATCH",
                f"{base}/configmaps/{made[n % len(made)]}",
                b'{"data":{"n":"%d"}}' % n,
                "application/merge-patch+json",
            ),
        )
        self.empty("configmaps")
        self.throughput("CREATE Pod", lambda n: ask("POST", f"{base}/pods", pod(self.number())), (1, 16))
        self.empty("pods")

    def webhooks(self) -> None:
        """Creates that a mutating and a validating webhook on this machine are asked about."""
        make = lambda n: self.target.request("POST", f"{self.base}/configmaps", small(self.number()))  # noqa: E731
        with WebhookServer() as hooks:
            for kind, name in (("Mutating", "mutate"), ("Validating", "validate")):
                path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations"
                body = hooks.configuration(f"{kind}WebhookConfiguration", name, self.namespace)
                code, answer = self.ask("POST", path, json.dumps(body).encode())
                assert code == 201, answer
            try:
                self._heed(f"{self.base}/configmaps")
                before = hooks.seen()
                self.throughput("CREATE, two webhooks", make, (1, 16))
                after = hooks.seen()
                asked, opened = (after[key] - before[key] for key in ("requests", "connections"))
                self.say(f"{asked} reviews over {opened} new connections")
            finally:
                for kind in ("mutating", "validating"):
                    path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{self.namespace}"
                    self.ask("DELETE", path)
        self.empty("configmaps")

    def _heed(self, path: str) -> None:
        """Waits until creates are mutated."""
        for _ in range(100):
            answer = self.ask("POST", path, small(self.number()))[1]
            if json.loads(answer)["metadata"].get("annotations"):
                return
            time.sleep(0.05)
        raise AssertionError("the webhook is not called")

    def lists(self) -> None:
        self.fill(self.pods)
        self.add(Row(f"memory with {self.pods} Pods", self.target.memory(), "MB"))
        path = f"{self.base}/pods"
        connection = Connection(self.target)
        for name, query, headers in (
            (f"LIST {self.pods} Pods", "?resourceVersion=0", {}),
            (f"LIST {self.pods} Pods, most recent", "", {}),
            (f"LIST {self.pods} Pods, gzip", "?resourceVersion=0", {"Accept_Encoding": "gzip"}),
        ):
            times, cpus, size = [], [], 0
            with self.flames.of(name, self.target.pids):
                for _ in range(self.runs):
                    before, begin = self.target.cpu(), time.perf_counter()
                    repeat = 5
                    for _ in range(repeat):
                        code, body = connection.roundtrip(self.target.request("GET", path + query, **headers))
                        assert code == 200, (code, body[:300])
                    times.append((time.perf_counter() - begin) / repeat * 1000)
                    cpus.append((self.target.cpu() - before) / repeat * 1e6)
                    size = len(body)
                    if headers:
                        gzip.decompress(body)
            self.add(
                Row(
                    name,
                    statistics.median(times),
                    "ms",
                    _spread(times),
                    _cpu(self.target, cpus),
                    f"{size / 1e6:.1f} MB",
                )
            )
        times, cpus = [], []
        for _ in range(self.runs):
            before, begin, token = self.target.cpu(), time.perf_counter(), ""
            while True:
                more = f"&continue={token}" if token else ""
                code, body = connection.roundtrip(self.target.request("GET", f"{path}?limit=500{more}"))
                assert code == 200
                token = json.loads(body)["metadata"].get("continue", "")
                if not token:
                    break
            times.append((time.perf_counter() - begin) * 1000)
            cpus.append((self.target.cpu() - before) * 1e6)
        connection.close()
        self.add(
            Row(
                f"LIST {self.pods} Pods, limit 500",
                statistics.median(times),
                "ms",
                _spread(times),
                _cpu(self.target, cpus),
            )
        )

    def fill(self, count: int) -> None:
        """Creates so many Pods."""
        connections = [Connection(self.target) for _ in range(8)]
        for start in range(0, count, 8):
            busy = connections[: min(8, count - start)]
            for connection in busy:
                connection.send(self.target.request("POST", f"{self.base}/pods", pod(self.number())))
            for connection in busy:
                assert connection.receive()[0] == 201
        for connection in connections:
            connection.close()

    def watches(self, levels: tuple[int, ...]) -> None:
        for level in levels:
            writes = max(20, min(400, 200_000 // level))
            with self.flames.of(f"fan-out {level}", self.target.pids):
                runs = [fan_out(self.target, f"{self.base}/configmaps", level, writes) for _ in range(self.runs)]
            rates = [run["rate"] for run in runs]
            middle = sorted(runs, key=lambda run: run["rate"])[len(runs) // 2]
            lost = sum(run["lost"] for run in runs)
            note = f"p50 {middle['p50']:.1f} ms, p99 {middle['p99']:.1f} ms" + (f", {lost:.0f} LOST" if lost else "")
            self.add(
                Row(
                    f"WATCH fan-out to {level}",
                    middle["rate"],
                    "events/s",
                    _spread(rates),
                    _cpu(self.target, [middle["cpu"]]),
                    note,
                )
            )

    def idle(self, count: int, seconds: float) -> None:
        """Memory and CPU of watches on which nothing happens but, a minute after their start, a bookmark."""
        found = idle(
            self.target, f"{self.base}/configmaps?watch=1&allowWatchBookmarks=true&timeoutSeconds=3600", count, seconds
        )
        missing = count - found["open"]
        note = f"{found['proportional']:.0f} MB proportional, {found['each']:.1f} kB each"
        self.add(
            Row(f"{count} idle watches", found["total"], "MB", note=note + (f", {missing:.0f} LOST" if missing else ""))
        )
        note = f"{found['cpu_before']:.1f} without them"
        self.add(Row(f"{count} idle watches, CPU", found["cpu"], "ms/s", note=note))


def _cpu(target: Target, values: list[float]) -> float | None:
    return statistics.median(values) if target.pids else None


def times(outcomes: Sequence[Outcome]) -> str:
    """The medians over the runs of their median and p99 latency; "" where none was measured."""
    if not all(outcome.latencies for outcome in outcomes):
        return ""
    ordered = [sorted(outcome.latencies) for outcome in outcomes]
    p50, p99 = (statistics.median(one[int(len(one) * part)] for one in ordered) * 1000 for part in (0.5, 0.99))
    return f"p50 {p50:.2f} ms, p99 {p99:.2f} ms"


def _spread(values: list[Any]) -> float:
    """Half the range, in percent of the median."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / 2 / middle * 100 if middle else 0.0
