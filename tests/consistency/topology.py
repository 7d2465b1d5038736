"""Servers, stores and the links between them, by scenario."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

from tests.consistency.http_client import TOKEN
from tests.consistency.processes import (
    DURABLE,
    Forge,
    Kapi,
    Process,
    Supervised,
    Valkey,
    find_libfaketime,
    free_port,
)
from tests.consistency.proxy import Link, Proxy, to_port, to_socket
from tests.consistency.resources import NODE_PORTS

HISTORY_AGE = 3.0  # seconds; what is older is compacted
_COMMON = [
    f"--redis-compaction-interval={HISTORY_AGE}s",
    f"--service-node-port-range={NODE_PORTS[0]}-{NODE_PORTS[1]}",
    "--service-cluster-ip-range=10.0.0.0/26",
    "--min-request-timeout=60",
]


class Unsupported(Exception):
    """This machine cannot do what the scenario needs."""


class Topology:
    """``directory`` holds data and logs.  Servers and stores are there before ``start``."""

    scenario = ""
    forks = False  # whether the store may go back to what fewer servers knew
    slow = 10.0  # seconds a client waits for an answer

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.counts: Counter[str] = Counter()
        self.forge = Forge(directory / "forge.log")
        self.gate = directory / "gate"
        self.gate.write_text("")
        self.tokens = directory / "tokens.csv"
        self.tokens.write_text(f'{TOKEN},tester,1,"system:masters"\n')
        self.servers: list[Kapi] = []
        self.stores: list[Process] = []
        self.proxies: list[Proxy] = []
        self.links: dict[str, Link] = {}  # by what they connect
        #: from a fault's beginning until everybody is back: feeds may begin anew
        self.shaken: list[tuple[float, float]] = []

    @property
    def ports(self) -> list[int]:
        """Where clients find the servers."""
        return [server.port for server in self.servers]

    async def where(self) -> int | str | None:
        """The store as the recorder reaches it."""
        raise NotImplementedError

    def kapi(self, number: int, *arguments: str, made: type[Kapi] = Kapi) -> Kapi:
        every = [f"--token-auth-file={self.tokens}", *_COMMON, *arguments]
        return made(number, self.directory, every, self.forge, self.gate, self.counts)

    def link(self, name: str, proxy: Proxy, source: str = "") -> None:
        """A name for a link through a proxy, of all or of one source."""
        if source:
            proxy.links[source] = Link()
        self.links[name] = proxy.links[source] if source else proxy.link
        if proxy not in self.proxies:
            self.proxies.append(proxy)

    async def start(self) -> None:
        for proxy in self.proxies:
            await proxy.start()
        await self.forge.start()
        for store in self.stores:
            await store.start()
        await self.stores_ready()
        for server in self.servers:
            await server.start()

    async def stores_ready(self) -> None:
        """Waits until the stores can be used."""

    async def stop(self) -> None:
        for process in (*self.servers, *self.stores):
            await process.close()
        await self.forge.stop()
        for proxy in self.proxies:
            await proxy.stop()


class Embedded(Topology):
    """One server with its own store."""

    scenario = "embedded"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.servers = [self.kapi(0)]

    async def where(self) -> int | str | None:
        path = self.servers[0].directory / "store" / "valkey.sock"
        return str(path) if path.exists() else None


class Workers(Embedded):
    """Processes that share a port and a store of their own."""

    scenario = "workers"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        arguments = ["--workers=2", "--redis-compaction-interval=20s"]
        self.servers = [self.kapi(0, *arguments, made=Supervised)]


class External(Topology):
    """Two servers on one store."""

    scenario = "external"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.store = Valkey("store", directory, self.counts, **DURABLE)
        self.stores = [self.store]
        self.servers = [self.kapi(n, f"--redis-servers=redis://127.0.0.1:{self.store.port}") for n in range(2)]

    async def where(self) -> int | str | None:
        return self.store.port


class Network(External):
    """Two servers on one store; every connection goes through a proxy, one to the store through a unix socket."""

    scenario = "network"
    slow = 6.0

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.store.configuration.write_text(
            self.store.configuration.read_text() + f"unixsocket {directory}/store.sock\nunixsocketperm 700\n"
        )
        targets = [to_port(self.store.port), to_socket(f"{directory}/store.sock")]
        self.servers = []
        self._ports: list[int] = []
        for number, target in enumerate(targets):
            store = Proxy(free_port(), target)
            self.link(f"kapi{number}-store", store)
            server = self.kapi(number, f"--redis-servers=redis://127.0.0.1:{store.port}")
            clients = Proxy(free_port(), to_port(server.port))
            self.link(f"client-kapi{number}", clients)
            self.servers.append(server)
            self._ports.append(clients.port)

    @property
    def ports(self) -> list[int]:
        return self._ports


class Disk(External):
    """Two servers on a store whose disk is small and fills up; its memory has a bound at times."""

    scenario = "disk"
    size = 48  # megabytes

    def __init__(self, directory: Path) -> None:
        self.disk = directory / "disk"
        self.disk.mkdir()
        if os.geteuid():
            raise Unsupported("a small file system can be mounted by root only")
        command = ["mount", "-t", "tmpfs", "-o", f"size={self.size}m", "tmpfs", str(self.disk)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Unsupported(f"a small file system cannot be mounted: {done.stderr.strip()}")
        super().__init__(directory)
        self.store.configuration.write_text(
            self.store.configuration.read_text().replace(f"dir {self.store.directory}", f"dir {self.disk}")
        )

    async def stop(self) -> None:
        await super().stop()
        subprocess.run(["umount", str(self.disk)], check=False, capture_output=True)


class Clock(External):
    """Two servers and a store whose wall clocks are stepped, the monotonic ones not."""

    scenario = "clock"

    def __init__(self, directory: Path) -> None:
        if find_libfaketime() is None:
            raise Unsupported("libfaketime is not installed (Debian: faketime)")
        super().__init__(directory)
        for process in (self.store, *self.servers):
            process.clock = directory / f"{process.name}.clock"  # type: ignore[attr-defined]
            process.clock.write_text("+0\n")  # type: ignore[attr-defined]
