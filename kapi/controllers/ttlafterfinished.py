"""Deletes Jobs some time after they have finished (upstream: ``pkg/controller/ttlafterfinished``, KEP-592)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.watching import Ends, QueueController
from kapi.machinery import status
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client

Key = tuple[str, str]  # namespace and name


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


class TTLAfterFinishedController(QueueController[Key]):
    name = "ttl-after-finished-controller"

    def __init__(self, client: Client, reactor: IReactorTime, now: Callable[[], str]) -> None:
        self._jobs = client.resource("batch", "jobs")
        self._now = now
        super().__init__(reactor)

    def _watches(self) -> Ends:
        return [self._jobs.watch(self._changed)]

    def _changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event != "DELETED" and expires(obj) is not None:
            self._queue.add((obj["metadata"]["namespace"], obj["metadata"]["name"]))

    async def _handle(self, key: Key) -> float | None:
        namespace, name = key
        try:
            job = await self._jobs.get(name, namespace)
            end = expires(job)
            if end is None:
                return None
            left = end - seconds_of(self._now())
            if left > 0:
                return left
            preconditions = {
                "uid": job["metadata"]["uid"],
                "resourceVersion": job["metadata"]["resourceVersion"],  # its time may have been prolonged
            }
            await self._jobs.delete(
                name, namespace, {"propagationPolicy": "Foreground", "preconditions": preconditions}
            )
        except status.NotFound:
            return None
        return None
