"""Counts connections that end by a fault of their client, and logs one line for those of several seconds.

A scan or an attack makes thousands of them, which must not fill the log.
"""

from __future__ import annotations

import msgspec
from twisted.logger import Logger

from kapi.machinery.meters import Counter

log = Logger()
_PERIOD_SECONDS = 10.0  # of one log line


class _Burst(msgspec.Struct):
    since: float
    count: int = 0
    peer: object = None
    error: object = None


class ConnectionErrors:
    """Collects errors; ``sweep`` is called about every second."""

    def __init__(self) -> None:
        self.counter = Counter(
            "kapi_connection_errors_total",
            "[ALPHA] Number of connections that were ended for what their client did, by reason",
            ["reason"],
        )
        self._bursts: dict[str, _Burst] = {}

    def add(self, reason: str, peer: object, error: object, now: float) -> None:
        """Adds an error.  ``reason`` is one of a few words, for the metric; ``error`` is for the log."""
        self.counter.add(reason)
        burst = self._bursts.get(reason)
        if burst is None:
            burst = self._bursts[reason] = _Burst(now)
        burst.count += 1
        burst.peer, burst.error = peer, str(error)

    def sweep(self, now: float) -> None:
        """Logs the errors of a period that has ended."""
        for reason, burst in list(self._bursts.items()):
            if now - burst.since >= _PERIOD_SECONDS:
                del self._bursts[reason]
                self._log(reason, burst)

    def flush(self) -> None:
        """Logs the rest when the server stops."""
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
