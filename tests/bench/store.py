"""What one store carries: the writes of kapi's script, sent by several processes as fast as they are answered.

The server is a Valkey of the measurement's own, durable as kapi's (``appendfsync always``).  Some connections read the stream,
as each kapi on the store does.
"""

from __future__ import annotations

import itertools
import multiprocessing
import socket
import time
from collections.abc import Callable
from typing import Any

import hiredis

from kapi.store.script import SHA, SOURCE, Keys
from tests.bench.cases import Row
from tests.bench.load import cpu_seconds
from tests.store.servers import Server

_KEYS = Keys.under("kapi")
_DRIVERS = 2  # processes
_HEAD = b'{"kind":"Event","apiVersion":"v1","metadata":{"resourceVersion":"'


class _Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._reader = hiredis.Reader()

    def send(self, *words: bytes | str | int) -> None:
        self._socket.sendall(hiredis.pack_command(words))

    def receive(self) -> Any:
        while (reply := self._reader.gets()) is False:
            data = self._socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the store closed the connection")
            self._reader.feed(data)
        return reply


def store(add: Callable[[Row], None], seconds: float) -> None:
    """Writes of objects of 1 and 4 kB in flight, beside readers of the stream."""
    for size, flight, readers in ((1000, 1, 1), (1000, 64, 0), (1000, 64, 1), (1000, 64, 4), (4000, 64, 1)):
        server = Server(appendonly="yes", appendfsync="always")
        try:
            _measure(add, server, size, flight, readers, seconds)
        finally:
            server.stop()


def _measure(add: Callable[[Row], None], server: Server, size: int, flight: int, readers: int, seconds: float) -> None:
    drivers = min(_DRIVERS, flight)
    tasks = [(_write, (server.port, number, size, flight // drivers, seconds)) for number in range(drivers)]
    tasks += [(_read, (server.port,)) for _ in range(readers)]
    answers: Any = multiprocessing.Queue()
    processes = [multiprocessing.Process(target=run, args=(*given, answers), daemon=True) for run, given in tasks]
    before, begin = cpu_seconds(server.process.pid), time.perf_counter()
    for process in processes:
        process.start()
    count = sum(answers.get(timeout=seconds + 30) for _ in range(drivers))
    used, took = cpu_seconds(server.process.pid) - before, time.perf_counter() - begin
    for process in processes:
        process.terminate()
        process.join(10)
    name = f"store, {size / 1000:.0f} kB, {flight} in flight, {readers} readers"
    add(Row(name, count / took, "1/s", cpu=used / count * 1e6))


def _write(port: int, driver: int, size: int, flight: int, seconds: float, answers: Any) -> None:
    connection = _Connection(port)
    connection.send("SCRIPT", "LOAD", SOURCE)
    connection.receive()
    tail = b'","name":"e","message":"' + b"x" * (size - len(_HEAD) - 30) + b'"}}'

    def send(number: int) -> None:
        key = f"core/events/default/{driver}-{number}"
        connection.send("EVALSHA", SHA, 5, *_KEYS[:5], "c", key, 0, _HEAD, tail, b"", b"")

    numbers = itertools.count()
    for _ in range(flight):
        send(next(numbers))
    done, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        assert isinstance(connection.receive(), int)
        done += 1
        send(next(numbers))
    answers.put(done)


def _read(port: int, answers: Any) -> None:
    connection, last = _Connection(port), b"0-0"
    while True:
        connection.send("XREAD", "COUNT", 2000, "BLOCK", 5000, "STREAMS", _KEYS.stream, last)
        found = connection.receive()
        if found:
            last = found[0][1][-1][0]
