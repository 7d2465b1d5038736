"""The Lease that a candidate writes, decided from the one that exists (upstream: client-go ``tools/leaderelection``).

Pure: no clock and no I/O.
"""

from __future__ import annotations

import msgspec

from kapi.machinery.tree import Object


class Timing(msgspec.Struct, frozen=True):
    """Seconds.  A lease counts for ``lease_duration``; its holder gives up when it cannot renew for ``renew_deadline``."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def problems(self, flags: str = "leader-elect") -> list[str]:
        """Why an election with these periods would be unsafe or impossible; ``flags`` is the prefix of the flags' names."""
        found = []
        lease, renew, retry = (f"--{flags}-{name}" for name in ("lease-duration", "renew-deadline", "retry-period"))
        if self.lease_duration <= self.renew_deadline:
            found.append(f"{lease} must be greater than {renew}")
        if self.renew_deadline <= 1.2 * self.retry_period:
            found.append(f"{renew} must be greater than 1.2 x {retry}")
        if self.lease_duration < 1 or self.retry_period <= 0:
            found.append(f"{lease} and {retry} must be positive")
        return found


def holder(lease: Object | None) -> str:
    """The identity that the Lease names; empty when there is none."""
    spec: Object = (lease or {}).get("spec") or {}
    return spec.get("holderIdentity") or ""


def new_lease(namespace: str, name: str, identity: str, now: str, timing: Timing) -> Object:
    """The first Lease of an election.  ``now`` is a MicroTime."""
    spec = {
        "holderIdentity": identity,
        "leaseDurationSeconds": int(timing.lease_duration),
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 0,
    }
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def taken_lease(lease: Object, identity: str, now: str, timing: Timing) -> Object:
    """The Lease held by ``identity``: renewed if it holds it already, else taken over."""
    spec: Object = dict(lease.get("spec") or {})
    if holder(lease) != identity:
        spec["acquireTime"] = now
        spec["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + 1
    spec.update(holderIdentity=identity, leaseDurationSeconds=int(timing.lease_duration), renewTime=now)
    return {**lease, "spec": spec}


def released_lease(lease: Object, now: str) -> Object:
    """The Lease of a holder that leaves: others need not wait until it expires."""
    spec: Object = {**(lease.get("spec") or {}), "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now}
    return {**lease, "spec": spec}
