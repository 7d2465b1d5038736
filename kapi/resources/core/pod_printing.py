"""The rows of a pod table (upstream: ``printers/internalversion`` printPod)."""

from __future__ import annotations

from kapi.machinery.ages import since
from kapi.machinery.each import elements
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import Column, FieldText, TableColumns
from kapi.resources.shared.printing import AGE, NAME, NONE, age, name


class _Summary:
    """Readiness, reason and restarts, which are in several cells."""

    __slots__ = ("ready", "total", "reason", "restarts", "last")

    def __init__(self, pod: Object) -> None:
        spec, status = pod.get("spec") or {}, pod.get("status") or {}
        initial = spec.get("initContainers") or []
        sidecars = {item.get("name") for item in elements(initial) if item.get("restartPolicy") == "Always"}
        self.total = len(spec.get("containers") or ()) + sum(
            1 for c in elements(initial) if c.get("restartPolicy") == "Always"
        )
        self.ready = 0
        self.restarts = 0
        self.last = ""
        phase = status.get("phase", "")
        self.reason = status.get("reason") or phase
        conditions = status.get("conditions") or []
        for condition in elements(conditions):
            if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
                self.reason = "SchedulingGated"
        side_restarts, side_last = 0, ""
        initializing = False
        for i, entry in enumerate(elements(status, "initContainerStatuses")):
            self.restarts += entry.get("restartCount", 0)
            finished = _finished(entry)
            self.last = max(self.last, finished)
            sidecar = entry.get("name") in sidecars
            if sidecar:
                side_restarts += entry.get("restartCount", 0)
                side_last = max(side_last, finished)
            reason = self._initial(entry, sidecar, i, len(initial))
            if reason:
                self.reason = reason
                initializing = True
                break
        if not initializing or _is_true(conditions, "Initialized"):
            self.restarts, self.last = side_restarts, side_last
            self._regular(status.get("containerStatuses") or [], conditions)
        if pod["metadata"].get("deletionTimestamp"):
            if status.get("reason") == "NodeLost":
                self.reason = "Unknown"
            elif phase not in ("Succeeded", "Failed"):
                self.reason = "Terminating"

    def _initial(self, entry: Object, sidecar: bool, position: int, total: int) -> str:
        """The reason why the pod still initializes; "" when this container has completed."""
        state = entry.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and ended.get("exitCode", 0) == 0:
            return ""
        if sidecar and entry.get("started"):
            self.ready += 1 if entry.get("ready") else 0
            return ""
        if ended is not None:
            return "Init:" + (ended.get("reason") or _code(ended))
        if waiting is not None and waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return "Init:" + str(waiting["reason"])
        return f"Init:{position}/{total}"

    def _regular(self, entries: list[Object], conditions: list[Object]) -> None:
        running, failure = False, ""
        for entry in elements(reversed(entries)):
            self.restarts += entry.get("restartCount", 0)
            self.last = max(self.last, _finished(entry))
            state = entry.get("state") or {}
            waiting, ended = state.get("waiting"), state.get("terminated")
            if waiting is not None and waiting.get("reason"):
                self.reason = waiting["reason"]
            elif ended is not None:
                self.reason = ended.get("reason") or _code(ended)
                if ended.get("exitCode", 0):
                    failure = self.reason
            elif entry.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and _is_true(conditions, "Ready"):
                self.reason = "Running"
            elif failure:
                self.reason = failure
            elif running:
                self.reason = "NotReady"


def _code(ended: Object) -> str:
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _finished(entry: Object) -> str:
    """The end of the previous run; times in UTC can be compared as texts."""
    return ((entry.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""


def _is_true(conditions: list[Object], kind: str) -> bool:
    return any(entry.get("type") == kind and entry.get("status") == "True" for entry in conditions)


def _restarts(summary: _Summary, now: float) -> str:
    if summary.restarts and summary.last:
        return f"{summary.restarts} ({since(summary.last, now)} ago)"
    return str(summary.restarts)


def _gates(pod: Object) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or []
    if not gates:
        return NONE
    conditions = (pod.get("status") or {}).get("conditions") or []
    states = {entry.get("type"): entry.get("status") for entry in reversed(conditions)}
    true = sum(1 for gate in gates if states.get(gate.get("conditionType")) == "True")
    return f"{true}/{len(gates)}"


def _conditions(pod: Object) -> list[Object]:
    """The condition Completed of a row, which lets clients hide it."""
    texts = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    phase = (pod.get("status") or {}).get("phase")
    if phase not in texts:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": texts[phase]}]


def _cells(pod: Object, now: float) -> list[Tree]:
    summary = _Summary(pod)
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    addresses = status.get("podIPs") or [{}]
    return [
        name(pod, now),
        f"{summary.ready}/{summary.total}",
        summary.reason,
        _restarts(summary, now),
        age(pod, now),
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(pod),
    ]


TABLE = TableColumns(
    (
        NAME.column,
        Column("Ready", description="The aggregate readiness state of this pod for accepting traffic."),
        Column("Status", description="The aggregate status of the containers in this pod."),
        Column(
            "Restarts",
            description="The number of times the containers in this pod have been restarted and when the last container "
            "in this pod has restarted.",
        ),
        AGE.column,
        Column("IP", description=FieldText("api.core.v1.PodStatus", "podIP"), priority=1),
        Column("Node", description=FieldText("api.core.v1.PodSpec", "nodeName"), priority=1),
        Column("Nominated Node", description=FieldText("api.core.v1.PodStatus", "nominatedNodeName"), priority=1),
        Column("Readiness Gates", description=FieldText("api.core.v1.PodSpec", "readinessGates"), priority=1),
    ),
    _cells,
    conditions=_conditions,
)
