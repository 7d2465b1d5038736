"""The state of a priority level: its limits, its queues, what it may borrow (KEP-1040; upstream: ``apf_controller.go``)."""

from __future__ import annotations

import math

from twisted.internet.interfaces import IReactorTime

from kapi.flowcontrol.allocation import half_up
from kapi.flowcontrol.dropped import RetryAfter
from kapi.flowcontrol.fair_queues import FairQueues
from kapi.machinery.tree import Object
from kapi.request.flow import Level

_EXEMPT_WEIGHT = 3.0  # an exempt level's share of the thread's time, relative to all other levels together
_MAX_SEATS_PART = 0.15  # of the nominal limit: the most for one request


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
        self.target = 0.0  # seats of its demand at the last adjustment
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
