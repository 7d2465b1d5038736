"""A kubelet, pod and extension server in one, which sends without end, and the streams that lead to it."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.admission.certificates import make_certificate

PIECE = bytes(64 * 1024)
_BUFFER_BYTES = 16 * 1024  # of the system, for each connection
_BACKLOG = 1024
_KEY = base64.b64encode(b"a key of sixteen").decode()
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
NODE, POD, SERVICE, GROUP = "flood", "flood", "flood", "flood.example.com"


def websocket(*protocols: str) -> tuple[str, ...]:
    wanted = (f"Sec-WebSocket-Protocol: {', '.join(protocols)}",) if protocols else ()
    return (
        "Connection: Upgrade", "Upgrade: websocket", "Origin: https://x", "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {_KEY}", *wanted,
    )  # fmt: skip


SPDY = ("Connection: Upgrade", "Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io")


class Stream(NamedTuple):
    """What a client asks for and does not read."""

    path: str
    headers: tuple[str, ...] = ()
    method: str = "GET"


_MAPS = "/api/v1/namespaces/default/configmaps"
_POD = f"/api/v1/namespaces/default/pods/{POD}"
_EXEC = f"{_POD}/exec?command=yes&stdout=1"
_WATCH = f"{_MAPS}?watch=1&resourceVersion=0"
_STREAMED = f"{_MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
#: of the server itself
OWN = {
    "list": Stream(_MAPS),
    "list as YAML": Stream(_MAPS, ("Accept: application/yaml",)),
    "list as protobuf": Stream(_MAPS, (f"Accept: {_PROTOBUF}",)),
    "list as a Table": Stream(_MAPS, (f"Accept: {TABLE}",)),
    "list as gzip": Stream(_MAPS, ("Accept-Encoding: gzip",)),
    "watch": Stream(_WATCH),
    "watch as a Table": Stream(_WATCH, (f"Accept: {TABLE}",)),
    "watch as protobuf": Stream(_WATCH, (f"Accept: {_PROTOBUF};stream=watch",)),
    "watch over a WebSocket": Stream(_WATCH, websocket()),
    "streamed list": Stream(_STREAMED),
    "OpenAPI v2": Stream("/openapi/v2"),
    "OpenAPI v2 as gzip": Stream("/openapi/v2", ("Accept-Encoding: gzip",)),
    "OpenAPI v3": Stream("/openapi/v3/api/v1"),
    "discovery": Stream("/apis", ("Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",)),
    "metrics": Stream("/metrics"),
    "console": Stream("/kapi/console/main.js"),  # with --enable-console
    "changes": Stream("/kapi/console/changes"),
}
#: of other servers, to which the server passes requests on
PASSED_ON = {
    "log": Stream(f"{_POD}/log?follow=1"),
    "exec over SPDY": Stream(_EXEC, SPDY, "POST"),
    "exec over a WebSocket": Stream(_EXEC, websocket("v5.channel.k8s.io")),
    "attach over a WebSocket": Stream(f"{_POD}/attach?stdout=1", websocket("v5.channel.k8s.io")),
    "port-forward over SPDY": Stream(f"{_POD}/portforward", SPDY, "POST"),
    "port-forward over a WebSocket": Stream(f"{_POD}/portforward", websocket("SPDY/3.1+portforward.k8s.io")),
    "node proxy": Stream(f"/api/v1/nodes/{NODE}/proxy/x"),
    "pod proxy": Stream(f"/api/v1/namespaces/default/pods/https:{POD}:PORT/proxy/x"),
    "service proxy": Stream(f"/api/v1/namespaces/default/services/https:{SERVICE}:x/proxy/x"),
    "pod proxy, WebSocket": Stream(f"/api/v1/namespaces/default/pods/https:{POD}:PORT/proxy/x", websocket("x")),
    "aggregated API": Stream(f"/apis/{GROUP}/v1/things"),
    "aggregated API, POST": Stream(f"/apis/{GROUP}/v1/things", ("Content-Length: 2",), "POST"),
    "aggregated API, WebSocket": Stream(f"/apis/{GROUP}/v1/things", websocket("x")),
}


class Flood:
    """Answers each request without end: after an upgrade, or in a body that ends with the connection.

    ``address`` is not a loopback one where there is another, since proxies lead to no other.
    """

    def __init__(self) -> None:
        self.address = _own_address()
        certificate, key = make_certificate("localhost")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "pair.pem"
            file.write_bytes(key + certificate)
            context.load_cert_chain(file)
        self._loop = asyncio.new_event_loop()
        listening = socket.create_server(("", 0), backlog=_BACKLOG)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)  # accepted ones inherit it
        self.port: int = listening.getsockname()[1]
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, sock=listening, ssl=context, backlog=_BACKLOG)
        )
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, TimeoutError):
            head = await reader.readuntil(b"\r\n\r\n")
            lower = head.lower()
            if b"\r\nupgrade:" in lower:
                lines = [b"HTTP/1.1 101 Switching Protocols", b"Connection: Upgrade"]
                lines += [line for line in head.split(b"\r\n") if line.lower().startswith(b"upgrade:")]
            elif b"/proxy" in lower or b"/things" in lower or b"/x " in lower or b"/containerlogs/" in lower:
                lines = [b"HTTP/1.1 200 OK", b"Content-Type: text/plain"]
            else:  # discovery, health
                body = (
                    b'{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"flood.example.com/v1","resources":[]}'
                )
                lines = [b"HTTP/1.1 200 OK", b"Content-Type: application/json", b"Connection: close"]
                writer.write(b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body]))
                await writer.drain()
                writer.close()
                return
            writer.write(b"\r\n".join([*lines, b"", b""]))
            while not reader.at_eof():
                writer.write(PIECE)
                await writer.drain()
                await asyncio.sleep(0)
        writer.transport.abort()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
        return address


@contextmanager
def flood() -> Iterator[Flood]:
    made = Flood()
    try:
        yield made
    finally:
        made.close()


def objects(made: Flood) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Method, path and body of what leads to it, in their order."""
    at = [{"type": "InternalIP", "address": made.address}]
    yield "POST", "/api/v1/nodes", {"metadata": {"name": NODE}}
    status: dict[str, object] = {"addresses": at, "daemonEndpoints": {"kubeletEndpoint": {"Port": made.port}}}
    yield "PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status}
    pods = "/api/v1/namespaces/default/pods"
    container = {"name": "c", "image": "i"}
    yield "POST", pods, {"metadata": {"name": POD}, "spec": {"nodeName": NODE, "containers": [container]}}
    status = {"podIP": made.address, "podIPs": [{"ip": made.address}], "phase": "Running"}
    yield "PATCH", f"{pods}/{POD}/status", {"status": status}
    services = "/api/v1/namespaces/default/services"
    port = {"name": "x", "port": made.port, "targetPort": made.port}
    yield "POST", services, {"metadata": {"name": SERVICE}, "spec": {"ports": [port]}}
    reference = {"kind": "Pod", "namespace": "default", "name": POD}
    subset = {"addresses": [{"ip": made.address, "targetRef": reference}], "ports": [{"name": "x", "port": made.port}]}
    yield "POST", "/api/v1/namespaces/default/endpoints", {"metadata": {"name": SERVICE}, "subsets": [subset]}
    external = {"type": "ExternalName", "externalName": "localhost"}
    yield "POST", services, {"metadata": {"name": "extension"}, "spec": external}
    yield (
        "POST",
        "/apis/apiregistration.k8s.io/v1/apiservices",
        {
            "metadata": {"name": f"v1.{GROUP}"},
            "spec": {
                "group": GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
                "insecureSkipTLSVerify": True,
                "service": {"namespace": "default", "name": "extension", "port": made.port},
            },
        },
    )  # fmt: skip
