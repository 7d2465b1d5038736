"""Renews the Lease of this server in ``kube-system``, and deletes the expired ones of others (KEP-1965).

Upstream: ``pkg/controlplane/apiserver/server.go`` (identity lease), ``pkg/controlplane/controller/apiserverleasegc``.
"""

from __future__ import annotations

import base64
import hashlib
import socket
import uuid
from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from kapi.machinery import status, tree
from kapi.machinery.time import seconds_of, stamp_micros
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.sliced import begin
from kapi.store.errors import StoreError

COLLECTION = "start-kube-apiserver-identity-lease-garbage-collector"
NAMESPACE = "kube-system"
_LABEL = "apiserver.kubernetes.io/identity"
_COMPONENT = "kube-apiserver"
DURATION_SECONDS = 3600  # of a Lease
RENEWAL_SECONDS = 10.0  # between two renewals
_RETRY_SECONDS = 0.5  # at the start the namespace may not exist yet
_COLLECTION_SECONDS = 3600.0


def lease_name(host: str) -> str:
    """``apiserver-`` and a hash of the host's name, as upstream makes it."""
    digest = hashlib.sha256(host.encode()).digest()[:16]
    return "apiserver-" + base64.b32encode(digest).decode().rstrip("=").lower()


class IdentityController:
    """``clock`` gives unix seconds.  Servers on one host share a Lease."""

    name = "start-kube-apiserver-identity-lease-controller"
    log = Logger()

    def __init__(
        self, client: Client, reactor: IReactorTime, clock: Callable[[], float], host: str = socket.gethostname()
    ) -> None:
        self._leases = client.resource("coordination.k8s.io", "leases")
        self._reactor = reactor
        self._clock = clock
        self._host = host
        self._lease = lease_name(host)
        self._holder = f"{self._lease}_{uuid.uuid4()}"
        self._collected_at: float | None = None
        self._next: IDelayedCall | None = None
        self._running: Deferred[None] | None = None
        self._stopped = False

    async def start(self) -> None:
        self._again()

    def stop(self) -> None:
        self._stopped = True
        if self._next is not None and self._next.active():
            self._next.cancel()
        if self._running is not None:
            self._running.cancel()

    def _again(self) -> None:
        self._running = begin(self._reactor, self._run_again())

    async def _run_again(self) -> None:
        pause = _RETRY_SECONDS
        try:
            await self.run_once()
            pause = RENEWAL_SECONDS
        except CancelledError:
            return
        except (status.StatusError, StoreError) as error:
            self.log.info("identity lease: {error}", error=error)
        except Exception:
            self.log.failure("the identity lease could not be renewed")
        if not self._stopped:
            self._next = self._reactor.callLater(pause, self._again)

    async def run_once(self) -> None:
        """Renews, and once an hour removes what has expired.  Raises StatusError, StoreError."""
        found = self._leases.lister.get(NAMESPACE, self._lease)
        if found is None:
            await self._leases.create(self._new(), NAMESPACE)
        else:
            lease: Object = tree.copy(found)
            lease["spec"].update(holderIdentity=self._holder, renewTime=stamp_micros(self._clock()))
            lease["spec"]["leaseDurationSeconds"] = DURATION_SECONDS
            await self._leases.update(lease, NAMESPACE)
        now = self._reactor.seconds()
        if self._collected_at is None or now - self._collected_at >= _COLLECTION_SECONDS:
            self._collected_at = now
            await self._collect()

    def _new(self) -> Object:
        now = stamp_micros(self._clock())
        return {
            "metadata": {
                "name": self._lease,
                "labels": {_LABEL: _COMPONENT, "kubernetes.io/hostname": self._host},
            },
            "spec": {
                "holderIdentity": self._holder,
                "leaseDurationSeconds": DURATION_SECONDS,
                "acquireTime": now,
                "renewTime": now,
            },
        }

    async def _collect(self) -> None:
        for lease in self._leases.lister.list(NAMESPACE):
            metadata = lease["metadata"]
            if (metadata.get("labels") or {}).get(_LABEL) != _COMPONENT or not self._expired(lease.get("spec") or {}):
                continue
            try:
                await self._leases.delete(metadata["name"], NAMESPACE)
            except status.NotFound:
                pass

    def _expired(self, spec: Object) -> bool:
        """A Lease without a time has expired, too."""
        renewed, seconds = spec.get("renewTime"), spec.get("leaseDurationSeconds")
        return not renewed or not seconds or seconds_of(renewed) + seconds < self._clock()
