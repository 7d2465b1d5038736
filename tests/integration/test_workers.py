"""Several processes on one port: they serve the same objects, and none of them is missed when it ends."""

from __future__ import annotations

import contextlib
import errno
import functools
import http.client
import json
import os
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ProcessTerminated
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from kapi.options.options import Options
from kapi.workers.output import MAX_END_SECONDS, Output
from kapi.workers.supervisor import Supervisor, Worker, _Slot
from kapi.workers.worker import READINESS, READY
from tests.integration.server_process import ForkedServer
from tests.store.servers import free_port
from tests.waiting import until


def test_a_worker_that_cannot_be_started_again_now_is_started_later() -> None:
    """Without a descriptor or a process to spare: its place does not stay empty."""
    clock = Clock()
    spawned: list[Any] = []

    def spawn(number: int) -> Worker:
        if len(spawned) in (1, 2):
            spawned.append(None)
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        spawned.append(Worker(Output(clock)))
        return spawned[-1]

    slot = _Slot(SimpleNamespace(reactor=clock, spawn=spawn), 2)  # type: ignore[arg-type]
    starting = Deferred.fromCoroutine(slot.start())
    spawned[0].ready.callback(None)
    assert starting.called
    spawned[0].ended.callback(-9)
    clock.pump([0.1] * 100)
    assert len(spawned) == 4
    assert slot.worker is spawned[3]


def test_standard_output_that_nobody_reads_holds_up_the_workers_alone() -> None:
    """Who prints is read again when all is written, or when it has ended: else nobody would know of that."""
    clock = Clock()
    reading, writing = os.pipe()
    sources = [Mock(), Mock()]
    try:
        with patch("sys.stdout", SimpleNamespace(fileno=lambda: writing)):
            output = Output(clock)
            output.write(b"a" * 60_000 + b"\n", sources[0])
            assert not sources[0].pause.called
            for number, source in enumerate(sources):
                output.write(b"%d" % number * 60_000 + b"\n", source)
                assert source.pause.called
        output.leave(sources[0])
        assert (sources[0].resume.called, sources[1].resume.called) == (True, False)
        found = b""
        while len(found) < 180_003:
            found += os.read(reading, 200_000)
            clock.advance(1)
        assert sources[1].resume.called
        assert found == b"".join(each * 60_000 + b"\n" for each in (b"a", b"0", b"1"))
        assert clock.getDelayedCalls() == []
    finally:
        os.close(reading)
        os.close(writing)


def test_the_supervisor_ends_when_what_was_printed_is_read() -> None:
    """But not when nobody reads any more."""
    clock = Clock()
    reading, writing = os.pipe()
    try:
        with patch("sys.stdout", SimpleNamespace(fileno=lambda: writing)):
            output = Output(clock)
            assert output.end().called
            for number in range(3):
                output.write(b"%d" % number * 60_000 + b"\n", Mock())
        ended, found = output.end(), b""
        while not ended.called:
            found += os.read(reading, 20_000)
            clock.advance(MAX_END_SECONDS / 2)
        while len(found) < 180_003:
            found += os.read(reading, 20_000)
        with patch("sys.stdout", SimpleNamespace(fileno=lambda: writing)):
            output.write(b"x" * 100_000 + b"\n", Mock())
        ended = output.end()
        clock.pump([0.1] * int(MAX_END_SECONDS * 10))
        clock.advance(1)
        assert ended.called
        assert clock.getDelayedCalls() == []
    finally:
        os.close(reading)
        os.close(writing)


def supervisor_of(clock: Clock, *workers: Worker) -> Supervisor:
    """One that takes these for the processes which it starts."""
    done = Mock(side_effect=lambda: succeed(None))
    foundation = Mock(directory=Path("data"), start_server=done, stop_server=done)
    supervisor = Supervisor(Options.from_command_line(["--workers=2"]), [], clock, foundation)  # type: ignore[arg-type]
    found = iter(workers)
    supervisor.spawn = lambda number: next(found)  # type: ignore[method-assign]
    supervisor.url = "https://127.0.0.1:1"
    supervisor.running = 1
    return supervisor


