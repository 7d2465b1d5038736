"""Starts kapi as forks of a process that has imported it: each takes a third of the processor time of a start by exec.

``spawn`` and ``run`` are for tests that need a server or a command, not for those that test how one starts.  Each
pytest process has one fork server, started when it is first needed.  It gets an order with four descriptors: the
three standard streams of the new process, and a pipe on which it writes the process's id and, when it has ended, its
return code.  The new process has the program, arguments, environment, working directory and umask of the order, the
default signal handlers, and a reactor of its own; it ends as any Python process, without freeing what it has.  When
pytest ends, so do the fork server and all its processes.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NoReturn

_MAX_ORDER = 1 << 17  # bytes; an environment is some thousand
_MAX_SECONDS = 120.0  # until the fork server has imported kapi and has started a process
_KAPI = "kapi.__main__"
#: set in the environment of a process: its requests go through the Klein apps
NO_SHORT_CUT = "KAPI_TESTS_NO_SHORT_CUT"


class ForkedProcess:
    """What ``subprocess.Popen`` offers of it, to tests."""

    def __init__(self, arguments: list[str], output: int, status: int) -> None:
        self.args = arguments
        self.stdout: IO[str] = os.fdopen(output, encoding="utf-8", errors="replace")
        self.returncode: int | None = None
        self._status = status
        self._lines = b""
        self._lock = threading.Lock()  # of what reads the status: a test may wait while another thread asks
        if not self._read_lines(1, _MAX_SECONDS):
            raise RuntimeError("the fork server started no process in time")
        self.pid = int(self._lines.split(b"\n")[0])

    def _read_lines(self, count: int, seconds: float) -> bool:
        """Whether so many lines have come in that time."""
        end = time.monotonic() + seconds
        while self._lines.count(b"\n") < count:
            if not select.select([self._status], [], [], max(0.0, end - time.monotonic()))[0]:
                return False
            data = os.read(self._status, 100)
            if not data:
                raise RuntimeError("the fork server has ended")
            self._lines += data
        return True

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None and self._read_lines(2, 0):
                self._set_code()
        return self.returncode

    def wait(self, timeout: float = _MAX_SECONDS) -> int:
        """Raises subprocess.TimeoutExpired."""
        with self._lock:
            if self.returncode is None:
                if not self._read_lines(2, timeout):
                    raise subprocess.TimeoutExpired(self.args, timeout)
                self._set_code()
        assert self.returncode is not None
        return self.returncode

    def _set_code(self) -> None:
        self.returncode = int(self._lines.split(b"\n")[1])
        os.close(self._status)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass  # it has ended since

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Connection:
    """To the fork server of this pytest process."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _MAX_ORDER)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(other.fileno())],
                pass_fds=[other.fileno()], stdin=subprocess.DEVNULL, cwd=Path(__file__).parents[1],
            )  # fmt: skip

    def order(self, order: dict[str, Any], descriptors: list[int]) -> None:
        socket.send_fds(self._socket, [json.dumps(order).encode()], descriptors)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_connections: list[_Connection] = []  # one at most


def spawn(
    arguments: list[str], program: str = _KAPI, output: int | None = None, errors: int | None = None
) -> ForkedProcess:
    """The module's ``main`` with these arguments.

    It writes to ``output``, or to what can be read from ``stdout``; and its errors to ``errors``, or there, too.
    """
    readable, writable = os.pipe()
    with open(os.devnull, "rb") as nothing:
        its_output = writable if output is None else output
        its_errors = its_output if errors is None else errors
        try:
            status = _ordered(program, arguments, os.environ, [nothing.fileno(), its_output, its_errors])
        finally:
            os.close(writable)
    return ForkedProcess(arguments, readable, status)


