"""Limits the bytes per second in one direction of a tunnel (upstream: apimachinery ``util/proxy``, ``flowrate``)."""

from __future__ import annotations

from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from zope.interface import implementer


@implementer(IPushProducer)
class Throttle:
    """A producer in place of a connection's ``transport``: it pauses for the consumer, and for the limit.

    Call ``passed`` with the number of bytes that were received.
    """

    def __init__(self, transport: IPushProducer, bytes_per_second: int, clock: IReactorTime) -> None:
        self._transport = transport
        self._rate = bytes_per_second
        self._clock = clock
        self._free = 0.0  # the time from which on more bytes are within the limit
        self._timer: IDelayedCall | None = None
        self._full = False  # whether the consumer has paused
        self._over = False

    def passed(self, count: int) -> None:
        if self._over:
            return
        now = self._clock.seconds()
        self._free = max(now, self._free) + count / self._rate
        if self._timer is None:
            self._transport.pauseProducing()
            self._timer = self._clock.callLater(self._free - now, self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        left = self._free - self._clock.seconds()
        if left > 0:  # some bytes arrived after the pause
            self._timer = self._clock.callLater(left, self._go_on)
        elif not self._full:
            self._transport.resumeProducing()

    def pauseProducing(self) -> None:
        self._full = True
        self._transport.pauseProducing()

    def resumeProducing(self) -> None:
        self._full = False
        if self._timer is None:
            self._transport.resumeProducing()

    def stopProducing(self) -> None:
        self.close()
        self._transport.stopProducing()

    def release(self) -> None:
        """Called when the other end has gone: reads without a limit until the connection ends."""
        if not self._over:
            self.close()
            self._transport.resumeProducing()

    def close(self) -> None:
        """Called when the connection is lost."""
        self._over = True
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
