"""When a finished Job is to be deleted."""

from __future__ import annotations

from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object


def expires(job: Object) -> float | None:
    """Unix seconds; None for a Job that runs, is being deleted, or has no TTL."""
    seconds = (job.get("spec") or {}).get("ttlSecondsAfterFinished")
    if seconds is None or job["metadata"].get("deletionTimestamp"):
        return None
    for condition in (job.get("status") or {}).get("conditions") or []:
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            since = condition.get("lastTransitionTime")
            return None if since is None else seconds_of(since) + float(seconds)
    return None
