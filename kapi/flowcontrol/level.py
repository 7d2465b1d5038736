"""A priority level at work: its limits, its queues, who may borrow (KEP-1040; upstream: ``apf_controller.go``)."""

from __future__ import annotations

import math

from twisted.internet.interfaces import IReactorTime

from kapi.flowcontrol.allocation import half_up
from kapi.flowcontrol.dropped import RetryAfter
from kapi.flowcontrol.fair_queues import FairQueues
from kapi.machinery.tree import Object
from kapi.request.flow import Level

_EXEMPT_WEIGHT = 3.0  # an exempt level's part of the thread's time, by those of all others together
_MAX_SEATS_PART = 0.15  # of the nominal limit: the most one request may have


class PriorityLevel:
    """Made of a PriorityLevelConfiguration.  Limits are in seats."""

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
        self.target = 0.0  # seats it would like, as of the last division
        self.retiring = False  # its object is gone; it lives until it is empty
        self.retry_after = RetryAfter()
        self.queues = FairQueues(reactor, 0)
        self.share = Level(name)  # of the thread's time
        self._hand = 0
        self._fresh = True

    def configure(self, obj: Object) -> bool:
        """Takes over a configuration; False for one that makes no sense."""
        spec = obj.get("spec") or {}
        kind, limited, exempt = spec.get("type"), spec.get("limited"), spec.get("exempt")
        if (kind == "Exempt") != (self.name == "exempt") or (kind == "Limited") != (limited is not None):
            return False
        self.uid = (obj.get("metadata") or {}).get("uid", "")
        self.exempt = kind == "Exempt"
        self.retiring = False
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
            self._hand = 0
            self.queues.reconfigure(0, 0, 0)
        else:
            count = queuing.get("queues") or 64
            self._hand = min(queuing.get("handSize") or 8, count)
            self.queues.reconfigure(count, self._hand, queuing.get("queueLengthLimit") or 50)
        return True

    def share_out(self, total: int, shares: int) -> None:
        """The limits that follow from the part of ``total`` that its shares are worth."""
        self.nominal = math.ceil(total * self.shares / shares) if shares else 0
        self.share.weight = _EXEMPT_WEIGHT * total if self.exempt else max(1.0, self.nominal)
        lent = half_up(self.nominal * self.lendable / 100)
        self.lower = self.nominal - lent
        self.upper = self.nominal + (total if self.borrowing is None else half_up(self.nominal * self.borrowing / 100))
        if self._hand:
            bound = min(math.ceil(self.nominal * _MAX_SEATS_PART), self.nominal // self._hand)
            self.max_seats = max(1, bound)
        if self._fresh:
            self._fresh = False
            self.set_current(self.nominal - lent // 2)

    def set_current(self, limit: int) -> None:
        """The limit until the next adjustment."""
        self.current = limit
        self.queues.usage.limits(self._reactor.seconds(), limit, self.queues.capacity)
        self.queues.set_limit(None if self.exempt else limit)
