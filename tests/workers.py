"""The workers of ``pytest -n``: forks of the process that has collected the tests.

Those of pytest-xdist each import and collect all tests for themselves: eight seconds of processor each, before the first
test.  Its options hold here, too; with another ``--dist`` than ``load`` its own workers run.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import random
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn

import pytest

#: seconds in which a worker ends what its tests have started, after an interrupt
_MAX_SECONDS_TO_END = 60.0
#: of a child process that has no status
_LOST = -1


class _Worker:
    """A fork, as the process that has made it sees it."""

    def __init__(self, run: Callable[[Connection], None], others: Sequence[_Worker]) -> None:
        self.connection, its_own = Pipe()
        self.pending: deque[int] = deque()  # in the order in which it runs them
        self._code: int | None = None
        self.pid = os.fork()
        if not self.pid:
            for connection in (self.connection, *(other.connection for other in others)):
                connection.close()  # the end of a process is told by the end of its connection
            try:
                run(its_own)
            finally:
                os._exit(1)
        its_own.close()

    def give(self, piece: Sequence[int]) -> None:
        """An empty one ends it."""
        self.pending.extend(piece)
        with contextlib.suppress(OSError):  # it has ended, which is seen soon
            self.connection.send(piece)

    def interrupt(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)

    def wait_for(self, seconds: float) -> int:
        """Its exit code, negative for a signal: that of its end in time, or by force."""
        if not self._has_ended(seconds):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.connection.close()
        try:
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:  # a plugin has waited for all
            return _LOST

    def _has_ended(self, seconds: float) -> bool:
        while self.connection.poll(seconds):
            try:
                self.connection.recv_bytes()
            except (EOFError, OSError):
                return True
        return False


class Workers:
    """A plugin whose loop gives pieces of the collected tests to ``count`` forks, and reports what they report."""

    def __init__(self, count: int, pieces: Callable[[Sequence[str], int], list[list[int]]]) -> None:
        """``pieces(nodeids, count)``: indices of tests that one worker runs in this order, the first pieces first."""
        self._count, self._pieces = count, pieces
        self._numbers = itertools.count()
        self._workers: list[_Worker] = []
        self._waiting: deque[list[int]] = deque()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.config.option.collectonly or not session.items:
            return None
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return None  # told by pytest's own loop
        self._waiting.extend(self._pieces([item.nodeid for item in session.items], self._count))
        try:
            while self._waiting and len(self._workers) < self._count:
                self._start(session)
            while self._workers:
                ready = wait([worker.connection for worker in self._workers])
                for worker in [worker for worker in self._workers if worker.connection in ready]:
                    self._hear(session, worker)
        finally:
            for worker in self._workers:
                worker.interrupt()
            for worker in self._workers:
                worker.wait_for(_MAX_SECONDS_TO_END)
            self._workers.clear()
        return True

    def _start(self, session: pytest.Session) -> None:
        child = _Child(session, next(self._numbers))
        self._workers.append(_Worker(child.run, self._workers))
        self._workers[-1].give(self._waiting.popleft())

    def _hear(self, session: pytest.Session, worker: _Worker) -> None:
        """Raises pytest's exceptions when no more tests are to run."""
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            self._workers.remove(worker)
            self._replace(session, worker)
            return
        if not message:  # it begins the last test that it knows of
            worker.give(self._waiting.popleft() if self._waiting else [])
            return
        _report(session, worker.pending.popleft(), pickle.loads(message))
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)

    def _replace(self, session: pytest.Session, worker: _Worker) -> None:
        """One that has ended: after its last test, or in the midst of one."""
        code = worker.wait_for(_MAX_SECONDS_TO_END)
        if not worker.pending:
            return
        _report_crash(session, worker.pending.popleft(), code)
        if worker.pending:
            self._waiting.appendleft(list(worker.pending))
        if self._waiting:
            self._start(session)


def _report(session: pytest.Session, index: int, told: Sequence[tuple[str, Any]]) -> None:
    """What the hooks were told in a worker, of one test."""
    hook, item = session.config.hook, session.items[index]
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for kind, content in told:
        if kind == "report":
            hook.pytest_runtest_logreport(report=content)
        else:
            hook.pytest_warning_recorded.call_historic(kwargs=content)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _report_crash(session: pytest.Session, index: int, code: int) -> None:
    item = session.items[index]
    text = f"the worker ended with {code} while it ran {item.nodeid}"
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
    _report(session, index, [("report", report)])


class _Child:
    """A worker, as it sees itself."""

    def __init__(self, session: pytest.Session, number: int) -> None:
        self._session, self._number = session, number
        factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
        self._temporary = factory.getbasetemp() / f"worker{number}"  # all are in that of the first process
        self._told: list[tuple[str, Any]] = []

    # -- what the hooks are told is passed on

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed:
            report.keywords = {}  # which nothing reads: half of the bytes
        self._told.append(("report", report))

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        warning_message.source = None
        fields = {"warning_message": warning_message, "when": when, "nodeid": nodeid, "location": location}
        self._told.append(("warning", fields))

    def run(self, connection: Connection) -> NoReturn:
        try:
            self._begin()
            self._run(connection)
            code = 0
        except BaseException as error:  # as an interrupt
            code = 2
            if not isinstance(error, KeyboardInterrupt):
                sys.excepthook(type(error), error, error.__traceback__)
        with contextlib.suppress(BaseException):
            self._session._setupstate.teardown_exact(None)  # nothing, unless a test was interrupted
        with contextlib.suppress(BaseException):
            self._session.config.hook.pytest_sessionfinish(session=self._session, exitstatus=code)
        os._exit(code)

    def _begin(self) -> None:
        """All that processes must not have in common."""
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        random.seed()
        new_reactor()
        config: Any = self._session.config
        plugins = config.pluginmanager
        plugins.unregister(name="terminalreporter")
        config.workerinput = {"workerid": f"gw{self._number}"}  # by which plugins know that they are in a worker
        self._temporary.mkdir(mode=0o700)
        config._tmp_path_factory._basetemp = self._temporary
        capture = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
        plugins.register(self)

    def _run(self, connection: Connection) -> None:
        items, known = self._session.items, deque(connection.recv())
        while known:
            index = known.popleft()
            if not known:
                connection.send_bytes(b"")
                known.extend(connection.recv())
            after = items[known[0]] if known else None
            items[index].config.hook.pytest_runtest_protocol(item=items[index], nextitem=after)
            connection.send_bytes(self._packed())
            self._told.clear()

    def _packed(self) -> bytes:
        try:
            return pickle.dumps(self._told)
        except Exception:  # of what an error or a warning refers to
            for kind, content in self._told:
                if kind == "report" and content.longrepr is not None:
                    content.longrepr = str(content.longrepr)
            return pickle.dumps([each for each in self._told if each[0] == "report"])


def new_reactor() -> None:
    """In a fork.  Imported modules hold the reactor, which has not run yet: it gets a poller and a waker of its own."""
    reactor: Any = getattr(sys.modules.get("twisted.internet"), "reactor", None)
    if reactor is not None:
        type(reactor).__init__(reactor)
