"""A webhook server that is cheap enough not to be what is measured: asyncio, HTTP/1.1, TLS, kept connections.

``python -m tests.bench.webhook_server`` prints its port and its certificate (base64 of PEM) on one line and serves until
its standard input ends.  ``/mutate`` adds an annotation, ``/grow`` 10,000 keys of data, ``/validate`` allows, ``/convert``
gives the objects of a ConversionReview another version, other names answer as ``_large`` says;
``GET /`` tells what it has seen as JSON:
``connections`` (TLS handshakes) and ``requests``.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import sys
import tempfile
from pathlib import Path

import orjson

from tests.certificates import self_signed

_PATCH = base64.b64encode(b'[{"op":"add","path":"/metadata/annotations","value":{"seen":"yes"}}]').decode()
_GROWTH = base64.b64encode(  # as many operations as are allowed
    orjson.dumps([{"op": "add", "path": f"/data/g{number}", "value": "v" * 40} for number in range(10_000)])
).decode()
_SIZE = 2_900_000  # bytes of a large answer; 3 MiB are read
_HEAD = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def _patch(operations: list[dict[str, object]]) -> dict[str, object]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(operations)).decode()}


def _rules(size: int) -> list[dict[str, object]]:
    return [{"apiGroups": ["a.b"], "resources": [f"r{i}"], "verbs": ["get"]} for i in range(size // 55)]


def _large(name: str) -> dict[str, object]:
    """What the answer of this name has besides ``allowed``: as much as a server reads of one."""
    match name:
        case "patch-operations":
            return _patch([{"op": "add", "path": "/a", "value": i} for i in range(_SIZE * 3 // 4 // 36)])
        case "patch-value":
            return _patch([{"op": "replace", "path": "/rules", "value": _rules(_SIZE * 2 // 3)}])
        case "patch-text":
            return _patch([{"op": "add", "path": "/metadata/annotations", "value": {"a": "b" * (_SIZE * 2 // 3)}}])
        case "patch-tests":
            return _patch(
                [{"op": "test", "path": f"/rules/{i}/verbs", "value": ["get"]} for i in range(9_999)]
                + [{"op": "test", "path": "/rules", "value": _rules(_SIZE // 2)}]
            )
        case "patch-moves":
            return _patch([{"op": "move", "from": "/rules/0", "path": "/rules/-"}] * 10_000)
        case "patch-copies":
            return _patch([{"op": "copy", "from": "/rules", "path": "/metadata/labels/a"}] * 10_000)
        case "patch-small-copies":
            return _patch([{"op": "copy", "from": "/rules/0", "path": "/rules/-"}] * 10_000)
        case "warnings":
            return {"warnings": [f"warning {i}" for i in range(_SIZE // 18)]}
        case "warning":
            return {"warnings": ["w" * _SIZE]}
        case "short-warnings":
            return {"warnings": [chr(0x100 + i % 0xD000) for i in range(_SIZE // 6)]}
        case "annotations":
            return {"auditAnnotations": {f"a{i}": "b" for i in range(_SIZE // 15)}}
        case "annotation":
            return {"auditAnnotations": {"a": "b" * _SIZE}}
        case "message":
            return {"allowed": False, "status": {"message": "m" * _SIZE}}
        case "causes":
            causes = [{"message": "m", "field": f"f{i}"} for i in range(_SIZE // 35)]
            return {"allowed": False, "status": {"message": "m", "details": {"causes": causes}}}
        case "unknown":
            return {"unknown": [{} for _ in range(_SIZE // 3)]}
        case "uid":
            return {"uid": "\u0001" * (_SIZE // 6)}
    return {}


_TEXTS = {"half": b'{"response":' + b'{"a":' * (_SIZE // 5), "error": b"e" * _SIZE}


class Webhook(asyncio.Protocol):
    """One connection."""

    connections = 0
    requests = 0

    def __init__(self) -> None:
        self.buffer = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        Webhook.connections += 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while True:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self.buffer[:end].lower()
            at = head.find(b"content-length:")
            length = 0 if at < 0 else int(head[at + 15 :].split(b"\r", 1)[0])
            if len(self.buffer) < end + 4 + length:
                return
            body = self.buffer[end + 4 : end + 4 + length]
            self.buffer = self.buffer[end + 4 + length :]
            answer = self.answer(head, body)
            code = b"500 Broken" if b" /error" in head else b"200 OK"
            self.transport.write(_HEAD % (code, len(answer)) + answer)

    def answer(self, head: bytes, body: bytes) -> bytes:
        if head.startswith(b"get"):
            return orjson.dumps({"connections": Webhook.connections, "requests": Webhook.requests})
        Webhook.requests += 1
        request = orjson.loads(body)["request"]
        if head.startswith(b"post /convert"):
            objects = [{**obj, "apiVersion": request["desiredAPIVersion"]} for obj in request["objects"]]
            converted = {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
            review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": converted}
            return orjson.dumps(review)
        response = {"uid": request["uid"], "allowed": True}
        if head.startswith(b"post /mutate"):
            response |= {"patchType": "JSONPatch", "patch": _PATCH}
        elif head.startswith(b"post /grow"):
            response |= {"patchType": "JSONPatch", "patch": _GROWTH}
        else:
            name = head.partition(b"?")[0].removeprefix(b"post /").partition(b" ")[0].decode()
            if name in _TEXTS:
                return _TEXTS[name]
            response |= _large(name)
        return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


async def serve() -> None:
    pem, key = self_signed("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pem + key)
        context.load_cert_chain(file.name)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Webhook, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], base64.b64encode(pem).decode(), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
