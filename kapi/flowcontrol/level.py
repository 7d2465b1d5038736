"""The state of a priority level (limits, queues, borrowing), and the division of concurrency by demand (KEP-1040).

Retry-After is higher when many requests were rejected recently.
Upstream: ``util/flowcontrol/{apf_controller,conc_alloc,dropped_requests_tracker}.go``.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from twisted.internet.interfaces import IReactorTime

from kapi.flowcontrol.fair_queues import FairQueues
from kapi.machinery.tree import Object
from kapi.process.shares import Level

_MAX_SECONDS = 32
_MIN_TARGET = 0.001  # a target of zero would never get a seat
_EXEMPT_WEIGHT = 3.0  # an exempt level's share of the thread's time, relative to all other levels together
_MAX_SEATS_PART = 0.15  # the most of the nominal limit that one request may take


class RetryAfter:
    """Retry-After of one priority level in seconds.  It doubles while requests are rejected, and later decreases by one."""

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


def half_up(number: float) -> int:
    """Rounds as upstream does: a half is rounded up."""
    return math.floor(number + 0.5)


class Claim(NamedTuple):
    """The minimum, the maximum and the target of one level, in seats."""

    lower: float
    upper: float
    target: float


def allocate(total: float, claims: Sequence[Claim]) -> tuple[list[float], float]:
    """Seats for each claim, and the fair fraction, which is the part of its target that each claim gets within its bounds.

    The seats sum up to ``total`` if the bounds allow it; otherwise all are at their minimum, or all at their maximum.
    """
    if sum(claim.lower for claim in claims) >= total:
        return [claim.lower for claim in claims], 0.0
    if sum(claim.upper for claim in claims) <= total:
        return [claim.upper for claim in claims], 1.0
    targets = [max(claim.target, _MIN_TARGET) for claim in claims]

    def at(fraction: float) -> list[float]:
        return [
            max(claim.lower, min(claim.upper, fraction * target)) for claim, target in zip(claims, targets, strict=True)
        ]

    low, high = 0.0, max(claim.upper / target for claim, target in zip(claims, targets, strict=True))
    for _ in range(100):
        middle = (low + high) / 2
        if sum(at(middle)) < total:
            low = middle
        else:
            high = middle
    return at(high), high


class PriorityLevel:
    """Follows a PriorityLevelConfiguration.  Limits are in seats."""

    def __init__(self, name: str, reactor: IReactorTime) -> None:
        self.name = name
        self._reactor = reactor
        self.uid = ""
        self.exempt = False
        self.shares = 0
        self.lendable = 0  # percent
        self.borrowing: int | None = None  # percent; None = without bound
        self.nominal = self.lower = self.upper = self.current = 0
        self.max_seats = 0
        self.target = 0.0  # its demand for seats at the last adjustment
        self.quiescing = False  # its object is deleted; it stays until its last request has ended
        self.retry_after = RetryAfter()
        self.queues = FairQueues(reactor, 0)
        self.thread_level = Level(name)  # its share of the thread's time
        self._hand_size = 0
        self._fresh = True

    def configure(self, obj: Object) -> bool:
        """Applies a configuration.  Returns False for an invalid one."""
        spec = obj.get("spec") or {}
        kind, limited, exempt = spec.get("type"), spec.get("limited"), spec.get("exempt")
        if (kind == "Exempt") != (self.name == "exempt") or (kind == "Limited") != (limited is not None):
            return False
        self.uid = (obj.get("metadata") or {}).get("uid", "")
        self.exempt = kind == "Exempt"
        self.quiescing = False
        if limited is None:
            part = exempt or {}
            self.shares = part.get("nominalConcurrencyShares") or 0
            self.lendable = part.get("lendablePercent") or 0
            self.borrowing = None
            return True
        shares = limited.get("nominalConcurrencyShares")
        self.shares = 30 if shares is None else shares
        self.lendable = limited.get("lendablePercent") or 0
        self.borrowing = limited.get("borrowingLimitPercent")
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is None:
            self._hand_size = 0
            self.queues.reconfigure(0, 0, 0)
        else:
            count = queuing.get("queues") or 64
            self._hand_size = min(queuing.get("handSize") or 8, count)
            self.queues.reconfigure(count, self._hand_size, queuing.get("queueLengthLimit") or 50)
        return True

    def set_nominal_limit(self, total: int, shares: int) -> None:
        """Computes the limits from its part of the server's ``total`` seats; ``shares`` is the sum of all levels' shares."""
        self.nominal = math.ceil(total * self.shares / shares) if shares else 0
        self.thread_level.weight = _EXEMPT_WEIGHT * total if self.exempt else max(1.0, self.nominal)
        lent = half_up(self.nominal * self.lendable / 100)
        self.lower = self.nominal - lent
        self.upper = self.nominal + (total if self.borrowing is None else half_up(self.nominal * self.borrowing / 100))
        if self._hand_size:
            bound = min(math.ceil(self.nominal * _MAX_SEATS_PART), self.nominal // self._hand_size)
            self.max_seats = max(1, bound)
        if self._fresh:
            self._fresh = False
            self.set_current(self.nominal - lent // 2)

    def set_current(self, limit: int) -> None:
        """Sets the limit, in seats, until the next adjustment."""
        self.current = limit
        self.queues.usage.limits(self._reactor.seconds(), limit, self.queues.capacity)
        self.queues.set_limit(None if self.exempt else limit)
