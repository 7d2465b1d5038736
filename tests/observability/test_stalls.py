"""The stall monitor: turns are counted, long ones told with their stack."""

from __future__ import annotations

import select
import socket
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from kapi.observability.metrics import Metrics
from kapi.observability.stalls import StallMonitor
from tests.filters.requests import request


class Stalls(SynchronousTestCase):
    def setUp(self) -> None:
        self.now = 100.0
        self.monitor = StallMonitor(lambda: self.now)
        self.lines: list[str] = []

        def observe(event: Any) -> None:
            if event.get("log_namespace") == "kapi.observability.stalls":
                self.lines.append(event["log_format"].format(**{k: v for k, v in event.items() if k != "log_format"}))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def turn(self, seconds: float, look: bool = True) -> None:
        self.monitor.busy_since = self.now
        self.now += seconds
        if look:
            self.monitor.look(lambda: sys._getframe(1))
        self.monitor.ended(self.now)

    def exposition(self) -> str:
        metrics = Metrics()
        metrics.registry.register(self.monitor)  # type: ignore[arg-type]
        return b"".join(metrics.exposition()).decode()

    def test_turns_over_ten_milliseconds_are_counted(self) -> None:
        for seconds in (0.009, 0.02, 0.2):
            self.turn(seconds)
        text = self.exposition()
        self.assertIn('kapi_reactor_stall_seconds_bucket{le="0.025"} 1\n', text)
        self.assertIn("kapi_reactor_stall_seconds_count 2\n", text)
        self.assertEqual(self.lines, [])

    def test_a_long_one_is_told_with_its_request_and_stack(self) -> None:
        ctx = request()
        ctx.method, ctx.path, ctx.audit_id = "PUT", "/api/v1/namespaces/default/configmaps/a", "some-id"
        self.turn(0.3)
        (line,) = self.lines
        self.assertIn("0.30 s", line)
        self.assertIn("PUT /api/v1/namespaces/default/configmaps/a (audit id some-id)", line)
        self.assertIn("in test_a_long_one_is_told_with_its_request_and_stack", line)

    def test_the_lines_are_bounded_in_number(self) -> None:
        for _ in range(20):
            self.turn(0.3)
        self.assertEqual(len(self.lines), 1)
        self.now += 10
        self.turn(0.3, look=False)  # nobody has seen what ran: there is nothing to say
        self.assertEqual(len(self.lines), 1)
        self.turn(0.3)
        self.assertIn("not logged: 20", self.lines[1])

    def test_it_looks_when_a_turn_is_a_quarter_of_a_second_old_and_once(self) -> None:
        looked: list[int] = []

        def look() -> float:
            return self.monitor.look(lambda: looked.append(1))

        self.assertEqual(look(), 0.25, "idle")
        self.monitor.busy_since = self.now
        self.now += 0.1
        self.assertAlmostEqual(look(), 0.15)
        self.now += 0.2
        self.assertEqual((look(), looked), (0.25, [1]))

    def test_time_in_the_poll_is_no_stall(self) -> None:
        clock = SimpleNamespace(polled=0)

        def poll(timeout: float, events: int) -> list[Any]:
            clock.polled += 1
            self.assertEqual(self.monitor.busy_since, 0.0)
            return []

        poller = SimpleNamespace(poll=poll, register=None, modify=None, unregister=None)
        reactor: Any = SimpleNamespace(_poller=poller, addSystemEventTrigger=lambda *_: None)
        self.monitor.install(reactor)
        self.addCleanup(self.monitor._stopped.set)
        for _ in range(3):
            self.assertEqual(reactor._poller.poll(1.0, 1), [])
        self.assertEqual((clock.polled, sum(self.monitor.turns.counts)), (3, 0))

    def test_a_thousand_sockets_that_are_ready_are_given_in_parts_and_each_has_its_turn(self) -> None:
        poller = select.epoll()
        self.addCleanup(poller.close)
        pairs = [socket.socketpair() for _ in range(300)]
        for here, there in pairs:
            self.addCleanup(here.close)
            self.addCleanup(there.close)
            poller.register(here.fileno(), select.EPOLLIN)
            there.send(b"x")
        reactor: Any = SimpleNamespace(_poller=poller, addSystemEventTrigger=lambda *_: None)
        self.monitor.install(reactor)
        self.addCleanup(self.monitor._stopped.set)
        polls = [reactor._poller.poll(0, 300) for _ in range(3)]
        self.assertEqual([len(events) <= 128 for events in polls], [True] * 3)
        self.assertEqual({number for events in polls for number, _ in events}, {here.fileno() for here, _ in pairs})

    def test_without_a_thread_turns_are_measured_all_the_same(self) -> None:
        """At the limit of processes, which also counts threads."""
        poller = SimpleNamespace(poll=lambda timeout, events: [], register=None, modify=None, unregister=None)
        reactor: Any = SimpleNamespace(_poller=poller, addSystemEventTrigger=lambda *_: None)
        with patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
            self.monitor.install(reactor)
        self.assertEqual(reactor._poller.poll(0, 1), [])
        self.now += 0.3
        reactor._poller.poll(0, 1)
        self.assertEqual(sum(self.monitor.turns.counts), 1)

    def test_a_reactor_that_cannot_be_measured_is_left_alone(self) -> None:
        self.monitor.install(SimpleNamespace())
