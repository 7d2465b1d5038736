"""Which pods are to go: too many that have ended, those of nodes that are gone or out of service, those that never ran.

They are chosen from a few fields of the stored bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kapi.machinery.each import elements
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
QUARANTINE = 40.0  # seconds for which a node has to be gone


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = ""
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str | None = None


class _Status(msgspec.Struct, gc=False):
    phase: str | None = None


class Pod(msgspec.Struct, gc=False):
    """What matters of a pod."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def node(self) -> str:
        return self.spec.node_name or ""

    @property
    def has_ended(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")


#: raises msgspec.DecodeError
pod_of = msgspec.json.Decoder(Pod).decode


class Decision(msgspec.Struct, gc=False):
    pod: Pod
    disruption: bool = False  # a condition says that its node is gone


def chosen(pods: Iterable[Pod], nodes: Mapping[str, Object], gone: Iterable[str], threshold: int) -> list[Decision]:
    """``gone`` are nodes that have been away long enough; ``threshold`` is how many pods that have ended may stay."""
    missing = frozenset(gone)
    ended: list[Pod] = []
    decisions: list[Decision] = []
    for pod in elements(pods):
        going = pod.metadata.deletion_timestamp is not None
        node = nodes.get(pod.node) if pod.node else None
        if going and node is not None and is_out_of_service(node):
            decisions.append(Decision(pod))
        elif pod.node in missing:
            decisions.append(Decision(pod, disruption=True))
        elif going and not pod.node:
            decisions.append(Decision(pod))
        elif pod.has_ended:
            ended.append(pod)
    if threshold > 0 and len(ended) > threshold:
        ended = ordered(ended, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
        decisions += [Decision(pod) for pod in ended[: len(ended) - threshold]]
    return decisions


def is_out_of_service(node: Object) -> bool:
    """Somebody has said that it does not come back, and it is not ready."""
    taints = (node.get("spec") or {}).get("taints") or []
    if not any(taint.get("key") == OUT_OF_SERVICE for taint in taints):
        return False
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = next((one.get("status") for one in conditions if one.get("type") == "Ready"), None)
    return ready is not None and ready != "True"


def failed(pod: Object, decision: Decision, now: str) -> Object | None:
    """The status of a pod that has not ended: it has failed; None when it had ended."""
    state = pod.get("status") or {}
    if state.get("phase") in ("Succeeded", "Failed"):
        return None
    patch: Object = {"phase": "Failed"}
    if decision.disruption:
        others = [one for one in state.get("conditions") or [] if one.get("type") != "DisruptionTarget"]
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": now,
        }
        patch["conditions"] = [*others, condition]
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": patch}
