"""One round: a fresh cluster, clients, faults one after the other, and at the end everything is explained.

The seed decides what clients and faults choose; how long things take it does not, so a repeated round is alike, not
the same.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.consistency import check_watches, resources
from tests.consistency.check_end import differing_items, differing_objects, differing_quota, unfinished
from tests.consistency.checker import Bounds, check
from tests.consistency.client import Client, revision_of
from tests.consistency.faults import Faults
from tests.consistency.history import History
from tests.consistency.recorder import Recorder
from tests.consistency.records import Journal, Listing, Selector
from tests.consistency.sentinel_topology import SentinelTopology
from tests.consistency.timeline import Timeline
from tests.consistency.topology import HISTORY_AGE, Clock, Disk, Embedded, External, Network, Topology, Workers
from tests.consistency.watchers import Watcher
from tests.consistency.workers import Worker, item_of

SCENARIOS: dict[str, type[Topology]] = {
    made.scenario: made for made in (Embedded, Workers, External, Network, Disk, Clock, SentinelTopology)
}
WORKERS, WATCHERS = 12, 10
MIN_WRITES = MIN_EVENTS = 51  # fewer show nothing: clients go on undisturbed until there are as many
MAX_MORE = 60.0  # seconds for that
RECOVERY = 45.0  # seconds until every server must accept writes again after a fault was mended
SLOW = 10.0  # seconds of a recovery that is named in the report
MAX_ERRORS = 50  # answers of 500 in the report
MAX_ERROR = 2000  # characters of one

_AFTERMATH = 1.0  # seconds in which what a fault did to a server may still show


@dataclass
class Result:
    """What one round did; ``violations`` is what it found."""

    scenario: str
    seed: int
    seconds: float = 0.0
    totals: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    verbs: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    recoveries: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # answers of replaced primaries
    told: list[str] = field(default_factory=list)  # the faults in order
    errors: list[str] = field(default_factory=list)  # answers of 500
    slow: list[str] = field(default_factory=list)  # recoveries of SLOW and more, each with its fault

    def summary(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "totals": dict(self.totals),
            "faults": dict(self.faults),
            "verbs": dict(self.verbs),
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "recoveries": [round(seconds, 2) for seconds in self.recoveries],
            "slow recoveries": self.slow,
            "errors": [text[:MAX_ERROR] for text in self.errors[:MAX_ERRORS]],
            "notes": self.notes,
            "violations": self.violations,
        }


class Prober(Worker):
    """Writes to one server, to see whether it is back."""

    async def elsewhere(self) -> None:
        self.connection.close()
        await asyncio.sleep(0.03)

    async def probe(self) -> None:
        name = f"probe{self.server}"
        key = f"{resources.CONFIG_MAP.prefix}a/{name}"
        await self._store("apply", resources.CONFIG_MAP, "a", name, key)


class Round:
    """Raises Unsupported when it is made on a machine that cannot do it.  ``pause`` is that of the workers."""

    def __init__(
        self,
        scenario: str,
        seed: int,
        seconds: float,
        directory: Path,
        without: Sequence[str] = (),
        pause: float = 0.0,
    ) -> None:
        self.rng = random.Random(seed)
        self.seconds = seconds
        self._pause = pause
        self.topology = SCENARIOS[scenario](directory)
        self.journal = Journal()
        self.result = Result(scenario, seed)
        self.recorder = Recorder(self.topology.where, self.topology.gate)
        self.recorder.keeps_gate_shut = True
        self.faults = Faults(self.topology, self.rng, without)
        self._noted: History | None = None
        self._clients: list[Client] = []
        self._probers: list[Prober] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> Result:
        begin = time.monotonic()
        recording: asyncio.Task[None] | None = None
        try:
            await self.topology.start()
            recording = asyncio.create_task(self.recorder.run())
            await self._prepare()
            self.recorder.keeps_gate_shut = False
            self._start_clients()
            await self._break_things()
            await self._go_on()
            await self._settle_down()
            await self._conclude()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.recorder.stop()
            if recording is not None:
                await recording
            self.recorder.close()
            await self.topology.stop()
            self.result.seconds = time.monotonic() - begin
        return self.result

    # -- before

    async def _prepare(self) -> None:
        """Namespaces, the custom resource and the quota, and that every server knows them."""
        ports = self.topology.ports
        timeout = self.topology.slow
        self._probers = [Prober(f"p{n}", ports, self.journal, n, timeout) for n in range(len(ports))]
        for number, prober in enumerate(self._probers):
            prober.server = number
        for namespace in (*resources.NAMESPACES, resources.QUOTA_NAMESPACE):
            await self._make("/api/v1/namespaces", {"metadata": {"name": namespace}})
        await self._make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", resources.DEFINITION)
        quota = f"/api/v1/namespaces/{resources.QUOTA_NAMESPACE}/resourcequotas"
        await self._make(quota, resources.RESOURCE_QUOTA)
        async with asyncio.timeout(240):
            for number in range(len(ports)):
                while await self._get(number, resources.WIDGET.path()) is None:
                    await asyncio.sleep(0.05)
                while not ((await self._get(number, f"{quota}/q") or {}).get("status") or {}).get("used"):
                    await asyncio.sleep(0.05)

    async def _make(self, path: str, body: Any) -> None:
        async with asyncio.timeout(240):
            while True:
                status, _ = await self._probers[0].ask("setup", "POST", path, body)
                if status in (201, 409):
                    return
                await self._probers[0].elsewhere()

    async def _get(self, server: int, path: str) -> Any:
        status, answer = await self._probers[server].ask("setup", "GET", path)
        return answer if status == 200 else None

    def _start_clients(self) -> None:
        kinds: list[type[Client]] = [Worker] * WORKERS + [Watcher] * WATCHERS
        for number, kind in enumerate(kinds):
            name = f"{'w' if kind is Worker else 'v'}{number}"
            seed = self.rng.randrange(1 << 30) * 2 + number % 2
            client = kind(name, self.topology.ports, self.journal, seed, self.topology.slow)
            if isinstance(client, Worker):
                client.pause = self._pause
            self._clients.append(client)
            self._tasks.append(asyncio.create_task(client.run()))  # type: ignore[attr-defined]

    # -- meanwhile

    async def _break_things(self) -> None:
        begin = time.monotonic()
        await asyncio.sleep(0.5)
        while time.monotonic() - begin < self.seconds:
            self._look_for_failures()
            chosen = [self.faults.choose() for _ in range(2 if self.rng.random() < 0.15 else 1)]
            if isinstance(self.topology, SentinelTopology):
                chosen = chosen[:1]
                await self.topology.replicated(15.0)
            shaken = asyncio.get_running_loop().time()
            at = time.monotonic() - begin
            for told in await asyncio.gather(*(fault(self.faults) for fault in dict.fromkeys(chosen))):
                self.result.told.append(f"{at:.1f} s {told}")
            for fault in chosen:
                self.result.faults[fault.__name__] += 1
            recovered = await self._recovered()
            self.topology.shaken.append((shaken, asyncio.get_running_loop().time() + _AFTERMATH))
            if not recovered:
                return
            await asyncio.sleep(self.rng.uniform(0.05, 0.5))

    def _look_for_failures(self) -> None:
        for task in self._tasks:
            if task.done() and task.exception() is not None:
                raise task.exception()  # type: ignore[misc]

    async def _recovered(self) -> bool:
        """Waits until every server accepts a write that began after now, and notes how long that took."""
        loop = asyncio.get_running_loop()
        mended, fault = loop.time(), self.result.told[-1]

        async def recovered(prober: Prober) -> bool:
            server = prober.server
            while self.journal.newest_write.get(server, 0.0) < mended:
                if loop.time() - mended > RECOVERY:
                    self.result.violations.append(f"kapi{server} accepts no write {RECOVERY:.0f} s after: {fault}")
                    return False
                await prober.probe()
            seconds = loop.time() - mended
            self.result.recoveries.append(seconds)
            if seconds >= SLOW:
                self.result.slow.append(f"kapi{server} {seconds:.1f} s at {loop.time():.2f} after: {fault}")
            return True

        return all(await asyncio.gather(*(recovered(prober) for prober in self._probers)))

    def little(self) -> str:
        """What has happened too rarely to show anything; empty: nothing."""
        writes = sum(write.done for write in self.journal.writes)
        if writes >= MIN_WRITES and self.journal.watch_events >= MIN_EVENTS and self.result.faults:
            return ""
        faults = self.result.faults.total()
        return f"{writes} acknowledged writes, {self.journal.watch_events} watch events, {faults} faults"

    async def _go_on(self) -> None:
        """On a slow machine few requests succeed between two faults."""
        end = time.monotonic() + MAX_MORE
        while self.little() and time.monotonic() < end:
            self._look_for_failures()
            await asyncio.sleep(0.05)

    # -- at the end

    async def _settle_down(self) -> None:
        """No more writes; every running watch is told of everything."""
        for client in self._clients:
            if isinstance(client, Worker):
                client.stopping = True
        workers = [task for task, client in zip(self._tasks, self._clients, strict=True) if isinstance(client, Worker)]
        await asyncio.wait(workers, timeout=self.topology.slow + 5)
        self._look_for_failures()
        await self.recorder.catch_up()

    def _history(self) -> History:
        """As far as it is noted."""
        changes, branches = self.recorder.changes, self.recorder.branches
        if self._noted is None or len(self._noted.branches) != len(branches):
            self._noted = History(changes, branches)
        else:
            self._noted.extend(changes[len(self._noted.states) :])
        return self._noted

    async def _conclude(self) -> None:
        result, journal = self.result, self.journal
        violations = result.violations
        violations += self.recorder.problems
        if self.recorder.branches and not self.topology.forks:
            violations.append(f"the store went back: {sum(map(len, self.recorder.branches))} changes are gone")
        if not any("accepts no write" in violation for violation in violations):
            violations += await self._caches_differ()
            violations += await self._unfinished_watches()
            violations += await self._quota_differs()
        for client in self._clients:
            client.stopping = True
            client.close()
        await self.recorder.catch_up()
        violations += await self._objects_differ()
        history = self._history()
        bounds = Bounds(HISTORY_AGE, resources.QUOTA, resources.QUOTA_NAMESPACE, self.topology.shaken)
        violations += check(history, journal, bounds)
        if little := self.little():
            violations.append(f"so little has happened that it shows nothing: {little}")
        self._count(history)

    async def _caches_differ(self) -> list[str]:
        """Every server answers from its cache what the store has, to the byte."""
        problems: list[str] = []
        newest = self.recorder.revision
        loop = asyncio.get_running_loop()
        for server, prober in enumerate(self._probers):
            for kind in resources.KINDS:
                query = f"?resourceVersion={newest}&resourceVersionMatch=NotOlderThan"
                deadline = loop.time() + RECOVERY
                while True:
                    start = loop.time()
                    status, answer = await prober.ask("list", "GET", kind.path() + query)
                    if status or start > deadline:
                        break
                    await asyncio.sleep(0.1)  # a failpoint may have been met only now
                if status != 200:
                    problems.append(f"kapi{server} answers {status} for {kind.resource} at the end: {answer}")
                    continue
                items = [item_of(obj) for obj in answer["items"]]
                listing = Listing(
                    kind.prefix,
                    Selector(),
                    "atleast",
                    newest,
                    server,
                    start,
                    loop.time(),
                    (revision_of(answer),),
                    items,
                )
                self.journal.listings.append(listing)
                await self.recorder.catch_up()
                problems += differing_items(self._history(), f"kapi{server}", answer["items"])
        return problems

    async def _unfinished_watches(self) -> list[str]:
        deadline = asyncio.get_running_loop().time() + 12.0
        history = self._history()
        streams = [
            client.stream for client in self._clients if isinstance(client, Watcher) and client.stream is not None
        ]
        while True:
            late = [
                (stream, missing)
                for stream in streams
                if stream.end > asyncio.get_running_loop().time()
                and (missing := unfinished(history, stream)) is not None
            ]
            if not late:
                return []
            if asyncio.get_running_loop().time() > deadline:
                return [
                    f"a watch of {stream.prefix} {tuple(stream.selector)} by kapi{stream.server}, last told of "
                    f"{stream.last}, is silent about {missing.key} at {missing.revision}"
                    for stream, missing in late
                ]
            await asyncio.sleep(0.1)

    async def _quota_differs(self) -> list[str]:
        """The usage that the quota shows is what is there, once it is counted anew.

        A charge of a write that was not done stays until then, as with kube-apiserver; another limit makes it happen.
        """
        namespace = resources.QUOTA_NAMESPACE
        path = f"/api/v1/namespaces/{namespace}/resourcequotas/q"
        deadline, attempt = asyncio.get_running_loop().time() + 40.0, 0
        while True:
            quota = await self._get(0, path)
            used = ((quota or {}).get("status") or {}).get("used") or {}
            await self.recorder.catch_up()
            problems = differing_quota(self._history(), namespace, used)
            if not problems or asyncio.get_running_loop().time() > deadline:
                return problems
            if attempt % 20 == 0:
                hard = {"spec": {"hard": {"count/leases": str(100 + attempt)}}}
                await self._probers[0].ask("setup", "PATCH", path, hard, "application/merge-patch+json")
            attempt += 1
            await asyncio.sleep(0.3)

    async def _objects_differ(self) -> list[str]:
        """The store's hash is what its history says."""
        for _ in range(5):
            objects = await self.recorder.objects()
            await self.recorder.catch_up()
            problems = differing_objects(self._history(), objects)
            if not problems:
                return []
            await asyncio.sleep(0.3)  # somebody wrote meanwhile
        return problems

    def _count(self, history: History) -> None:
        result, journal = self.result, self.journal
        timeline = Timeline(history, journal)
        old = sum(check_watches.is_old(gone, timeline, HISTORY_AGE) for gone in journal.gone)
        result.totals.update(
            {
                "operations": sum(journal.operations.values()),
                "acknowledged writes": sum(write.done for write in journal.writes),
                "unknown writes": sum(not write.done and not write.refused for write in journal.writes),
                "watches": len(journal.streams),
                "watch events": journal.watch_events,
                "revisions": history.last,
                "410 compacted": old,
                "410 after a new beginning": len(journal.gone) - old,
                "changes lost by fail-over": sum(map(len, self.recorder.branches)),
                "answers of replaced primaries": len(journal.replaced),
            }
        )
        result.notes = [text[:1000] for text in journal.replaced[:5]]
        result.totals.update(self.topology.counts)
        if isinstance(self.topology, SentinelTopology):
            result.totals["fail-overs"] = self.topology.failovers
        result.verbs.update(journal.operations)
        result.statuses.update(journal.statuses)
        result.errors += journal.errors
