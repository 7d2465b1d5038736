"""A signer of ServiceAccount tokens: gRPC over a unix socket, with keys that a test can change, and faults on command."""

from __future__ import annotations

import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kapi.wire.plugin_messages import decode, encode, last_text


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def public(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


class TokenSigner:
    """``calls`` are counted by method; ``key_id`` signs now, ``keys`` are shown, those in ``excluded`` not to others."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.keys = {"one": ec.generate_private_key(ec.SECP256R1())}
        self.key_id = "one"
        self.excluded: set[str] = set()
        self.hint = 3600
        self.max_seconds = 7200
        self.header: dict[str, Any] = {}  # what is other than it should be
        self.answer: bytes | None = None  # of FetchKeys, instead
        self.failing = ""
        self.calls = {"Sign": 0, "FetchKeys": 0, "Metadata": 0}
        self._server: Any = None

    def start(self) -> TokenSigner:
        import grpc

        def handler(name: str, answer: Any) -> Any:
            def handle(request: bytes, context: Any) -> bytes:
                self.calls[name] += 1
                if self.failing:
                    context.abort(grpc.StatusCode.INTERNAL, self.failing)
                return bytes(answer(decode(request)))

            return grpc.unary_unary_rpc_method_handler(handle)

        methods = {name: handler(name, getattr(self, f"_{name.lower()}")) for name in self.calls}
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.ExternalJWTSigner", methods),))
        self._server.add_insecure_port(self.address)
        self._server.start()
        return self

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None

    def rotate(self, key_id: str) -> None:
        self.keys[key_id] = ec.generate_private_key(ec.SECP256R1())
        self.key_id = key_id

    def token(self, claims: bytes) -> str:
        """Of claims that nobody asked to sign."""
        header, signature = self._parts(base64url(claims))
        return f"{header}.{base64url(claims)}.{signature}"

    def _parts(self, claims: str) -> tuple[str, str]:
        fields = {"alg": "ES256", "typ": "JWT", "kid": self.key_id, **self.header}
        header = base64url(json.dumps({key: value for key, value in fields.items() if value is not None}).encode())
        der = self.keys[self.key_id].sign(f"{header}.{claims}".encode(), ec.ECDSA(SHA256()))
        return header, base64url(b"".join(number.to_bytes(32, "big") for number in decode_dss_signature(der)))

    def _sign(self, request: Any) -> bytes:
        header, signature = self._parts(last_text(request, 1))
        return encode([(1, header.encode()), (2, signature.encode())])

    def _fetchkeys(self, request: Any) -> bytes:
        if self.answer is not None:
            return self.answer
        shown = [
            (1, encode([(1, key_id.encode()), (2, public(key)), (3, int(key_id in self.excluded))]))
            for key_id, key in self.keys.items()
        ]
        return encode([*shown, (2, encode([(1, int(time.time()))])), (3, self.hint)])

    def _metadata(self, request: Any) -> bytes:
        return encode([(1, self.max_seconds)])
