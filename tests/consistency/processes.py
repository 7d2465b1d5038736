"""The processes under test: started, killed, stopped, started again."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from kapi.store.embedded import find_binary
from tests.store.servers import free_port

ROOT = Path(__file__).parents[2]
_AGAIN = 0.05  # seconds until what ended by itself is started again


class Process:
    """A process that is kept running: one that ends by itself is started again, as by systemd."""

    def __init__(self, name: str, counts: Counter[str]) -> None:
        self.name = name
        self.pid = 0
        self.started_at: list[float] = []
        self.counts = counts
        self._wanted = False
        self._one = asyncio.Lock()
        self._ended: asyncio.Future[None] | None = None
        self._keeper: asyncio.Task[None] | None = None

    async def spawn(self) -> tuple[int, asyncio.Future[None]]:
        """Starts it: process id, and what is done when it has ended."""
        raise NotImplementedError

    @property
    def alive(self) -> bool:
        return self._ended is not None and not self._ended.done()

    async def start(self) -> None:
        self._wanted = True
        await self._spawn()
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())

    async def _spawn(self) -> bool:
        """False when somebody else has done it meanwhile."""
        async with self._one:
            if self.alive:
                return False
            self.started_at.append(asyncio.get_running_loop().time())
            self.pid, self._ended = await self.spawn()
            return True

    async def _keep(self) -> None:
        while True:
            if self._ended is not None:
                await asyncio.wait([self._ended])
            await asyncio.sleep(_AGAIN)
            if self._wanted and not self.alive and await self._spawn():
                self.counts[f"{self.kind} ended by itself"] += 1

    @property
    def kind(self) -> str:
        return self.name.rstrip("0123456789")

    def send(self, number: int) -> None:
        if self.alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    async def end(self, number: int = signal.SIGKILL) -> None:
        """Ends it and waits; it stays away until ``start``."""
        self._wanted = False
        self.send(number)
        if number != signal.SIGKILL:
            self.send(signal.SIGCONT)
        if self._ended is not None:
            try:
                async with asyncio.timeout(120):
                    await asyncio.shield(self._ended)
            except TimeoutError:
                self.counts[f"{self.kind} did not end"] += 1
                self.send(signal.SIGKILL)
                await self._ended

    async def close(self) -> None:
        """For good."""
        await self.end()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)


async def execute(command: list[str], log: Path, environment: dict[str, str]) -> tuple[int, asyncio.Future[None]]:
    """A child with its output in a file.  It ends with this process, however that ends."""
    setpriv = shutil.which("setpriv")
    command = [setpriv, "--pdeathsig", "KILL", "--", *command] if setpriv else command
    with log.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=file, cwd=ROOT, env=environment
        )

    async def ended() -> None:
        await process.wait()

    return process.pid, asyncio.ensure_future(ended())


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


class Forge:
    """Starts servers by forking a process that has imported kapi."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._pids: asyncio.Queue[int] = asyncio.Queue()
        self._ended: dict[int, asyncio.Future[None]] = {}
        self._one = asyncio.Lock()

    async def start(self) -> None:
        with self._log.open("ab") as file:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.consistency.launch",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=file,
                cwd=ROOT,
                env=environment(),
            )
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        while line := await self._process.stdout.readline():
            told = json.loads(line)
            if "pid" in told:
                self._ended[told["pid"]] = asyncio.get_running_loop().create_future()
                self._pids.put_nowait(told["pid"])
            else:
                self._ended.pop(told["ended"]).set_result(None)
        for ended in self._ended.values():
            if not ended.done():
                ended.set_result(None)
        self._pids.put_nowait(0)

    async def fork(self, order: dict[str, Any]) -> tuple[int, asyncio.Future[None]]:
        assert self._process is not None and self._process.stdin is not None
        async with self._one:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            pid = await self._pids.get()
            if not pid:
                self._pids.put_nowait(0)
                raise RuntimeError(f"the process that forks servers has ended: {self._log.read_text()[-2000:]}")
            return pid, self._ended[pid]

    async def stop(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()
        if self._reader is not None:
            await self._reader


class Kapi(Process):
    """An API server.  ``failpoint`` is armed at the next start and forgotten."""

    def __init__(
        self, number: int, directory: Path, arguments: list[str], forge: Forge, gate: Path, counts: Counter[str]
    ) -> None:
        super().__init__(f"kapi{number}", counts)
        self.number = number
        self.port = free_port()
        self.directory = directory / self.name
        self.log = directory / f"{self.name}.log"
        self.failpoint: tuple[Any, ...] | None = None
        self.clock: Path | None = None  # of libfaketime
        self._arguments = [
            f"--data-dir={self.directory}", f"--secure-port={self.port}", "--bind-address=127.0.0.1", *arguments,
        ]  # fmt: skip
        self._forge = forge
        self._order = {"arguments": self._arguments, "log": str(self.log), "gate": str(gate), "source": ""}

    def come_from(self, source: str) -> None:
        self._order["source"] = source

    async def spawn(self) -> tuple[int, asyncio.Future[None]]:
        failpoint, self.failpoint = self.failpoint, None
        order = {**self._order, "failpoints": [failpoint] if failpoint else []}
        if self.clock is None:
            return await self._forge.fork(order)
        command = [sys.executable, "-m", "tests.consistency.launch", "--once", json.dumps(order)]
        return await execute(command, self.log, environment(**clock_environment(self.clock)))

    def store_pid(self) -> int:
        """Of its embedded server; 0 when there is none at the moment."""
        return next(iter(self._children(b"valkey")), 0)

    def _children(self, word: bytes) -> list[int]:
        """The processes that it has started and whose command line has the word."""
        found = []
        try:
            for child in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
                if word in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
        except OSError:
            pass
        return found


class Supervised(Kapi):
    """Several processes on one port, under a supervisor that runs their store.  It knows no failpoints.

    Nobody keeps them from trimming the history before it is noted: it has to stay for longer than an outage of the store.
    """

    async def spawn(self) -> tuple[int, asyncio.Future[None]]:
        return await execute([sys.executable, "-m", "kapi", *self._arguments], self.log, environment())

    def worker_pids(self) -> list[int]:
        return self._children(b"kapi.workers.worker")


def find_libfaketime() -> Path | None:
    return next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)


