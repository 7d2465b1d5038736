"""A request of a connection, as filters and endpoints see it."""

from __future__ import annotations

from twisted.internet.address import IPv4Address
from twisted.internet.testing import StringTransport

from kapi.server.request import APIRequest


class Channel:
    def __init__(self) -> None:
        self.transport = StringTransport(peerAddress=IPv4Address("TCP", "192.0.2.7", 1234))

    def getPeer(self) -> object:
        return self.transport.getPeer()


def test_the_client_is_known_until_the_last_finisher_has_run() -> None:
    """Failed authentication is audited when the answer is out, and says where it came from."""
    request = APIRequest(Channel())
    assert request.getClientAddress().host == "192.0.2.7"
    del request.channel  # as twisted.web does with a request that is answered
    assert request.getClientAddress().host == "192.0.2.7"
