"""What is done to the parts: each fault breaks something, waits and mends it."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tests.consistency.failpoints import POINTS
from tests.consistency.processes import Kapi, Supervised, Valkey
from tests.consistency.proxy import MODES
from tests.consistency.recorder import FAILURES, order
from tests.consistency.recorder import Valkey as Connection
from tests.consistency.sentinel_topology import MASTER, SentinelTopology
from tests.consistency.topology import Clock, Disk, Embedded, External, Topology, Workers

Fault = Callable[["Faults"], Awaitable[str]]


class Faults:
    """The faults of a topology, but for some.  Each answers what it did, for the log."""

    def __init__(self, topology: Topology, rng: random.Random, without: Sequence[str] = ()) -> None:
        self.topology = topology
        self.points = [point for point in POINTS if point not in without]
        self.rng = rng
        self.table: dict[Fault, int] = {
            Faults.kill_kapi: 6,
            Faults.stop_kapi: 1,
            Faults.end_kapi: 1,
            Faults.failpoint: 6,
        }
        if isinstance(topology, Embedded):
            self.table |= {Faults.kill_embedded: 6, Faults.stop_embedded: 1, Faults.kill_both: 2}
        if isinstance(topology, Workers):
            self.table |= {
                Faults.kill_worker: 10,
                Faults.stop_worker: 6,
                Faults.replace_workers: 2,
                Faults.kill_kapi: 2,
                Faults.failpoint: 0,
            }
        if isinstance(topology, External):
            self.table |= {Faults.kill_store: 8, Faults.stop_store: 1, Faults.flush_scripts: 2}
        if type(topology) is External:
            self.table[Faults.limit_memory] = 1
        if isinstance(topology, Disk):
            self.table |= {Faults.fill_disk: 16, Faults.limit_memory: 10}
        if isinstance(topology, Clock):
            # a start takes long: what replaces the clock cannot be forked
            self.table |= {Faults.step_clock: 12, Faults.kill_kapi: 1, Faults.failpoint: 1}
        if isinstance(topology, SentinelTopology):
            self.table = {
                Faults.kill_primary: 8,
                Faults.stop_primary: 3,
                Faults.isolate_primary: 4,
                Faults.ask_for_failover: 6,
                Faults.ask_one_that_is_not_heard: 4,
                Faults.kill_replica: 2,
                Faults.kill_sentinel: 1,
                Faults.kill_kapi: 3,
                Faults.failpoint: 2,
                Faults.break_link: 2,
                Faults.lose_sentinels: 2,
            }
        elif topology.links:
            self.table[Faults.break_link] = 30
        self.table = {fault: weight for fault, weight in self.table.items() if fault.__name__ not in without}

    def choose(self) -> Fault:
        return self.rng.choices(list(self.table), list(self.table.values()))[0]

    def _server(self) -> Kapi:
        return self.rng.choice(self.topology.servers)

    def _count(self, what: str) -> None:
        self.topology.counts[what] += 1

    async def _hold(self, least: float, most: float) -> float:
        seconds = self.rng.uniform(least, most)
        await asyncio.sleep(seconds)
        return seconds

    # -- servers

    async def kill_kapi(self) -> str:
        server = self._server()
        await server.end()
        self._count("kills of kapi")
        away = await self._hold(0, 0.2)
        await server.start()
        return f"kill {server.name} for {away:.2f} s"

    async def kill_worker(self) -> str:
        server = self._server()
        assert isinstance(server, Supervised)
        pids = server.worker_pids()
        if pids:
            _send(self.rng.choice(pids), signal.SIGKILL)
            self._count("kills of kapi")
        return f"kill one of {len(pids)} workers"

    async def stop_worker(self) -> str:
        """What the others write meanwhile it has not got when it goes on."""
        server = self._server()
        assert isinstance(server, Supervised)
        pids = server.worker_pids()
        if not pids:
            return "stop no worker"
        pid = self.rng.choice(pids)
        _send(pid, signal.SIGSTOP)
        seconds = await self._hold(0.05, 2.0)
        _send(pid, signal.SIGCONT)
        return f"stop one of {len(pids)} workers for {seconds:.2f} s"

    async def replace_workers(self) -> str:
        """Old and new ones serve at the same time."""
        server = self._server()
        server.send(signal.SIGUSR2)
        seconds = await self._hold(0.5, 4.0)
        return f"replace the workers, within {seconds:.2f} s"

    async def end_kapi(self) -> str:
        server = self._server()
        await server.end(signal.SIGTERM)
        await server.start()
        return f"terminate {server.name}"

    async def stop_kapi(self) -> str:
        server = self._server()
        server.send(signal.SIGSTOP)
        seconds = await self._hold(0.2, 4.0)
        server.send(signal.SIGCONT)
        return f"stop {server.name} for {seconds:.2f} s"

    async def failpoint(self) -> str:
        """Restarts a server that then acts at a failpoint; waits until it has, or long enough."""
        server = self._server()
        point = self.rng.choice(self.points)
        action = self.rng.choice(POINTS[point])
        once = point.startswith(("reset", "compact"))
        after = 1 if once else self.rng.randrange(20, 400)
        server.failpoint = (point, action, after, self.rng.uniform(0.05, 1.0))
        await server.end()
        self._count("kills of kapi")
        before = len(server.started_at)
        await server.start()
        deadline = asyncio.get_running_loop().time() + 4.0
        while len(server.started_at) < before + 2 and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.05)
        if action == "kill" and len(server.started_at) >= before + 2:
            self._count("kills of kapi")
            self._count("kills at failpoints")
        return f"failpoint {point} {action} after {after} in {server.name}"

    # -- the embedded store

    async def kill_embedded(self) -> str:
        pid = self._server().store_pid()
        if pid:
            _send(pid, signal.SIGKILL)
            self._count("kills of the store")
        return "kill embedded store"

    async def stop_embedded(self) -> str:
        pid = self._server().store_pid()
        seconds = 0.0
        if pid:
            _send(pid, signal.SIGSTOP)
            seconds = await self._hold(0.2, 3.0)
            _send(pid, signal.SIGCONT)
        return f"stop embedded store for {seconds:.2f} s"

    async def kill_both(self) -> str:
        server = self._server()
        pid = server.store_pid()
        if pid:
            _send(pid, signal.SIGKILL)
            self._count("kills of the store")
        await server.end()
        self._count("kills of kapi")
        await server.start()
        return "kill kapi and its store"

    # -- an external store

    @property
    def _external(self) -> External:
        assert isinstance(self.topology, External)
        return self.topology

    async def kill_store(self) -> str:
        store = self._external.store
        await store.end()
        self._count("kills of the store")
        away = await self._hold(0, 0.3)
        await store.start()
        return f"kill store for {away:.2f} s"

    async def stop_store(self) -> str:
        store = self._external.store
        store.send(signal.SIGSTOP)
        seconds = await self._hold(0.2, 4.0)
        store.send(signal.SIGCONT)
        return f"stop store for {seconds:.2f} s"

    async def flush_scripts(self) -> str:
        await order(self._external.store.port, "SCRIPT", "FLUSH")
        return "flush scripts"

    async def limit_memory(self) -> str:
        await order(self._external.store.port, "CONFIG", "SET", "maxmemory", "1mb")
        seconds = await self._hold(0.3, 1.5)
        await order(self._external.store.port, "CONFIG", "SET", "maxmemory", "0")
        return f"maxmemory for {seconds:.2f} s"

    async def fill_disk(self) -> str:
        assert isinstance(self.topology, Disk)
        full = self.topology.disk / "full"
        _fill(full)
        seconds = await self._hold(0.3, 1.5)
        full.unlink(missing_ok=True)
        return f"full disk for {seconds:.2f} s"

    async def step_clock(self) -> str:
        store = self._external.store
        process = self.rng.choice([*self.topology.servers, store])
        assert process.clock is not None
        step = self.rng.choice(("-7200", "+3600", "-5", "+5", "-86400", "+86400"))
        process.clock.write_text(f"{step}\n")
        seconds = await self._hold(0.5, 4.0)
        back = self.rng.random() < 0.7
        if back:
            process.clock.write_text("+0\n")
        return f"clock of {process.name} {step} for {seconds:.2f} s" + ("" if back else ", stays")

    # -- the network

    async def break_link(self) -> str:
        name = self.rng.choice(list(self.topology.links))
        mode = self.rng.choice(MODES)
        link = self.topology.links[name]
        link.set(mode)
        seconds = await self._hold(0.2, 4.0)
        link.set("pass")
        if mode in ("deaf", "mute"):
            link.reset()  # what was lost on the way would be missing in the stream of bytes
        return f"{mode} {name} for {seconds:.2f} s"

    # -- Sentinel

    @property
    def _sentinel(self) -> SentinelTopology:
        assert isinstance(self.topology, SentinelTopology)
        return self.topology

    async def _failed_over(self, before: int, patience: float = 12.0) -> bool:
        topology, loop = self._sentinel, asyncio.get_running_loop()
        deadline = loop.time() + patience
        while loop.time() < deadline:
            if topology.primary != before:
                return True
            await asyncio.sleep(0.05)
        return False

    async def _return(self, node: int) -> None:
        """A former primary follows the new one, by an operator's hand, sometimes by the Sentinels'."""
        topology = self._sentinel
        if topology.primary != node and self.rng.random() < 0.8:
            port = topology.announced[topology.primary]
            await order(topology.nodes[node].port, "REPLICAOF", "127.0.0.1", str(port))

    async def kill_primary(self) -> str:
        topology, node = self._sentinel, self._sentinel.primary
        store = topology.nodes[node]
        await store.end()
        self._count("kills of the store")
        done = await self._failed_over(node)
        if done:
            store.more = ["--replicaof", f"127.0.0.1 {topology.announced[topology.primary]}"]
        await store.start()
        return f"kill primary store{node}" + ("" if done else ", no fail-over")

    async def stop_primary(self) -> str:
        topology, node = self._sentinel, self._sentinel.primary
        topology.nodes[node].send(signal.SIGSTOP)
        done = await self._failed_over(node)
        await self._hold(0, 1.5)
        topology.nodes[node].send(signal.SIGCONT)
        await self._hold(0.5, 3)
        await self._return(node)
        return f"stop primary store{node}" + ("" if done else ", no fail-over")

    async def isolate_primary(self) -> str:
        """From Sentinels and replicas; from some of the servers, too."""
        topology, node = self._sentinel, self._sentinel.primary
        links = [
            link
            for name, link in topology.links.items()
            if name.endswith(f"-store{node}") and (not name.startswith("kapi") or self.rng.random() < 0.4)
        ]
        links += [link for name, link in topology.links.items() if name.startswith(f"store{node}-")]
        mode = self.rng.choice(("cut", "blackhole"))
        for link in links:
            link.set(mode)
        done = await self._failed_over(node)
        await self._hold(0, 2)
        for link in links:
            link.set("pass")
            link.reset()
        await self._hold(0.5, 3)
        await self._return(node)
        return f"isolate primary store{node} ({mode})" + ("" if done else ", no fail-over")

    async def lose_sentinels(self) -> str:
        """A server cannot reach its Sentinels; now and then the primary goes meanwhile."""
        server = self._server()
        links = [link for name, link in self.topology.links.items() if name.startswith(f"{server.name}-sentinel")]
        lost = links if self.rng.random() < 0.7 else links[:1]
        mode = self.rng.choice(("cut", "blackhole", "mute"))
        for link in lost:
            link.set(mode)
        told = await self.kill_primary() if self.rng.random() < 0.5 else ""
        seconds = await self._hold(0.2, 4.0)
        for link in lost:
            link.set("pass")
            link.reset()
        return f"{mode} {len(lost)} Sentinels of {server.name} for {seconds:.2f} s {told}".rstrip()

    async def ask_one_that_is_not_heard(self) -> str:
        """For a fail-over; the servers learn of it from the other Sentinels only."""
        topology = self._sentinel
        which = self.rng.randrange(len(topology.sentinels))
        links = [link for name, link in topology.links.items() if name.endswith(f"-sentinel{which}")]
        mode = self.rng.choice(("cut", "blackhole"))
        for link in links:
            link.set(mode)
        await self._hold(0, 2)
        told = await self.ask_for_failover(topology.sentinels[which])
        for link in links:
            link.set("pass")
            link.reset()
        return f"{told} by sentinel{which}, not heard ({mode})"

    async def ask_for_failover(self, sentinel: Valkey | None = None) -> str:
        topology, node = self._sentinel, self._sentinel.primary
        link = Connection((sentinel or self.rng.choice(topology.sentinels)).port)
        try:
            await link.ask("SENTINEL", "FAILOVER", MASTER)
        except FAILURES as error:
            return f"no fail-over: {error}"
        finally:
            link.close()
        done = await self._failed_over(node)
        return f"fail-over from store{node}" + ("" if done else ", which did not happen")

    async def kill_replica(self) -> str:
        topology = self._sentinel
        node = self.rng.choice([n for n in range(3) if n != topology.primary])
        await topology.nodes[node].end()
        self._count("kills of the store")
        await self._hold(0, 1)
        await topology.nodes[node].start()
        return f"kill replica store{node}"

    async def kill_sentinel(self) -> str:
        sentinel = self.rng.choice(self._sentinel.sentinels)
        await sentinel.end()
        self._count("kills of Sentinels")
        await self._hold(0, 1)
        await sentinel.start()
        return f"kill {sentinel.name}"


def _send(pid: int, number: int) -> None:
    import os

    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _fill(path: Path) -> None:
    """Takes all that is left of a small file system."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
