"""Runs controllers in one of several servers on the same store (upstream: client-go ``tools/leaderelection``).

Candidates do not trust each other's clocks: a Lease has expired when it has not changed for its duration by the observer's own
monotonic clock.  The store's compare-and-swap decides between them.
"""

from __future__ import annotations

import os
import random
import socket
import uuid
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.machinery import status, tree
from kapi.machinery.tree import Object
from kapi.process.driver import trap_cancelled
from kapi.runtime.interface import Client
from kapi.runtime.persistent import release
from kapi.runtime.sliced import begin
from kapi.store.errors import StoreError

JITTER = 1.2  # factor of the retry period, so that candidates do not try at the same time


class Timing(msgspec.Struct, frozen=True):
    """Periods in seconds.  A Lease is valid for ``lease_duration``; its holder stops after ``renew_deadline`` without renewal."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def problems(self, flags: str = "leader-elect") -> list[str]:
        """The reasons why these periods are unsafe or impossible; ``flags`` is the prefix of the flags' names."""
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
    """The holder of the Lease; empty when there is none."""
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
    """The Lease with the holder ``identity``: renewed if it is the holder already, otherwise taken over."""
    spec: Object = dict(lease.get("spec") or {})
    if holder(lease) != identity:
        spec["acquireTime"] = now
        spec["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + 1
    spec.update(holderIdentity=identity, leaseDurationSeconds=int(timing.lease_duration), renewTime=now)
    return {**lease, "spec": spec}


def released_lease(lease: Object, now: str) -> Object:
    """The Lease of a holder that stops, so that other candidates need not wait until it expires."""
    spec: Object = {**(lease.get("spec") or {}), "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now}
    return {**lease, "spec": spec}


class Controller(Protocol):
    async def start(self) -> None: ...

    def stop(self) -> object: ...


class LeaderElection:
    """``make`` returns new controllers each time this server becomes the leader; ``now`` returns a MicroTime."""

    log = Logger()

    def __init__(
        self,
        client: Client,
        reactor: IReactorTime,
        *,
        namespace: str,
        lease: str,
        now: Callable[[], str],
        make: Callable[[], Sequence[Controller]],
        timing: Timing | None = None,
        identity: str = "",
        name: str = "leader-election",
    ) -> None:
        self.name = name
        self.identity = identity or f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4()}"
        self._leases = client.resource("coordination.k8s.io", "leases")
        self._reactor = reactor
        self._namespace = namespace
        self._lease = lease
        self._now = now
        self._make = make
        self._timing = timing or Timing()
        self._controllers: Sequence[Controller] = ()
        self._observed: Object | None = None  # the Lease at its last change
        self._observed_at = 0.0  # reactor seconds
        self._renewed_at = 0.0  # reactor seconds
        self._running: Deferred[None] | None = None
        self.leading = False

    async def start(self) -> None:
        """Returns at once; the controllers start when this server becomes the holder."""
        self._running = begin(self._reactor, self._run())
        self._running.addErrback(trap_cancelled)

    async def stop(self) -> None:
        """Stops the controllers and releases the Lease."""
        if self._running is not None:
            self._running.cancel()
        if not self.leading:
            return
        self._step_down()
        await release("leader election", self._release(), self._reactor)

    async def _run(self) -> None:
        try:
            while True:
                # the time before the attempt, since other candidates may count from then
                asked_at = self._reactor.seconds()
                if await self._try_to_hold():
                    self._renewed_at = asked_at
                    if not self.leading:
                        await self._lead()
                elif self.leading and self._lost():
                    self.log.error("leader election: {identity} lost the lease", identity=self.identity)
                    self._step_down()
                pause = self._timing.retry_period
                await deferLater(self._reactor, pause if self.leading else pause * random.uniform(1, JITTER))
        except CancelledError:
            pass

    def _lost(self) -> bool:
        """Called when another server is the holder, or may soon be, since renewals have failed for too long."""
        taken = holder(self._observed) not in ("", self.identity)
        return taken or self._reactor.seconds() - self._renewed_at >= self._timing.renew_deadline

    async def _try_to_hold(self) -> bool:
        """Whether this server is the holder now.  An attempt that takes longer than the renew deadline has failed."""
        attempt = begin(self._reactor, self._write())
        left = self._timing.renew_deadline
        if self.leading:
            left -= self._reactor.seconds() - self._renewed_at
        try:
            return await attempt.addTimeout(max(left, 0.0), self._reactor)
        except CancelledError:
            raise
        except (status.StatusError, StoreError) as error:
            self.log.info("leader election: {error}", error=error)
        except TimeoutError:
            self.log.warn("leader election: the lease could not be written in time")
        except Exception as error:
            self.log.warn("leader election: {error}", error=str(error) or type(error).__name__)
        return False

    async def _write(self) -> bool:
        try:
            lease = tree.copy(await self._leases.get(self._lease, self._namespace))
        except status.NotFound:
            first = new_lease(self._namespace, self._lease, self.identity, self._now(), self._timing)
            self._observe(await self._leases.create(first, self._namespace))
            return True
        self._observe(lease)
        if holder(lease) not in ("", self.identity) and not self._expired(lease):
            return False
        taken = taken_lease(lease, self.identity, self._now(), self._timing)
        self._observe(await self._leases.update(taken, self._namespace))
        return True

    def _observe(self, lease: Object) -> None:
        if self._observed is None or self._observed.get("spec") != lease.get("spec"):
            self._observed, self._observed_at = lease, self._reactor.seconds()

    def _expired(self, lease: Object) -> bool:
        seconds = (lease.get("spec") or {}).get("leaseDurationSeconds") or self._timing.lease_duration
        return bool(self._reactor.seconds() >= self._observed_at + seconds)

    async def _release(self) -> None:
        while holder(lease := tree.copy(await self._leases.get(self._lease, self._namespace))) == self.identity:
            try:
                await self._leases.update(released_lease(lease, self._now()), self._namespace)
            except status.Conflict:
                continue  # a renewal was running when this server began to stop
            return

    async def _lead(self) -> None:
        self.leading = True
        try:
            self._controllers = self._make()
        except Exception:  # the next attempt comes with the next renewal
            self.leading = False
            self.log.failure("leader election: the controllers cannot be made")
            return
        self.log.info("leader election: {identity} runs the controllers", identity=self.identity)
        for controller in self._controllers:
            try:
                await controller.start()
            except CancelledError:
                raise
            except Exception:
                self.log.failure("a controller does not start")

    def _step_down(self) -> None:
        self.leading = False
        controllers, self._controllers = self._controllers, ()
        for controller in controllers:
            try:
                controller.stop()
            except Exception:
                self.log.failure("a controller does not stop")
