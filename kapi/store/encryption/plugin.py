"""Calls of a KMS v2 plugin (upstream: apiserver ``kmsv2/grpc_service.go``)."""

from __future__ import annotations

from collections.abc import Mapping

from kapi.request.reactor import Reactor
from kapi.wire.plugin_calls import Calls, Observe
from kapi.wire.plugin_messages import decode, decode_map, encode, encode_map, last_bytes, last_text

_SERVICE = "v2.KeyManagementService"
_MAX_MESSAGE = 64 * 1024  # bytes of an answer


class Plugin:
    """One plugin.  ``timeout``: seconds for each call."""

    def __init__(self, reactor: Reactor, path: str, timeout: float, observe: Observe) -> None:
        self._calls = Calls(reactor, path, _SERVICE, _MAX_MESSAGE, observe)
        self._timeout = timeout

    def close(self) -> None:
        """Closes the connection; running calls fail."""
        self._calls.close()

    async def status(self) -> tuple[str, str, str]:
        """Returns version, health ("ok") and key id.  Raises PluginError, WireError."""
        fields = decode(await self._calls.call("Status", b"", self._timeout))
        return last_text(fields, 1), last_text(fields, 2), last_text(fields, 3)

    async def encrypt(self, plain: bytes, uid: str) -> tuple[bytes, str, dict[str, bytes]]:
        """Returns ciphertext, key id and annotations.  Raises PluginError, WireError."""
        request = encode([(1, plain), (2, uid.encode())])
        fields = decode(await self._calls.call("Encrypt", request, self._timeout))
        return last_bytes(fields, 1), last_text(fields, 2), decode_map(fields, 3)

    async def decrypt(self, ciphertext: bytes, uid: str, key_id: str, annotations: Mapping[str, bytes]) -> bytes:
        """Returns the plain text.  Raises PluginError, WireError."""
        request = encode([(1, ciphertext), (2, uid.encode()), (3, key_id.encode()), *encode_map(4, annotations)])
        return last_bytes(decode(await self._calls.call("Decrypt", request, self._timeout)), 1)
