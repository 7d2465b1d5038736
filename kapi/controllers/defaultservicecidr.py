"""The ServiceCIDR named kubernetes: the ranges of ``--service-cluster-ip-range``, and its condition.

An object with one range gets the second range when the flag has two.  Other differences must be solved by an operator; an event
reports them.
Upstream: ``pkg/controlplane/controller/defaultservicecidr``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.logger import Logger

from kapi.controllers.events import CoreEvent, CoreEventRecorder, reference_to
from kapi.machinery import status
from kapi.machinery.golang import value_text
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client

NAME = "kubernetes"
CONTROLLER = "kubernetes-service-cidr-controller"
_READY = "Kubernetes default Service CIDR is ready"


def service_cidr(ranges: Sequence[str]) -> Object:
    return {"metadata": {"name": NAME}, "spec": {"cidrs": list(ranges)}}


class DefaultServiceCIDR:
    """``client`` writes as ``kube-apiserver``; ``own`` writes the condition and the events."""

    log = Logger()

    def __init__(self, client: Client, own: Client, ranges: Sequence[str], now: Callable[[], str]) -> None:
        self._resource = client.resource("networking.k8s.io", "servicecidrs")
        self._statuses = own.resource("networking.k8s.io", "servicecidrs")
        self._events = CoreEventRecorder(own, CONTROLLER, now) if own.has("", "events") else None
        self._ranges = list(ranges)
        self._now = now
        self._reported: set[str] = set()  # reasons of events, each of which is recorded once

    async def reconcile(self, existing: Object) -> None:
        """``existing`` is the stored object.  Raises StatusError when its condition is refused."""
        cidrs = (existing.get("spec") or {}).get("cidrs") or []
        if len(self._ranges) == 2 and cidrs == self._ranges[:1]:
            await self._add_second_range(existing)
        elif not existing["metadata"].get("deletionTimestamp"):
            await self._set_ready(existing, cidrs)

    async def _add_second_range(self, existing: Object) -> None:
        first, both = self._ranges[0], value_text(self._ranges)
        self.log.info("Adding a second range to the default ServiceCIDR: {ranges}", ranges=both)
        try:
            await self._resource.update({**existing, "spec": {**existing["spec"], "cidrs": self._ranges}})
        except status.Conflict:
            return  # the next time
        except status.StatusError as error:
            text = f"The default ServiceCIDR can not be upgraded from {first} to dual stack {both} : {error.message}"
            await self._tell(existing, "KubernetesDefaultServiceCIDRError", text)

    async def _set_ready(self, existing: Object, cidrs: Sequence[str]) -> None:
        """Sets a missing condition, so that addresses are allocated; an existing condition of another program stays."""
        if cidrs != self._ranges:
            wanted = f"the controller flag configurations {value_text(self._ranges)}"
            text = f"The default ServiceCIDR {value_text(cidrs)} does not match {wanted}"
            await self._tell(existing, "KubernetesDefaultServiceCIDRInconsistent", text)
            return
        conditions = (existing.get("status") or {}).get("conditions") or []
        known = next((condition for condition in conditions if condition.get("type") == "Ready"), None)
        if known is None or known.get("status") == "Unknown":
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": self._now(), "message": _READY}
            await self._statuses.apply(NAME, {"status": {"conditions": [ready]}}, subresource="status")
        elif known.get("status") == "False":
            text = f"Configuration matches, but {known.get('message', '')}"
            await self._tell(existing, known.get("reason") or "NotReady", text)

    async def _tell(self, existing: Object, reason: str, text: str) -> None:
        if reason in self._reported:
            return
        self._reported.add(reason)
        self.log.info("{text}", text=text)
        if self._events is not None:
            await self._events.record(CoreEvent(reference_to(existing), "Warning", reason, text))
