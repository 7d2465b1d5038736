"""Watches on which nothing happens: what each costs in memory, and what all together cost in CPU."""

from __future__ import annotations

import multiprocessing
import resource
import select
import socket
import ssl
import time
from pathlib import Path
from typing import Any

from tests.bench.http2 import watch_http2
from tests.bench.load import Target

_SETTLE = 3.0  # seconds, for timers of the opening to run out
_SPARE = 200  # descriptors that are needed beside the watches


def proportional(pid: int) -> float:
    """Megabytes of a process, with what it shares counted in parts."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def hold(target: Target, path: str, count: int, pipe: Any, http2: bool = False) -> None:
    """Opens ``count`` watches one after another, says how many have answered, and holds them until told to stop."""
    context = target.context()
    request = target.request("GET", path)
    streams: list[ssl.SSLSocket] = []
    answered = 0
    for _ in range(count):
        if http2:
            stream = watch_http2(target, context, path).socket
            answered += 1
        else:
            plain = socket.create_connection((target.host, target.port), 30)
            stream = context.wrap_socket(plain, server_hostname=target.host)
            stream.sendall(request)
            answered += stream.recv(1 << 16).startswith(b"HTTP/1.1 200")
        stream.setblocking(False)
        streams.append(stream)
    pipe.send(answered)
    poll = select.epoll()
    poll.register(pipe.fileno(), select.EPOLLIN)
    for stream in streams:
        poll.register(stream.fileno(), select.EPOLLIN)
    by_number = {stream.fileno(): stream for stream in streams}
    ended = 0
    while True:
        for number, _ in poll.poll():
            if number == pipe.fileno():
                pipe.send(ended)
                return
            try:
                while by_number[number].recv(1 << 16):
                    pass
                ended += 1
                poll.unregister(number)
            except (ssl.SSLWantReadError, BlockingIOError):
                pass


def idle(target: Target, path: str, count: int, seconds: float, *, http2: bool = False) -> dict[str, float]:
    """``count`` watches that are idle for ``seconds``.

    Answers megabytes of all processes (``total``) and of the server's own (``resident``, ``proportional``), kilobytes a
    watch, CPU-milliseconds a second with (``cpu``) and without the watches (``cpu_before``).  Raises OSError when the
    process may not open so many sockets.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + _SPARE:
        raise OSError(f"{count} watches need as many descriptors; the limit is {hard} (ulimit -n)")
    if soft != resource.RLIM_INFINITY and soft < count + _SPARE:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + _SPARE, hard))
    here, there = multiprocessing.Pipe()
    before = [proportional(pid) for pid in target.pids]
    quiet = _cpu(target, seconds)
    process = multiprocessing.Process(target=hold, args=(target, path, count, there, http2), daemon=True)
    process.start()
    there.close()  # so that the end of the process is seen
    opened = here.recv()
    time.sleep(_SETTLE)
    used = _cpu(target, seconds)
    after = [proportional(pid) for pid in target.pids]
    total = target.memory()
    here.send("stop")
    ended = here.recv()
    process.join(30)
    return {
        "open": opened - ended,
        "total": total,
        "proportional": sum(after),
        "each": (sum(after) - sum(before)) * 1024 / max(1, count),
        "cpu": used,
        "cpu_before": quiet,
    }


def _cpu(target: Target, seconds: float) -> float:
    """CPU-milliseconds a second of the server over some seconds."""
    before = target.cpu()
    time.sleep(seconds)
    return (target.cpu() - before) * 1000 / seconds
