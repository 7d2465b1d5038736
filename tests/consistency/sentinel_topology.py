"""Two servers on a primary with two replicas, watched by three Sentinels; every link can be cut.

Everybody reaches a store through its proxy, which tells links apart by the address a connection comes from.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.consistency.processes import DURABLE, Valkey, free_port
from tests.consistency.proxy import Proxy, to_port
from tests.consistency.recorder import FAILURES
from tests.consistency.recorder import Valkey as Connection
from tests.consistency.topology import Topology

MASTER = "consistency"
DOWN_AFTER = 700  # milliseconds
FAILOVER_TIMEOUT = 4000  # milliseconds
_POLL = 0.1  # seconds


class SentinelTopology(Topology):
    scenario = "sentinel"
    forks = True

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.primary = 0  # index of the store that the Sentinels name
        self.failovers = 0
        self.nodes: list[Valkey] = []
        self.sentinels: list[Valkey] = []
        self._watcher: asyncio.Task[None] | None = None
        ports = [free_port() for _ in range(3)]
        self.announced = ports
        for number, announced in enumerate(ports):
            settings: dict[str, Any] = {
                **DURABLE,
                "replica_announce_ip": "127.0.0.1",
                "replica_announce_port": announced,
                "bind_source_addr": f"127.0.0.{11 + number}",
                "repl_diskless_sync_delay": 0,
                "repl_timeout": 5,
                "repl_ping_replica_period": 1,
            }
            if number:
                settings["replicaof"] = f"127.0.0.1 {ports[0]}"
            self.nodes.append(Valkey(f"store{number}", directory, self.counts, **settings))
        self.sentinels = [self._sentinel(number) for number in range(3)]
        self.stores = [*self.nodes, *self.sentinels]
        before = [Proxy(free_port(), to_port(sentinel.port)) for sentinel in self.sentinels]
        hosts = ",".join(f"127.0.0.1:{proxy.port}" for proxy in before)
        for number in range(2):
            server = self.kapi(number, f"--redis-servers=redis+sentinel://{hosts}/{MASTER}")
            server.come_from(f"127.0.0.{31 + number}")
            self.servers.append(server)
            for which, proxy in enumerate(before):
                self.link(f"{server.name}-sentinel{which}", proxy, f"127.0.0.{31 + number}")
        sources = {f"store{n}": f"127.0.0.{11 + n}" for n in range(3)}
        sources |= {f"sentinel{n}": f"127.0.0.{21 + n}" for n in range(3)}
        sources |= {f"kapi{n}": f"127.0.0.{31 + n}" for n in range(2)}
        for number, announced in enumerate(ports):
            proxy = Proxy(announced, to_port(self.nodes[number].port))
            for name, source in sources.items():
                if name != f"store{number}":
                    self.link(f"{name}-store{number}", proxy, source)

    def _sentinel(self, number: int) -> Valkey:
        settings = {"bind_source_addr": f"127.0.0.{21 + number}"}
        made = Valkey(f"sentinel{number}", self.directory, self.counts, "--sentinel", **settings)
        text = made.configuration.read_text()
        made.configuration.write_text(
            f"{text}sentinel announce-ip 127.0.0.1\n"
            f"sentinel monitor {MASTER} 127.0.0.1 {self.announced[0]} 2\n"
            f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER}\n"
            f"sentinel failover-timeout {MASTER} {FAILOVER_TIMEOUT}\n"
            f"sentinel parallel-syncs {MASTER} 2\n"
        )
        return made

    async def where(self) -> int | str | None:
        return self.nodes[self.primary].port

    async def start(self) -> None:
        await super().start()
        self._watcher = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        await super().stop()

    async def stores_ready(self) -> None:
        await self.replicated(30.0)
        async with asyncio.timeout(120):
            while not await self._quorum():
                await asyncio.sleep(_POLL)

    async def _quorum(self) -> bool:
        """Whether the Sentinels know each other and the replicas."""
        for sentinel in self.sentinels:
            link = Connection(sentinel.port)
            try:
                flat = await link.ask("SENTINEL", "MASTER", MASTER)
            except FAILURES:
                return False
            finally:
                link.close()
            known = dict(zip(flat[::2], flat[1::2], strict=True))
            if known[b"num-other-sentinels"] != b"2" or known[b"num-slaves"] != b"2":
                return False
        return True

    async def replicated(self, patience: float, least: int = 2) -> bool:
        """Waits until the primary has its replicas; False when it never has."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        while loop.time() < deadline:
            link = Connection(self.nodes[self.primary].port)
            try:
                role = await link.ask("ROLE")
                if role[0] == b"master" and len(role[2]) >= least:
                    return True
            except FAILURES:
                pass
            finally:
                link.close()
            await asyncio.sleep(_POLL)
        return False

    async def _watch(self) -> None:
        """Follows what most Sentinels say."""
        links = [Connection(sentinel.port) for sentinel in self.sentinels]
        try:
            while True:
                votes: dict[int, int] = {}
                for link in links:
                    try:
                        reply = await link.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER, timeout=0.3)
                    except FAILURES:
                        continue
                    if reply and int(reply[1]) in self.announced:
                        node = self.announced.index(int(reply[1]))
                        votes[node] = votes.get(node, 0) + 1
                for node, count in votes.items():
                    if count >= 2 and node != self.primary:
                        self.primary = node
                        self.failovers += 1
                await asyncio.sleep(_POLL)
        finally:
            for link in links:
                link.close()
