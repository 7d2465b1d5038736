"""The interface of a TCP or TLS connection, which Twisted defines in several parts."""

from __future__ import annotations

from twisted.internet.interfaces import IConsumer, IPushProducer, ITCPTransport


class StreamTransport(ITCPTransport, IConsumer, IPushProducer):
    """A byte stream in both directions, each with back-pressure; ``abortConnection`` ends it at once."""


def close_when_sent(transport: StreamTransport) -> None:
    """Ends a connection after its last bytes are sent; nothing may be written to it afterwards.

    ``loseConnection`` alone would wait for a paused producer to write more, even if the producer has ended.
    """
    transport.unregisterProducer()
    transport.loseConnection()
