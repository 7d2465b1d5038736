"""The log to a pipe whose reader has stopped."""

from __future__ import annotations

import os
import socket
import threading

from twisted.logger import Logger, LogPublisher
from twisted.trial.unittest import SynchronousTestCase

from kapi.observability.log_stream import PipeStream
from kapi.observability.logging import observer
from kapi.options.options import Options


class Unread(SynchronousTestCase):
    def log(self, count: int, *flags: str) -> None:
        """Twice so many lines, with a look at the pipe after each half.  In a thread, so that it may hang."""
        publisher = LogPublisher(observer(Options.from_command_line(flags).logs, self.err, self.err))
        log = Logger(namespace="kapi.app", observer=publisher)

        def work() -> None:
            for number in self.numbers:
                log.warn("line {number} {text}", number=number, text="x" * 100)
            self.done.set()

        for round_ in range(2):
            self.numbers = range(round_ * count, (round_ + 1) * count)
            self.done = threading.Event()
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self.ended.append(self.done.wait(120))
            self.found += self.read()
            thread.join(120)
        self.found += self.read()

    def read(self) -> bytes:
        os.set_blocking(self.reading, False)
        found = b""
        try:
            while more := os.read(self.reading, 100_000):
                found += more
        except BlockingIOError:
            pass
        return found

    def pair(self) -> tuple[int, int]:
        return os.pipe()

    def setUp(self) -> None:
        self.reading, writing = self.pair()
        self.addCleanup(os.close, self.reading)
        self.err = os.fdopen(writing, "w")
        self.addCleanup(self.err.close)
        self.ended: list[bool] = []
        self.found = b""

    def test_nobody_waits_for_its_reader(self) -> None:
        for flags in ((), ("--logging-format=json",)):
            self.ended, self.found = [], b""
            self.log(2000, *flags)
            self.assertEqual(self.ended, [True, True])
            self.assertTrue(os.get_blocking(self.err.fileno()), "others write there, too")
            lines = self.found.decode().splitlines()
            lost = next(int(line.split()[0]) for line in lines if "lines of the log were lost" in line)
            each = lines[0].count("x" * 100)
            self.assertTrue(all(line.count("x" * 100) == each for line in lines if "lost" not in line), "none is torn")
            again = next(number for number, line in enumerate(lines) if "lost" in line)
            self.assertIn("line 2000 ", lines[again + 1])
            self.assertEqual(lost + again, 2000)


class UnreadSocket(Unread):
    """As a service manager gives it."""

    def pair(self) -> tuple[int, int]:
        reading, writing = socket.socketpair()
        return reading.detach(), writing.detach()


class Interrupted(SynchronousTestCase):
    def test_lines_that_come_while_another_is_written_are_whole(self) -> None:
        """Of another thread, and of a signal's handler in the same one."""
        taken: list[bytes] = []

        def take(data: bytes) -> int:
            if not taken:
                taken.append(data[:10])
                stream.write("of a handler\n")
                thread = threading.Thread(target=stream.write, args=("of a thread\n",))
                thread.start()
                thread.join(30)
                return 10
            taken.append(data)
            return len(data)

        stream = PipeStream(-1, take)
        stream.write("of the server itself\n")
        lines = b"".join(taken).decode().splitlines()
        self.assertEqual(lines, ["of the server itself", "of a handler", "of a thread"])
