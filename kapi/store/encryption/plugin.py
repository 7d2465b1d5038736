"""Questions to a KMS v2 plugin: gRPC over a unix socket (upstream: apiserver ``kmsv2/grpc_service.go``).

gRPC has threads of its own: a call is begun in the reactor's thread and its end is told there, so that nobody is held up.
Without the extra ``kapi[kms]`` there is no gRPC.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from kapi.store.encryption.wire import decode, decode_map, encode, encode_map, last_bytes, last_text

_SERVICE = "/v2.KeyManagementService/"
_MAX_MESSAGE = 64 * 1024  # bytes of an answer
#: method, gRPC's name of the outcome, seconds
Observe = Callable[[str, str, float], None]


class PluginError(Exception):
    """The plugin could not be asked, or said no."""


def require() -> None:
    """Raises ImportError without the extra."""
    # the store's server is forked, and is another program at once
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    import grpc  # noqa: F401


class Plugin:
    """One plugin.  ``timeout``: seconds of each call."""

    def __init__(self, reactor: Any, path: str, timeout: float, observe: Observe) -> None:
        import grpc

        self._grpc = grpc
        self._reactor = reactor
        self._timeout = timeout
        self._observe = observe
        options = [
            ("grpc.max_receive_message_length", _MAX_MESSAGE),
            ("grpc.default_authority", "localhost"),
            ("grpc.enable_http_proxy", 0),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.min_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 2000),
        ]
        self._channel = grpc.insecure_channel(f"unix:{path}", options)

    def close(self) -> None:
        """What is under way fails."""
        self._channel.close()

    def _call(self, method: str, request: bytes) -> Deferred[bytes]:
        """Fails with PluginError."""
        done: Deferred[bytes] = Deferred()
        began = self._reactor.seconds()
        try:
            call = self._channel.unary_unary(_SERVICE + method)
            future = call.future(request, timeout=self._timeout, wait_for_ready=True)
        except ValueError as error:  # the channel is closed
            done.errback(PluginError(str(error)))
            return done

        def ended(result: object) -> None:
            self._reactor.callFromThread(self._ended, method, began, result, done)

        future.add_done_callback(ended)
        return done

    def _ended(self, method: str, began: float, result: Any, done: Deferred[bytes]) -> None:
        code = result.code()
        name = "".join(word.capitalize() for word in code.name.split("_")) if code.name != "OK" else "OK"
        self._observe(_SERVICE + method, name, self._reactor.seconds() - began)
        if done.called:
            return
        if code == self._grpc.StatusCode.OK:
            done.callback(result.result())
        else:
            done.errback(PluginError(f"rpc error: code = {name} desc = {result.details()}"))

    async def status(self) -> tuple[str, str, str]:
        """Version, health ("ok") and key id.  Raises PluginError, WireError."""
        fields = decode(await self._call("Status", b""))
        return last_text(fields, 1), last_text(fields, 2), last_text(fields, 3)

    async def encrypt(self, plain: bytes, uid: str) -> tuple[bytes, str, dict[str, bytes]]:
        """Ciphertext, key id and annotations.  Raises PluginError, WireError."""
        fields = decode(await self._call("Encrypt", encode([(1, plain), (2, uid.encode())])))
        return last_bytes(fields, 1), last_text(fields, 2), decode_map(fields, 3)

    async def decrypt(self, ciphertext: bytes, uid: str, key_id: str, annotations: Mapping[str, bytes]) -> bytes:
        """Raises PluginError, WireError."""
        request = encode([(1, ciphertext), (2, uid.encode()), (3, key_id.encode()), *encode_map(4, annotations)])
        return last_bytes(decode(await self._call("Decrypt", request)), 1)
