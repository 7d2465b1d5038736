"""Renews the Lease of this server in ``kube-system``, and deletes expired Leases of other servers (KEP-1965).

Upstream: ``pkg/controlplane/apiserver/server.go`` (identity lease), ``component-helpers/apimachinery/lease``,
``pkg/controlplane/controller/apiserverleasegc``.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from kapi.machinery import status, tree
from kapi.machinery.server_id import IDENTITY_LABEL, KUBE_APISERVER, server_id
from kapi.machinery.time import seconds_of, stamp_micros
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client
from kapi.runtime.persistent import Persistent, release

COLLECTION = "start-kube-apiserver-identity-lease-garbage-collector"
NAMESPACE = "kube-system"
DURATION_SECONDS = 3600  # duration of a Lease
RENEWAL_SECONDS = 10.0  # between two renewals
_COLLECTION_SECONDS = 3600.0


class IdentityController:
    """``clock`` gives unix seconds.  Servers on one host share a Lease: one that stops deletes it, the others make it again."""

    name = "start-kube-apiserver-identity-lease-controller"

    def __init__(self, client: Client, reactor: IReactorTime, clock: Callable[[], float], host: str = "") -> None:
        host = host or socket.gethostname()
        self._leases = client.resource("coordination.k8s.io", "leases")
        self._reactor = reactor
        self._clock = clock
        self._lease = server_id(host)
        self._holder = f"{self._lease}_{uuid.uuid4()}"
        self._labels = {IDENTITY_LABEL: KUBE_APISERVER, "kubernetes.io/hostname": host}
        self._is_new = True  # the Lease of an earlier process may be there
        self._collected_at: float | None = None
        self._work = Persistent("identity lease", self.run_once, reactor, RENEWAL_SECONDS)

    async def start(self) -> None:
        self._work.begin()

    async def stop(self) -> None:
        self._work.stop()
        await release("identity lease", self._delete(), self._reactor)

    async def _delete(self) -> None:
        try:
            await self._leases.delete(self._lease, NAMESPACE)
        except status.NotFound:
            pass

    async def run_once(self) -> None:
        """Renews the Lease, and once an hour deletes expired Leases.  Raises StatusError, StoreError."""
        if self._is_new:
            self._is_new = False
            await self._delete()
        found = self._leases.lister.get(NAMESPACE, self._lease)
        times = {"leaseDurationSeconds": DURATION_SECONDS, "renewTime": stamp_micros(self._clock())}
        if found is None:
            metadata: Object = {"name": self._lease, "labels": self._labels}
            await self._leases.create(
                {"metadata": metadata, "spec": {"holderIdentity": self._holder, **times}}, NAMESPACE
            )
        else:
            lease: Object = tree.copy(found)
            lease["metadata"]["labels"] = {**(lease["metadata"].get("labels") or {}), **self._labels}
            lease["spec"] = {**(lease.get("spec") or {}), **times}
            await self._leases.update(lease, NAMESPACE)
        now = self._reactor.seconds()
        if self._collected_at is None or now - self._collected_at >= _COLLECTION_SECONDS:
            self._collected_at = now
            await self._collect()

    async def _collect(self) -> None:
        for lease in self._leases.lister.list(NAMESPACE):
            metadata = lease["metadata"]
            ours = (metadata.get("labels") or {}).get(IDENTITY_LABEL) == KUBE_APISERVER
            if not ours or not self._expired(lease.get("spec") or {}):
                continue
            try:
                await self._leases.delete(metadata["name"], NAMESPACE)
            except status.NotFound:
                pass

    def _expired(self, spec: Object) -> bool:
        """Whether a Lease has expired; true also for a Lease without a time."""
        renewed, seconds = spec.get("renewTime"), spec.get("leaseDurationSeconds")
        return not renewed or not seconds or seconds_of(renewed) + seconds < self._clock()
