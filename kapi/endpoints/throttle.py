"""A limit to the bytes that a tunnel takes from one side a second (upstream: apimachinery ``util/proxy``, ``flowrate``)."""

from __future__ import annotations

from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from zope.interface import implementer


@implementer(IPushProducer)
class Throttle:
    """The producer of a connection's bytes, in the place of its ``transport``: it pauses for the consumer, and for the limit.

    Call ``passed`` with the number of bytes that were taken.
    """

    def __init__(self, transport: IPushProducer, bytes_per_second: int, clock: IReactorTime) -> None:
        self._transport = transport
        self._rate = bytes_per_second
        self._clock = clock
        self._free = 0.0  # when what was taken until now is within the limit
        self._timer: IDelayedCall | None = None
        self._full = False  # the consumer takes no more
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
        if left > 0:  # bytes that were on their way came when it was paused
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
        """Nobody takes the bytes any more: the connection is to read its end."""
        if not self._over:
            self.close()
            self._transport.resumeProducing()

    def close(self) -> None:
        """The connection is gone."""
        self._over = True
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