def clock_environment(file: Path) -> dict[str, str]:
    """The wall clock is stepped by what the file says; the monotonic one is left alone."""
    return {
        "LD_PRELOAD": str(find_libfaketime()),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


class Valkey(Process):
    """A Valkey server that syncs each write to disk; ``settings`` are those of its configuration file."""

    def __init__(self, name: str, directory: Path, counts: Counter[str], *extra: str, **settings: Any) -> None:
        super().__init__(name, counts)
        self.port = int(settings.pop("port", 0)) or free_port()
        self.directory = directory / name
        self.log = directory / f"{name}.log"
        self.directory.mkdir()
        self.clock: Path | None = None
        self._extra = list(extra)
        lines = [f"port {self.port}", "bind 127.0.0.1", f"dir {self.directory}"]
        lines += [f"{key.replace('_', '-')} {value}" for key, value in settings.items()]
        self.configuration = self.directory / "server.conf"
        self.configuration.write_text("\n".join(lines) + "\n")
        self.more: list[str] = []  # arguments of the next start only

    async def spawn(self) -> tuple[int, asyncio.Future[None]]:
        more, self.more = self.more, []
        command = [find_binary(), str(self.configuration), *self._extra, *more]
        clock = clock_environment(self.clock) if self.clock is not None else {}
        return await execute(command, self.log, environment(**clock))

    def wipe(self) -> None:
        """Forgets its data: a replica that comes back empty."""
        shutil.rmtree(self.directory / "appendonlydir", ignore_errors=True)


DURABLE = {"save": '""', "appendonly": "yes", "appendfsync": "always", "auto_aof_rewrite_percentage": 0}