def run(
    arguments: list[str], program: str = _KAPI, *, env: Mapping[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run`` with captured output, as text."""
    done = run_binary(arguments, program, env=env, stdin=stdin.encode())
    return subprocess.CompletedProcess(arguments, done.returncode, done.stdout.decode(), done.stderr.decode())


def run_binary(
    arguments: list[str], program: str = _KAPI, *, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """The same with bytes."""
    ours, its = [], []
    for number in range(3):
        readable, writable = os.pipe()
        its.append(writable if number else readable)
        ours.append(open(readable, "rb") if number else open(writable, "wb", buffering=0))
    try:
        status = _ordered(program, arguments, env or os.environ, its)
    finally:
        for descriptor in its:
            os.close(descriptor)
    process = ForkedProcess(arguments, os.open(os.devnull, os.O_RDONLY), status)
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(len(ours)))
        for stream in (*ours, process.stdout):
            stack.enter_context(stream)
        stack.callback(process.kill)
        written = pool.submit(_write_all, ours[0], stdin)
        read = [pool.submit(stream.read) for stream in ours[1:]]
        code = process.wait()
        written.result()
        return subprocess.CompletedProcess(arguments, code, *(each.result() for each in read))


def _write_all(stream: IO[bytes], data: bytes) -> None:
    with stream, contextlib.suppress(BrokenPipeError):
        rest = memoryview(data)
        while rest:
            rest = rest[stream.write(rest) :]


def _ordered(program: str, arguments: list[str], environment: Mapping[str, str], streams: list[int]) -> int:
    """Where a new process and its end are reported."""
    if not _connections:
        _connections.append(_Connection())
    umask = os.umask(0o077)
    os.umask(umask)
    status, its_status = os.pipe()
    order = {
        "program": program, "arguments": arguments, "environment": dict(environment), "directory": os.getcwd(),
        "umask": umask,
    }  # fmt: skip
    try:
        _connections[0].order(order, [*streams, its_status])
    finally:
        os.close(its_status)
    return status


def stop() -> None:
    """Ends the fork server and what it has started."""
    while _connections:
        _connections.pop().close()


# -- the fork server


class _ForkServer:
    def __init__(self, connection: int) -> None:
        self._connection = connection
        self._running: dict[int, int] = {}  # process: where its end is reported
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest; its end is this process's, too

    def serve(self) -> dict[str, Any] | None:
        """Returns in each new process, with the order for it; and without one when pytest has ended."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._woken in ready:
                os.read(self._woken, 1000)
                self._report_ends()
            if self._connection in ready:
                data, descriptors = self._receive()
                if not data:
                    for pid in self._running:
                        os.kill(pid, signal.SIGKILL)
                    return None
                order: dict[str, Any] = json.loads(data)
                if self._fork(*descriptors):
                    return order

    def _receive(self) -> tuple[bytes, list[int]]:
        connection = socket.socket(fileno=self._connection)
        try:
            data, descriptors, _, _ = socket.recv_fds(connection, _MAX_ORDER, 4)
        finally:
            connection.detach()
        return data, descriptors

    def _fork(self, *descriptors: int) -> bool:
        """Whether this is the new process."""
        *streams, status = descriptors
        pid = os.fork()
        if not pid:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for descriptor in (*descriptors, self._connection, self._woken, self._wake, *self._running.values()):
                os.close(descriptor)
            return True
        for stream in streams:
            os.close(stream)
        self._running[pid] = status
        os.write(status, f"{pid}\n".encode())
        return False

    def _report_ends(self) -> None:
        while self._running:
            pid, code = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            status = self._running.pop(pid)
            try:
                os.write(status, f"{os.waitstatus_to_exitcode(code)}\n".encode())
            except BrokenPipeError:
                pass  # nobody asks any more
            os.close(status)


def _run(order: dict[str, Any]) -> None:
    """Is that program from now on."""
    from twisted.internet import reactor

    import kapi.serving.site

    program = importlib.import_module(order["program"])

    # imported modules hold the reactor, which has not run yet: it gets a poller and a waker of its own
    reactor._poller.close()  # type: ignore[attr-defined]
    type(reactor).__init__(reactor)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["directory"])
    os.umask(order["umask"])
    tempfile.tempdir = None  # as the environment says
    if os.environ.get(NO_SHORT_CUT):
        kapi.serving.site.Site.short_cut = False
    sys.argv = [program.__file__ or "", *order["arguments"]]
    code: object = None
    try:
        program.main()
    except SystemExit as end:
        code = end.code
    _leave(code)


def _leave(code: object) -> NoReturn:
    """Ends the process as Python does, except that no object is freed: that would copy each page that it shares."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined] # as Python waits: for threads, and for the pools' callbacks
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # nobody reads: Python has words and a code of its own for that
        sys.exit(code)  # type: ignore[arg-type]
    os._exit(code & 0xFF if isinstance(code, int) else code is not None)


def _main() -> None:
    import kapi.admission
    import kapi.app
    import kapi.dropin.etcd
    import kapi.dropin.kube_apiserver
    import kapi.kubectl.main
    import kapi.observability.logging
    import kapi.tap
    import kapi.testbed.extension

    for plugin in pkgutil.walk_packages(kapi.admission.__path__, "kapi.admission."):
        importlib.import_module(plugin.name)  # as a server does when it knows its flags

    gc.collect()
    gc.freeze()
    order = _ForkServer(int(sys.argv[1])).serve()
    if order is not None:
        _run(order)


if __name__ == "__main__":
    _main()
