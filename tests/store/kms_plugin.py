"""A KMS v2 plugin: gRPC over a unix socket, with keys by id that a test can change, and faults on command."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kapi.wire.plugin_messages import decode, decode_map, encode, encode_map, last_bytes, last_text

ANNOTATION = "version.encryption.example.com"


class KmsPlugin:
    """``calls`` are counted by method; ``key_id`` is what writes use now, ``keys`` what reads find."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.address = f"unix:{path}"
        self.key_id = "1"
        self.encrypts_with = ""  # another key than the status names
        self.health = "ok"
        self.version = "v2"
        self.keys: dict[str, bytes] = {"1": os.urandom(32)}
        self.calls = {"Status": 0, "Encrypt": 0, "Decrypt": 0}
        self.hangs = threading.Event()
        self.hangs.set()
        self._server: Any = None

    def start(self) -> KmsPlugin:
        import grpc

        def handler(name: str, answer: Any) -> Any:
            def handle(request: bytes, context: Any) -> bytes:
                self.calls[name] += 1
                self.hangs.wait(120)
                try:
                    return bytes(answer(decode(request)))
                except KeyError as error:
                    context.abort(grpc.StatusCode.NOT_FOUND, f"no key {error}")
                    raise

            return grpc.unary_unary_rpc_method_handler(handle)

        methods = {name: handler(name, getattr(self, f"_{name.lower()}")) for name in self.calls}
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v2.KeyManagementService", methods),)
        )
        self._server.add_insecure_port(self.address)
        self._server.start()
        return self

    def stop(self) -> None:
        self.hangs.set()
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None
        self.path.unlink(missing_ok=True)

    def rotate(self, key_id: str) -> None:
        self.keys[key_id] = os.urandom(32)
        self.key_id = key_id

    def _status(self, request: Any) -> bytes:
        return encode([(1, self.version.encode()), (2, self.health.encode()), (3, self.key_id.encode())])

    def _encrypt(self, request: Any) -> bytes:
        assert last_text(request, 2)
        key_id = self.encrypts_with or self.key_id
        nonce = os.urandom(12)
        sealed = nonce + AESGCM(self.keys[key_id]).encrypt(nonce, last_bytes(request, 1), b"")
        return encode([(1, sealed), (2, key_id.encode()), *encode_map(3, {ANNOTATION: b"1"})])

    def _decrypt(self, request: Any) -> bytes:
        assert decode_map(request, 4) == {ANNOTATION: b"1"}
        sealed = last_bytes(request, 1)
        return encode([(1, AESGCM(self.keys[last_text(request, 3)]).decrypt(sealed[:12], sealed[12:], b""))])
