"""Local ports of a PortForward, without a server."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from kapi.client.portforward import PortForward


class ListeningReactor(MemoryReactorClock):
    """Knows at which addresses somebody listens."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:
        listening = super().listenTCP(port, factory, backlog, interface)
        listening.stopListening = lambda: self.addresses.remove(interface)
        self.addresses.append(interface)
        return listening


class PortForwardTests(SynchronousTestCase):
    def test_closing_ends_every_address_that_was_listened_on(self) -> None:
        """``localhost`` is two addresses of one PortForward."""
        reactor, client = ListeningReactor(), None
        forward = PortForward(client, "default", "pod", 80)  # type: ignore[arg-type]  # nobody connects
        for address in ("127.0.0.1", "::1"):
            self.successResultOf(Deferred.fromCoroutine(forward.listen(reactor, 8080, address)))
        assert reactor.addresses == ["127.0.0.1", "::1"]
        self.successResultOf(Deferred.fromCoroutine(forward.close()))
        assert reactor.addresses == []
