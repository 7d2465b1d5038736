"""A kubelet as far as a client sees one: logs, exec over v5.channel.k8s.io, ports over v4.channel.k8s.io, in threads.

It opens tunnels for port-forward, but understands nothing that is sent through them.

Commands: ``echo WORDS``, ``cat`` (until its input ends), ``fail CODE`` (says "oops" and ends with the code), ``bytes COUNT``.
A forwarded port sends back what it gets, in upper case; port 9 refuses.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import tempfile
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode
from wsproto.utilities import generate_accept_token

TUNNEL = "SPDY/3.1+portforward.k8s.io"
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255


class Kubelet:
    """``follow`` is what a followed log goes on with, and then ends.  Without ``tunnels`` it is one before 1.36."""

    tunnels = True

    def __init__(self, certificate: bytes, key: bytes) -> None:
        self.follow = threading.Event()
        self.asked: list[str] = []
        self.tunnelled: list[Any] = []  # the connections of tunnels
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.kubelet = self  # type: ignore[attr-defined]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            for name, data in (("cert", certificate), ("key", key)):
                Path(folder, name).write_bytes(data)
            context.load_cert_chain(Path(folder, "cert"), Path(folder, "key"))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def lose_tunnels(self) -> None:
        for tunnel in list(self.tunnelled):
            tunnel.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.follow.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Streams:
    """The frames of SPDY/3.1 on a connection, without flow control."""

    def __init__(self, connection: Any) -> None:
        self._connection, self._raw = connection, b""

    def _frames(self) -> Iterator[tuple[int, int, bytes]]:
        """Type or stream, flags, and body of each frame."""
        while True:
            while len(self._raw) < 8 or len(self._raw) < (end := 8 + int.from_bytes(self._raw[5:8], "big")):
                more = self._connection.recv(65536)
                if not more:
                    return
                self._raw += more
            head, body, self._raw = self._raw[:8], self._raw[8:end], self._raw[end:]
            yield int.from_bytes(head[:4], "big"), head[4], body

    def opened(self, count: int) -> list[int]:
        """The ids of the next streams, each of which is answered; fewer when the connection ends."""
        found = []
        for first, _, body in self._frames():
            if first == 0x80030001:
                found.append(int.from_bytes(body[:4], "big"))
                self._connection.sendall(b"\x80\x03\x00\x02\x00\x00\x00" + bytes((4 + len(EMPTY),)) + body[:4] + EMPTY)
                self._connection.sendall(b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x02")  # a ping
                if len(found) == count:
                    break
        return found

    def data(self) -> Iterator[tuple[int, bytes]]:
        """Data by stream, empty at its end."""
        for first, flags, body in self._frames():
            if first >> 31 == 0:
                if body:
                    yield first, body
                if flags & 1:
                    yield first, b""

    def send(self, stream: int, data: bytes) -> None:
        """Without data it ends the stream."""
        self._connection.sendall(stream.to_bytes(4, "big") + bytes((not data,)) + len(data).to_bytes(3, "big") + data)


#: a block without headers
EMPTY = zlib.compress(b"\0\0\0\0")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.kubelet.asked.append(self.path)
        parsed = urlsplit(self.path)
        query = parse_qs(parsed.query, keep_blank_values=True)
        what = parsed.path.split("/")[1]
        if what == "containerLogs":
            self._logs(query)
        elif what == "exec":
            self._exec(query["command"])
        elif what == "attach":
            self._exec(["cat"] if "input" in query else ["echo", "what", "runs"])
        elif what == "portForward":
            self._forward(query)
        self.close_connection = True

    def do_POST(self) -> None:
        """Streams of SPDY.  A client opens them in the order that upstream's do, so their headers need not be read."""
        self.server.kubelet.asked.append(self.path)
        parsed = urlsplit(self.path)
        query = parse_qs(parsed.query, keep_blank_values=True)
        self.close_connection = True
        self.streams = Streams(self.connection)
        self.send_response(101)
        self.send_header("Upgrade", "SPDY/3.1")
        self.send_header("Connection", "Upgrade")
        self.send_header("X-Stream-Protocol-Version", self.headers.get_all("X-Stream-Protocol-Version")[0])
        self.end_headers()
        self.wfile.flush()
        if parsed.path.startswith("/portForward"):
            self._forward_streams()
            return
        channels = [ERROR, *([STDIN] if "input" in query else []), STDOUT, *([STDERR] if "error" in query else [])]
        opened = dict(zip(channels, self.streams.opened(len(channels)), strict=True))
        status: dict[str, Any] = {"metadata": {}, "status": "Success"}
        name, *words = query["command"]
        if name == "cat":
            for stream, data in self.streams.data():
                if stream == opened[STDIN] and not data:
                    break
                self.streams.send(opened[STDOUT], data)
        elif name == "fail":
            self.streams.send(opened[STDERR], b"oops\n")
            text = f"command terminated with non-zero exit code: exit status {words[0]}"
            causes = [{"reason": "ExitCode", "message": words[0]}]
            status |= {"status": "Failure", "message": text, "reason": "NonZeroExitCode", "details": {"causes": causes}}
        self.streams.send(opened[ERROR], json.dumps(status).encode())
        self.streams.send(opened[ERROR], b"")
        self.streams.send(opened[STDOUT], b"last")  # a status may come before the end of the output
        for stream in opened.values():
            self.streams.send(stream, b"")
        for _ in self.streams.data():
            pass

    def _forward_streams(self) -> None:
        found = self.streams.opened(2)
        for stream, data in self.streams.data() if found else ():
            if stream == found[1] and data:
                self.streams.send(stream, data.upper())

    def _logs(self, query: dict[str, list[str]]) -> None:
        lines = [b"one\n", b"two\n", b"three"]
        tail = int(query.get("tailLines", ["99"])[0])
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._chunk(b"".join(lines[-tail:] if tail else []))
        if query.get("follow") == ["true"]:
            self.server.kubelet.follow.wait(120)
            self._chunk(b"\nfour\n")
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _upgrade(self, protocol: str) -> None:
        offered = (self.headers["Sec-WebSocket-Protocol"] or "").replace(" ", "").split(",")
        assert protocol in offered, offered
        self.frames = FrameProtocol(client=False, extensions=[])
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        token = generate_accept_token(self.headers["Sec-WebSocket-Key"].encode())
        self.send_header("Sec-WebSocket-Accept", token.decode())
        self.send_header("Sec-WebSocket-Protocol", protocol)
        self.end_headers()
        self.wfile.flush()

    def _send(self, channel: int, data: bytes) -> None:
        self.wfile.write(self.frames.send_data(bytes((channel,)) + data, fin=True))
        self.wfile.flush()

    def _messages(self) -> Iterator[bytes]:
        parts = b""
        while data := self.connection.recv(65536):
            self.frames.receive_bytes(data)
            for frame in self.frames.received_frames():
                if frame.opcode is Opcode.CLOSE:
                    return
                if frame.opcode is Opcode.PING:
                    payload: Any = frame.payload
                    self.wfile.write(self.frames.pong(bytes(payload)))
                elif frame.opcode in (Opcode.BINARY, Opcode.CONTINUATION):
                    payload = frame.payload
                    parts += bytes(payload)
                    if frame.message_finished:
                        yield parts
                        parts = b""

    def _goodbye(self) -> None:
        self.wfile.write(self.frames.close(CloseReason.NORMAL_CLOSURE))
        self.wfile.flush()
        for _ in self._messages():
            pass

    def _exec(self, command: list[str]) -> None:
        self._upgrade("v5.channel.k8s.io")
        status: dict[str, Any] = {"metadata": {}, "status": "Success"}
        name, *words = command
        if name == "echo":
            self._send(STDOUT, (" ".join(words) + "\n").encode())
        elif name == "bytes":
            for start in range(0, int(words[0]), 30000):
                self._send(STDOUT, b"x" * min(30000, int(words[0]) - start))
        elif name == "cat":
            for message in self._messages():
                if message == bytes((CLOSE, 0)):
                    break
                if message[0] == STDIN:
                    self._send(STDOUT, message[1:])
        elif name in ("tar", "test", "sh"):
            self._program(command, status)
        elif name == "fail":
            self._send(STDERR, b"oops\n")
            text = f"command terminated with non-zero exit code: exit status {words[0]}"
            causes = [{"reason": "ExitCode", "message": words[0]}]
            status |= {"status": "Failure", "message": text, "reason": "NonZeroExitCode", "details": {"causes": causes}}
        else:
            text = f'exec: "{name}": executable file not found in $PATH'
            status |= {"status": "Failure", "message": text, "reason": "InternalError", "code": 500}
        self._send(ERROR, json.dumps(status).encode())
        self._goodbye()

    def _program(self, command: list[str], status: dict[str, Any]) -> None:
        """Runs a program of this machine; it reads what the client sends when it says so.

        What ``tar`` tells beside an archive is left out: kubectl may end before it has printed it.
        """
        given = b""
        if "-" in command and "-xmf" in command:
            for message in self._messages():
                if message == bytes((CLOSE, 0)):
                    break
                given += message[1:]
        done = subprocess.run(command, input=given, capture_output=True, check=False)
        for channel, data in ((STDOUT, done.stdout), (STDERR, done.stderr if done.returncode else b"")):
            for start in range(0, len(data), 30000):
                self._send(channel, data[start : start + 30000])
        if done.returncode:
            causes = [{"reason": "ExitCode", "message": str(done.returncode)}]
            text = f"command terminated with non-zero exit code: exit status {done.returncode}"
            status |= {"status": "Failure", "message": text, "reason": "NonZeroExitCode", "details": {"causes": causes}}

    def _forward(self, query: dict[str, list[str]]) -> None:
        if self.headers["Sec-WebSocket-Protocol"] == TUNNEL:
            if not self.server.kubelet.tunnels:
                self.send_error(403)
                return
            self._upgrade(TUNNEL)
            self.server.kubelet.tunnelled.append(self.connection)
            try:
                for _ in self._messages():
                    pass
            finally:
                self.server.kubelet.tunnelled.remove(self.connection)
            return
        self._upgrade("v4.channel.k8s.io")
        port = int(query["port"][0])
        for channel in (0, 1):
            self._send(channel, port.to_bytes(2, "little"))
        if port == 9:
            self._send(1, b"an error occurred forwarding 9: connection refused")
            return
        for message in self._messages():
            if message[0] == 0:
                self._send(0, message[1:].upper())