def test_the_last_lines_of_the_workers_are_printed_before_the_end() -> None:
    clock = Clock()
    supervisor = supervisor_of(clock)
    reading, writing = os.pipe()
    try:
        with patch("sys.stdout", SimpleNamespace(fileno=lambda: writing)):
            supervisor._output.write(b"x" * 100_000 + b"\n", Mock())
        stopping = supervisor.stopService()
        assert not stopping.called
        found = os.read(reading, 100_001)
        clock.advance(1)
        assert stopping.called
        found += os.read(reading, 100_001)
        assert len(found) == 100_001
    finally:
        os.close(reading)
        os.close(writing)


def test_a_stop_while_the_first_worker_starts(capsys: pytest.CaptureFixture[str]) -> None:
    """It is not told to be ready, and the store's server is not kept alive."""
    clock = Clock()
    worker = Worker(Output(clock))
    worker.transport = Mock()
    supervisor = supervisor_of(clock, worker)
    starting = Deferred.fromCoroutine(supervisor._start())
    stopping = supervisor.stopService()
    worker.transport.signalProcess.assert_called_once_with(signal.SIGTERM)
    worker.processEnded(Failure(ProcessTerminated(signal=signal.SIGTERM)))
    assert (starting.called, stopping.called) == (True, True)
    assert capsys.readouterr().out == ""
    supervisor._foundation.supervise_server.assert_not_called()  # type: ignore[attr-defined]


def test_a_worker_whose_output_is_not_read_is_ready_nevertheless() -> None:
    """What it says to its supervisor is not in the middle of a line that was printed in part."""
    output = Mock()
    worker = Worker(output)
    printed, readiness = Mock(), Mock()
    worker.transport = Mock(pipes={1: printed, READINESS: readiness})
    worker.childDataReceived(1, b'one\n{"kind":')
    output.write.assert_called_once_with(b"one\n", worker)
    worker.pause()
    assert (printed.stopReading.called, readiness.stopReading.called) == (True, False)
    worker.childDataReceived(READINESS, READY)
    assert worker.ready.called
    worker.resume()
    assert printed.startReading.called
    worker.childDataReceived(1, b'"Event"}\n')
    assert output.write.call_args.args == (b'{"kind":"Event"}\n', worker)


def children(pid: int, name: str = "kapi.workers.worker") -> set[int]:
    """The processes that ``pid`` has started and whose command line names that module."""
    found = set()
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            if name in Path(f"/proc/{child}/cmdline").read_text():
                found.add(int(child))
        except OSError:
            continue  # it has just ended
    return found


@functools.cache
def context_of(server: ForkedServer) -> ssl.SSLContext:
    """The administrator's."""
    context = ssl.create_default_context(cafile=str(server.authority))
    context.load_cert_chain(server.data / "pki" / "admin.crt", server.data / "pki" / "admin.key")
    return context


def connected(server: ForkedServer) -> http.client.HTTPSConnection:
    """A connection, to whichever of them takes it."""
    host = server.url.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, context=context_of(server), timeout=120)
    connection.connect()
    return connection


