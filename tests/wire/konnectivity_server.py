"""A konnectivity server with its agent, over gRPC's own library, at a unix socket."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from kapi.wire.plugin_messages import decode, encode, last_bytes, last_number, last_text

_CONNECTION = 7


def packet(kind: int, field: int, *content: tuple[int, bytes | int]) -> bytes:
    return encode([(1, kind), (field, encode(content))])


class KonnectivityServer:
    """``asked`` has the targets, ``connected`` counts the connections that are open.

    ``error`` is the answer to a dial, instead of a connection.  ``hosts`` are names that only the server knows.
    """

    def __init__(self, path: Path) -> None:
        self.asked: list[str] = []
        self.path, self.connected = path, 0
        self._lock = threading.Lock()
        self.error = ""
        self.hosts: dict[str, str] = {}
        self._server = grpc.server(ThreadPoolExecutor(64))
        handlers = {"Proxy": grpc.stream_stream_rpc_method_handler(self._serve)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("ProxyService", handlers),))
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def close(self) -> None:
        self._server.stop(None).wait()

    def _serve(self, packets: Iterator[bytes], context: Any) -> Iterator[bytes]:
        dial = decode(last_bytes(decode(next(packets)), 2))
        host, _, port = last_text(dial, 2).rpartition(":")
        self.asked.append(f"{host}:{port}")
        number = last_number(dial, 3)
        if self.error:
            yield packet(1, 3, (1, self.error.encode()), (3, number))
            return
        target = socket.create_connection((self.hosts.get(host, host), int(port)), 5)
        target.settimeout(120)
        with contextlib.closing(target), self._counted():
            yield packet(1, 3, (2, _CONNECTION), (3, number))
            answers: queue.Queue[bytes] = queue.Queue()
            context.add_callback(lambda: answers.put(b""))  # when the client is gone
            for work in (self._receive, self._send):
                threading.Thread(target=work, args=(packets, target, answers), daemon=True).start()
            while answer := answers.get():
                yield answer

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self.connected += 1
        try:
            yield
        finally:
            with self._lock:
                self.connected -= 1

    def _send(self, packets: Iterator[bytes], target: socket.socket, answers: queue.Queue[bytes]) -> None:
        with contextlib.suppress(grpc.RpcError, OSError):
            for each in packets:
                fields = decode(each)
                if last_number(fields, 1) == 2:
                    answers.put(packet(3, 6, (2, last_number(decode(last_bytes(fields, 5)), 1))))
                    break
                target.sendall(last_bytes(decode(last_bytes(fields, 4)), 3))
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def _receive(self, packets: Iterator[bytes], target: socket.socket, answers: queue.Queue[bytes]) -> None:
        with contextlib.suppress(OSError):
            while data := target.recv(4096):
                answers.put(packet(4, 4, (1, _CONNECTION), (3, data)))
        answers.put(packet(3, 6, (2, _CONNECTION)))
        answers.put(b"")
