"""The value of Retry-After: higher when many requests were rejected recently (upstream: ``dropped_requests_tracker.go``)."""

from __future__ import annotations

from collections import deque

_MAX_SECONDS = 32  # seconds


class RetryAfter:
    """Retry-After of one priority level, in seconds; it doubles under load and later decreases by one."""

    def __init__(self) -> None:
        self.seconds = 1
        self._history: deque[tuple[int, int]] = deque()  # (second, dropped in it)
        self._second = 0
        self._count = 0
        self._raised = 0

    def dropped(self, now: float) -> None:
        """Counts one rejected request at ``now`` (seconds of a monotonic clock)."""
        second = int(now)
        if second == self._second:
            self._count += 1
            return
        self._history.append((self._second, self._count))
        while self._history and second - self._history[0][0] > min(2 * self.seconds, _MAX_SECONDS):
            self._history.popleft()
        self._second, self._count = second, 1
        recent = sum(count for when, count in self._history if second - when <= self.seconds)
        if second - self._raised >= self.seconds and recent >= 3 * self.seconds:
            self.seconds = min(2 * self.seconds, _MAX_SECONDS)
            self._raised = second
        elif recent < self.seconds and self.seconds > 1:
            self.seconds -= 1
