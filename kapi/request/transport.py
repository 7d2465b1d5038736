"""What a TCP or TLS connection offers to its protocol, and a listening port to its owner: Twisted says it in pieces."""

from __future__ import annotations

from twisted.internet.interfaces import IConsumer, IPushProducer, ITCPTransport


class StreamTransport(ITCPTransport, IConsumer, IPushProducer):
    """Bytes both ways, with back-pressure both ways, and an end at once (``abortConnection``)."""
