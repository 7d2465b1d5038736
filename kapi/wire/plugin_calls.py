"""gRPC calls over a unix socket (upstream: ``google.golang.org/grpc``).

gRPC runs its own threads.  A call begins in the reactor's thread, does not block it, and its result is delivered there.  gRPC is
installed with the extra ``kapi[kms]``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from kapi.process.reactor import Reactor

#: method, gRPC's name of the outcome, seconds
Observe = Callable[[str, str, float], None]


class PluginError(Exception):
    """A call failed, or the plugin answered with an error.  ``code`` is gRPC's name of the status."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


def require() -> None:
    """Raises ImportError when gRPC is not installed."""
    # a fork of this process (for the store's server) runs another program at once, and needs no gRPC
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    import grpc  # noqa: F401


class Calls:
    """Calls to one ``service`` (its full name) at one socket.

    ``path`` of the socket begins with ``@`` in the abstract namespace.  ``max_message`` is in bytes, of an answer.
    """

    def __init__(self, reactor: Reactor, path: str, service: str, max_message: int, observe: Observe) -> None:
        import grpc

        self._grpc = grpc
        self._reactor = reactor
        self._service = f"/{service}/"
        self._observe = observe
        options = [
            ("grpc.max_receive_message_length", max_message),
            ("grpc.default_authority", "localhost"),
            ("grpc.enable_http_proxy", 0),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.min_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 2000),
        ]
        address = f"unix-abstract:{path[1:]}" if path.startswith("@") else f"unix:{path}"
        self._channel = grpc.insecure_channel(address, options)

    def close(self) -> None:
        """Closes the channel; calls under way fail."""
        self._channel.close()

    def call(self, method: str, request: bytes, timeout: float) -> Deferred[bytes]:
        """Fires with the answer.  Waits ``timeout`` seconds, also for the plugin to start.  Fails with PluginError."""
        done: Deferred[bytes] = Deferred()
        began = self._reactor.seconds()
        try:
            call = self._channel.unary_unary(self._service + method)
            future = call.future(request, timeout=timeout, wait_for_ready=True)
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
        self._observe(self._service + method, name, self._reactor.seconds() - began)
        if done.called:
            return
        if code == self._grpc.StatusCode.OK:
            done.callback(result.result())
        else:
            done.errback(PluginError(f"rpc error: code = {name} desc = {result.details()}", name))
