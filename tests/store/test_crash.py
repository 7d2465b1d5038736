"""Kills server and process in the middle of concurrent writes: nothing acknowledged is lost, nothing half made.

``KAPI_CRASH_ROUNDS`` makes it longer, ``KAPI_CRASH_SEED`` repeats a run.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zlib
from pathlib import Path

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from kapi.store.factory import EmbeddedStore
from kapi.store.interface import Change
from tests.store.contract import Recorder
from tests.waiting import until

ROUNDS = int(os.environ.get("KAPI_CRASH_ROUNDS", "3"))
SEED = int(os.environ.get("KAPI_CRASH_SEED", str(random.randrange(1 << 30))))
ROOT = Path(__file__).parents[2]


class Writer:
    """A writer process and what it said."""

    def __init__(self, directory: str, seed: int, since: int) -> None:
        command = [sys.executable, "-m", "tests.store.writer", directory, str(seed), str(since)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines: list[list[str]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):
                self.lines.append(line.decode().split())

    def said(self, word: str) -> list[list[str]]:
        return [line[1:] for line in list(self.lines) if line[0] == word]

    def wait_for(self, word: str, count: int) -> None:
        until(lambda: len(self.said(word)) >= count or self.process.poll() is not None)
        if len(self.said(word)) < count:
            assert self.process.stderr is not None
            raise AssertionError(f"no {count} {word}: {self.process.stderr.read()!r}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


class CrashTest(TestCase):
    def setUp(self) -> None:
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory, True)

    async def test_no_acknowledged_write_is_lost_and_watchers_resume(self) -> None:
        rng = random.Random(SEED)
        acknowledged: list[list[str]] = []
        seen: list[list[str]] = []
        for _ in range(ROUNDS):
            since = int(seen[-1][2]) if seen else 0
            writer = Writer(self.directory, rng.randrange(1 << 30), since)
            try:
                writer.wait_for("PID", 1)
                writer.wait_for("ACK", rng.randrange(50, 300))
                server = int(writer.said("PID")[0][0])
                os.kill(server, signal.SIGKILL)
                writer.wait_for("ACK", len(writer.said("ACK")) + rng.randrange(50, 300))
            finally:
                writer.kill()  # the second server may live on; the next start must deal with it
            self.assertEqual(writer.said("END"), [], "no watch was ended")
            acknowledged += writer.said("ACK")
            seen += writer.said("SEEN")
        history = await self._history()
        self._check_history(history)
        self._check_acknowledged(history, acknowledged)
        self._check_seen(history, seen)

    async def _history(self) -> list[Change]:
        recorder = Recorder()
        store = EmbeddedStore(self.directory, reactor)
        await store.start(recorder)
        await store.stop()
        self.assertEqual(recorder.revision, recorder.history[-1].revision)
        replayed = {}
        for change in recorder.history:
            if change.kind == "d":
                del replayed[change.key]
            else:
                replayed[change.key] = change
        self.assertEqual(
            {key: (obj.revision, obj.data) for key, obj in recorder.objects.items()},
            {key: (change.revision, change.data) for key, change in replayed.items()},
        )
        return recorder.history

    def _check_history(self, history: list[Change]) -> None:
        """Revisions have no gaps, each change follows from the one before, and its bytes are whole."""
        self.assertEqual([change.revision for change in history], list(range(1, len(history) + 1)))
        there: set[str] = set()
        for change in history:
            self.assertEqual(change.kind == "c", change.key not in there, change)
            (there.discard if change.kind == "d" else there.add)(change.key)
            self.assertIn(f'"resourceVersion":"{change.revision}"'.encode(), change.data)
            text = change.data.split(b'"data":"')[1].removesuffix(b'"}')
            self.assertEqual(zlib.crc32(text[8:]), int(text[:8], 16))

    def _check_acknowledged(self, history: list[Change], acknowledged: list[list[str]]) -> None:
        revisions = [int(revision) for _, _, revision, _ in acknowledged]
        self.assertEqual(len(set(revisions)), len(revisions), "a revision was given out twice")
        for kind, key, revision, text in acknowledged:
            change = history[int(revision) - 1]
            self.assertEqual((change.kind, change.key), (kind, key))
            self.assertIn(text.encode(), change.data)

    def _check_seen(self, history: list[Change], seen: list[list[str]]) -> None:
        types = {"c": "ADDED", "u": "MODIFIED", "d": "DELETED"}
        expected = [[types[c.kind], c.key.removeprefix("core/things/"), str(c.revision)] for c in history]
        self.assertEqual(seen, expected[: len(seen)], "a resumed watch missed something or saw it twice")