def send(connection: http.client.HTTPSConnection, method: str, path: str, body: object = None) -> None:
    headers = {"Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)


def answered(connection: http.client.HTTPSConnection) -> tuple[int, bytes]:
    answer = connection.getresponse()
    return answer.status, answer.read()


def ask(server: ForkedServer, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    """Over a connection of its own."""
    connection = connected(server)
    try:
        send(connection, method, path, body)
        return answered(connection)
    finally:
        connection.close()


@contextmanager
def clients(server: ForkedServer) -> Iterator[list[str]]:
    """Two that connect again and again; what went wrong for them."""
    wrong: list[str] = []
    done = threading.Event()

    def run() -> None:
        while not done.is_set():
            try:
                code, answer = ask(server, "GET", "/api/v1/namespaces/default")
                if code != 200:
                    wrong.append(f"{code} {answer!r}")
            except OSError as error:
                wrong.append(repr(error))
            done.wait(0.01)  # the rest of the processor is for the workers

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield wrong
    finally:
        done.set()
        for thread in threads:
            thread.join()


def pid_of(server: ForkedServer) -> int:
    assert server.process is not None
    return server.process.pid


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    directory = tmp_path_factory.mktemp("workers")
    policy = directory / "policy.yaml"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    flags = ("--workers=2", f"--audit-log-path={directory}/audit.log", f"--audit-policy-file={policy}")
    started = ForkedServer(*flags, directory=directory).start()
    try:
        yield started
    finally:
        assert started.end() == 0


def audit_logs(server: ForkedServer) -> list[Path]:
    """One of each worker."""
    return [server.root / "audit.log", server.root / "audit.2.log"]


def test_all_workers_see_what_one_has_written_and_each_has_an_audit_log(server: ForkedServer) -> None:
    assert len(children(pid_of(server))) == 2
    maps = "/api/v1/namespaces/default/configmaps"
    for number in range(20):
        assert ask(server, "POST", maps, {"metadata": {"name": f"m{number}"}})[0] == 201
        assert ask(server, "GET", f"{maps}/m{number}")[0] == 200

    def read() -> set[str]:
        """Of the whole lines; the last one is written when the client has its answer already."""
        lines = [line for log in audit_logs(server) for line in log.read_text().splitlines(True) if line[-1] == "\n"]
        return {
            entry["objectRef"]["name"]
            for entry in map(json.loads, lines)
            if entry["verb"] == "get"
            and entry.get("objectRef", {}).get("resource") == "configmaps"
            and entry["stage"] == "ResponseComplete"
        }

    until(lambda: {f"m{number}" for number in range(20)} <= read())


def one_to_each(server: ForkedServer) -> dict[int, http.client.HTTPSConnection]:
    """A connection to each worker by its pid: it is the other one's when this one stands still and it is answered."""
    workers = sorted(children(pid_of(server)))
    found: dict[int, http.client.HTTPSConnection] = {}
    for pid in workers:
        (other,) = set(workers) - {pid}
        os.kill(pid, signal.SIGSTOP)
        try:
            found[other] = connected(server)
            send(found[other], "GET", "/version")
            assert answered(found[other])[0] == 200
        finally:
            os.kill(pid, signal.SIGCONT)
    return found


def test_a_worker_that_stood_still_reads_nothing_that_others_have_changed_since(server: ForkedServer) -> None:
    """Its feed and the request wait for it together."""
    path = "/api/v1/namespaces/default/configmaps"
    (writer, writing), (reader, reading) = one_to_each(server).items()
    for name in ("still", "later"):
        send(writing, "POST", path, {"metadata": {"name": name}, "data": {"n": "0"}})
        assert answered(writing)[0] == 201
    for number in range(1, 11):
        os.kill(reader, signal.SIGSTOP)
        try:
            send(writing, "PUT", f"{path}/still", {"metadata": {"name": "still"}, "data": {"n": f"{number}"}})
            assert answered(writing)[0] == 200
            send(reading, "GET", f"{path}/still")
        finally:
            os.kill(reader, signal.SIGCONT)
        assert json.loads(answered(reading)[1])["data"] == {"n": f"{number}"}
        send(writing, "GET", f"{path}/still")  # and nobody goes back behind what was read
        assert json.loads(answered(writing)[1])["data"] == {"n": f"{number}"}
    send(writing, "DELETE", f"{path}/later")
    assert answered(writing)[0] == 200
    send(reading, "GET", f"{path}/later")
    assert answered(reading)[0] == 404
    for connection in (writing, reading):
        connection.close()


def test_a_killed_worker_is_started_again_and_nobody_is_refused_after_it(server: ForkedServer) -> None:
    before = children(pid_of(server))
    os.kill(min(before), signal.SIGKILL)
    until(lambda: min(before) not in children(pid_of(server)))
    sizes = {log: log.stat().st_size for log in audit_logs(server)}
    with clients(server) as wrong:
        until(lambda: len(children(pid_of(server)) - before) == 1)
        until(lambda: all(log.stat().st_size > size for log, size in sizes.items()))  # the new one has answered, too
    assert not wrong


def test_what_happens_while_workers_start_ends_nothing(tmp_path: Path) -> None:
    """A worker that is killed before it is ready, and signals for the workers."""
    started = ForkedServer("--workers=2", directory=tmp_path)
    start = threading.Thread(target=started.start)
    start.start()
    try:
        first = until(lambda: started.process is not None and children(pid_of(started))).pop()
        for number in (signal.SIGHUP, signal.SIGUSR2):
            os.kill(pid_of(started), number)
        os.kill(first, signal.SIGKILL)
        until(lambda: len(now := children(pid_of(started))) == 2 and first not in now)
        second = max(children(pid_of(started)))
        os.kill(second, signal.SIGKILL)
        start.join()
        until(lambda: len(children(pid_of(started))) == 2)  # the start may have been over when it was killed
        assert ask(started, "GET", "/readyz")[0] == 200
    finally:
        assert started.end() == 0


def test_workers_are_replaced_without_a_refused_connection(server: ForkedServer) -> None:
    before = children(pid_of(server))
    with clients(server) as wrong:
        os.kill(pid_of(server), signal.SIGUSR2)
        until(lambda: len(now := children(pid_of(server))) == 2 and not now & before)
    assert not wrong


def test_after_a_killed_supervisor_workers_end_and_the_next_one_starts_at_once(tmp_path: Path) -> None:
    port = free_port()
    server = ForkedServer("--workers=2", f"--secure-port={port}", directory=tmp_path)
    server.start()
    workers = children(pid_of(server))
    with clients(server):  # the workers are busy when they become orphans
        server.end(signal.SIGKILL)
    server.start()
    try:
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
        assert ask(server, "GET", "/readyz")[0] == 200
    finally:
        assert server.end() == 0


def test_a_worker_that_starts_keeps_no_port_from_the_next_supervisor(tmp_path: Path) -> None:
    """It has the listening socket from its first moment, and looks for its supervisor only at the end of its start."""
    port = free_port()
    server = ForkedServer("--workers=2", f"--secure-port={port}", directory=tmp_path)
    start = threading.Thread(target=_start_quietly, args=(server,))
    start.start()
    worker = until(lambda: server.process is not None and children(pid_of(server))).pop()
    until(lambda: "setpriv" not in Path(f"/proc/{worker}/cmdline").read_text())
    os.kill(worker, signal.SIGSTOP)  # it takes its time
    try:
        os.kill(pid_of(server), signal.SIGKILL)
        start.join()

        def free() -> bool:
            with socket.socket() as taken:
                return taken.connect_ex(("127.0.0.1", port)) != 0

        until(free)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def _start_quietly(server: ForkedServer) -> None:
    with contextlib.suppress(RuntimeError):  # it is killed
        server.start()


def test_what_is_wrong_with_the_flags_is_told_once(tmp_path: Path) -> None:
    broken = tmp_path / "broken.crt"
    broken.write_text("nonsense")
    server = ForkedServer("--workers=3", f"--tls-cert-file={broken}", f"--tls-private-key-file={broken}")
    with pytest.raises(RuntimeError) as caught:
        server.start()
    lines = str(caught.value).splitlines()[1:]
    assert len(lines) == 1 and lines[0].startswith("kapi: serving certificate:")
    with pytest.raises(RuntimeError, match="--workers must be at least 1"):
        ForkedServer("--workers=0").start()
