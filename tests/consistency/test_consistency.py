"""Clients on two API servers over one store, while everything is killed and frozen: one history explains every answer.

``KAPI_CONSISTENCY_SECONDS`` makes it longer, ``KAPI_CONSISTENCY_SEED`` repeats the faults and the clients' choices.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable

from twisted.internet import reactor
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from kapi.store.factory import external_store
from kapi.store.interface import Change
from tests.consistency.checker import Checker
from tests.consistency.clients import Client, Journal, Watcher, Worker
from tests.consistency.cluster import Cluster
from tests.store.contract import Recorder

SECONDS = float(os.environ.get("KAPI_CONSISTENCY_SECONDS", "12"))
SEED = int(os.environ.get("KAPI_CONSISTENCY_SEED", str(random.randrange(1 << 30))))
WORKERS, WATCHERS = 6, 3


class Load:
    """The clients and the faults; blocks, so it runs in a thread."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.journal = Journal()
        self.stop = threading.Event()
        self.rng = random.Random(SEED)
        self.faults: list[str] = []

    def run(self) -> None:
        kinds: list[type[Client]] = [Worker] * WORKERS + [Watcher] * WATCHERS
        clients = [
            kind(self.cluster, self.journal, self.rng.randrange(1 << 20) * 2 + n % 2, self.stop)
            for n, kind in enumerate(kinds)
        ]
        self._wait_for_servers()
        for client in clients:
            client.start()
        self._break_things(time.monotonic() + SECONDS)
        self._wait_for_servers()  # all that was killed has come back
        time.sleep(2)
        self.stop.set()
        for client in clients:
            client.join(40)
            if client.is_alive():
                raise AssertionError("a client hangs")
            if client.failure is not None:
                raise client.failure

    def told(self) -> str:
        """What was done to whom, in order."""
        return "faults: " + (", ".join(self.faults) or "none")

    def _wait_for_servers(self) -> None:
        for number in range(len(self.cluster.servers)):
            probe = Worker(self.cluster, Journal(), number, self.stop)
            deadline = time.monotonic() + 60
            while True:
                probe._server = number
                self.cluster.store.revive()
                self.cluster.servers[number].revive()
                try:
                    if probe.ask("GET", "/api/v1/namespaces/default")[0] == 200:
                        break
                except FileNotFoundError:
                    pass  # its CA is not made yet
                if time.monotonic() > deadline:
                    raise AssertionError(f"a server does not start:\n{self.cluster.logs()}")
                time.sleep(0.1)
            probe.disconnect()

    def _break_things(self, until: float) -> None:
        cluster, rng = self.cluster, self.rng

        def kill_server() -> str:
            number = rng.randrange(len(cluster.servers))
            cluster.servers[number].kill()
            cluster.servers[number].start()
            return f"kill api{number}"

        def kill_store() -> str:
            cluster.store.kill()
            away = rng.uniform(0, 0.3)
            time.sleep(away)
            cluster.store.start()
            return f"kill store for {away:.2f} s"

        def freeze_server() -> str:
            number, seconds = rng.randrange(len(cluster.servers)), rng.uniform(0.2, 1.0)
            cluster.servers[number].freeze(seconds)
            return f"freeze api{number} for {seconds:.2f} s"

        def freeze_store() -> str:
            seconds = rng.uniform(0.2, 1.0)
            cluster.store.freeze(seconds)
            return f"freeze store for {seconds:.2f} s"

        faults: list[Callable[[], str]] = [kill_server, kill_store, freeze_server, freeze_store]
        begin = time.monotonic()
        rng.shuffle(faults)
        while time.monotonic() < until:
            time.sleep(rng.uniform(0.8, 1.5))
            fault = faults.pop(0)
            faults.append(fault)
            at = time.monotonic() - begin
            self.faults.append(f"{at:.1f} s {fault()}")


class Consistency(TestCase):
    timeout = 600

    async def test_one_history_explains_every_answer(self) -> None:
        cluster = Cluster()
        self.addCleanup(deferToThread, cluster.stop)
        cluster.start()
        load = Load(cluster)
        try:
            await deferToThread(load.run)
            history = await self._history(cluster)
            problems = Checker(history, load.journal).check()
        except BaseException:
            print(f"seed {SEED}; {load.told()}\n{cluster.logs()}")
            raise
        if problems:
            print(f"{load.told()}\n{cluster.logs()}")
        journal = load.journal
        done = sum(1 for write in journal.writes if write.status in (200, 201))
        told = sum(len(watching.told) for watching in journal.watchings)
        summary = (
            f"seed {SEED}: {done} of {len(journal.writes)} writes, {len(journal.reads)} reads, "
            f"{len(journal.listings)} lists, {told} watch events, answers {dict(sorted(journal.statuses.items()))}"
        )
        print(summary)
        self.assertEqual(problems[:10], [], f"{len(problems)} problems; {summary}")
        self.assertGreater(done, 50, summary)
        self.assertGreater(min(len(watching.told) for watching in journal.watchings), 10, summary)

    async def _history(self, cluster: Cluster) -> list[Change]:
        recorder = Recorder()
        store = external_store(cluster.store_url, reactor)
        await store.start(recorder)
        await store.stop()
        return recorder.history
