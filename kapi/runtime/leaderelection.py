"""Leader election: of several processes, the one that holds a Lease leads (upstream: client-go ``tools/leaderelection``).

A candidate takes a Lease without a holder, or one that was not renewed for its duration.  The duration is measured by this
process's own clock: the times in the Lease are only compared for change.  A leader that cannot renew the Lease in time no
longer leads.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.client.dynamic import ResourceInterface
from kapi.machinery.status import Conflict, NotFound
from kapi.machinery.time import stamp_micros
from kapi.machinery.tree import Object
from kapi.process.driver import trap_cancelled


class LeaderElector:
    """``leases`` is the resource in a namespace.  ``on_started`` and ``on_stopped`` are called when leading begins and ends.

    ``lease_duration``, ``renew_deadline`` and ``retry_period`` are in seconds.
    """

    log = Logger()

    def __init__(
        self,
        leases: ResourceInterface,
        name: str,
        identity: str,
        *,
        on_started: Callable[[], object],
        on_stopped: Callable[[], object],
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not lease_duration > renew_deadline > retry_period > 0:
            raise ValueError("lease_duration must be longer than renew_deadline, and that longer than retry_period")
        self._leases, self._name, self._identity = leases, name, identity
        self._on_started, self._on_stopped = on_started, on_stopped
        self._duration, self._deadline, self._period, self._now = lease_duration, renew_deadline, retry_period, now
        self._reactor = leases.session.reactor
        self._seen: Object | None = None  # the spec when it was last read
        self._seen_at = 0.0  # reactor seconds
        self._lease: Object | None = None
        self._running: Deferred[None] | None = None
        self.leads = False

    @property
    def leader(self) -> str:
        """The holder of the Lease when it was last read."""
        return str((self._seen or {}).get("holderIdentity") or "")

    def start(self) -> None:
        if self._running is None:
            self._running = Deferred.fromCoroutine(self._run())
            self._running.addErrback(trap_cancelled)

    async def stop(self) -> None:
        """Stops, and releases the Lease if this candidate leads; gives that up after ``renew_deadline``."""
        if self._running is not None:
            self._running.cancel()
            self._running = None
        if self.leads:
            self._end()
            release = Deferred.fromCoroutine(self._release())
            try:
                await release.addTimeout(self._deadline, self._reactor)
            except CancelledError:
                raise
            except Exception as problem:
                self.log.info("{name} was not released: {why}", name=self._name, why=str(problem))

    async def _release(self) -> None:
        while (self._lease or {}).get("spec", {}).get("holderIdentity") == self._identity:
            try:
                await self._write({"holderIdentity": "", "leaseDurationSeconds": 1})
            except Conflict:  # a renewal was running when this candidate began to stop
                self._lease = await self._leases.get(self._name)

    async def _run(self) -> None:
        renewed = 0.0
        while True:
            began = self._reactor.seconds()
            attempt: Deferred[bool] = Deferred.fromCoroutine(self._try())
            attempt.addTimeout(
                self._deadline if not self.leads else max(0.001, renewed + self._deadline - began), self._reactor
            )
            try:
                held = await attempt
            except TimeoutError:
                held = False
            if held:
                renewed = began
                if not self.leads:
                    self.leads = True
                    self.log.info("{identity} leads {name}", identity=self._identity, name=self._name)
                    self._notify(self._on_started)
            elif self.leads and (self.leader != self._identity or self._reactor.seconds() - renewed >= self._deadline):
                self._end()
            await deferLater(self._reactor, self._period)

    def _end(self) -> None:
        self.leads = False
        self.log.info("{identity} no longer leads {name}", identity=self._identity, name=self._name)
        self._notify(self._on_stopped)

    def _notify(self, function: Callable[[], object]) -> None:
        try:
            function()
        except Exception:
            self.log.failure(
                "the function that is called at the begin or end of leading {name} has failed", name=self._name
            )

    async def _try(self) -> bool:
        """Whether this candidate holds the Lease now."""
        try:
            return await self._acquire()
        except CancelledError:
            raise
        except (
            Exception
        ) as problem:  # also ConfigError: this loop must continue, so that a leader notices when it no longer leads
            self.log.info("{name}: {why}", name=self._name, why=getattr(problem, "message", "") or str(problem))
            return False

    async def _acquire(self) -> bool:
        try:
            self._lease = await self._leases.get(self._name)
        except NotFound:
            self._lease = None
        spec = (self._lease or {}).get("spec") or {}
        if self._lease is not None and spec != self._seen:
            self._seen, self._seen_at = spec, self._reactor.seconds()
        holder = spec.get("holderIdentity") or ""
        free = not holder or self._reactor.seconds() - self._seen_at >= float(spec.get("leaseDurationSeconds") or 0)
        if holder != self._identity and not free:
            return False
        await self._write({"holderIdentity": self._identity, "leaseDurationSeconds": int(self._duration)})
        return True

    async def _write(self, values: Object) -> None:
        old = (self._lease or {}).get("spec") or {}
        now = stamp_micros(self._now())
        mine = old.get("holderIdentity") == self._identity
        transitions = int(old.get("leaseTransitions") or 0)
        spec = {
            **values,
            "acquireTime": old["acquireTime"] if mine and old.get("acquireTime") else now,
            "renewTime": now,
            "leaseTransitions": transitions if mine or self._lease is None else transitions + 1,
        }
        if self._lease is None:
            metadata = {"name": self._name}
            self._lease = await self._leases.create(
                {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            )
        else:
            self._lease = await self._leases.update({**self._lease, "spec": spec})
        self._seen, self._seen_at = self._lease["spec"], self._reactor.seconds()
