"""Connections that end by a fault of their client: each is counted, and one log line covers several seconds.

A scan or an attack makes thousands of them, which must not fill the log.
"""

from __future__ import annotations

import msgspec
from twisted.logger import Logger

from kapi.machinery.meters import Counter

log = Logger()
_PERIOD_SECONDS = 10.0  # seconds


class _Burst(msgspec.Struct):
    since: float
    count: int = 0
    peer: object = None
    error: object = None


class ConnectionErrors:
    """``add`` takes one; ``sweep`` is called about every second."""

    def __init__(self) -> None:
        self.counter = Counter(
            "kapi_connection_errors_total",
            "[ALPHA] Number of connections that were ended for what their client did, by reason",
            ["reason"],
        )
        self._bursts: dict[str, _Burst] = {}

    def add(self, reason: str, peer: object, error: object, now: float) -> None:
        """``reason`` is one of a few words, ``error`` says more."""
        self.counter.add(reason)
        burst = self._bursts.get(reason)
        if burst is None:
            burst = self._bursts[reason] = _Burst(now)
        burst.count += 1
        burst.peer, burst.error = peer, str(error)

    def sweep(self, now: float) -> None:
        """Logs what has come together."""
        for reason, burst in list(self._bursts.items()):
            if now - burst.since >= _PERIOD_SECONDS:
                del self._bursts[reason]
                self._log(reason, burst)

    def flush(self) -> None:
        """Logs what there is: the server stops."""
        self.sweep(float("inf"))

    @staticmethod
    def _log(reason: str, burst: _Burst) -> None:
        log.info(
            "{count} connections ended by their clients' faults ({reason}); the last from {peer}: {error}",
            count=burst.count,
            reason=reason,
            peer=getattr(burst.peer, "host", burst.peer),
            error=burst.error,
        )
