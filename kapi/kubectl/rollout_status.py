"""The progress of a rollout as text (upstream: kubectl ``polymorphichelpers/rollout_status.go``)."""

from __future__ import annotations

from twisted.internet.defer import Deferred, TimeoutError

from kapi.kubectl.factory import Factory
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.waiting import until
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object, dig

REVISION = "deployment.kubernetes.io/revision"


def _deployment(obj: Object, revision: int) -> tuple[str, bool]:
    name, spec, status = quote(obj["metadata"]["name"]), obj["spec"], obj.get("status") or {}
    if revision:
        running = int((obj["metadata"].get("annotations") or {}).get(REVISION) or 0)
        if running != revision:
            raise CommandError(f"desired revision ({revision}) is different from the running revision ({running})")
    if obj["metadata"].get("generation", 0) > status.get("observedGeneration", 0):
        return "Waiting for deployment spec update to be observed...\n", False
    for condition in status.get("conditions") or ():
        if condition["type"] == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded":
            raise CommandError(f"deployment {name} exceeded its progress deadline")
    start = f"Waiting for deployment {name} rollout to finish: "
    updated, wanted = status.get("updatedReplicas", 0), spec.get("replicas", 1)
    available = status.get("availableReplicas", 0)
    if updated < wanted:
        return f"{start}{updated} out of {wanted} new replicas have been updated...\n", False
    if status.get("replicas", 0) > updated:
        return f"{start}{status['replicas'] - updated} old replicas are pending termination...\n", False
    if available < updated:
        return f"{start}{available} of {updated} updated replicas are available...\n", False
    return f"deployment {name} successfully rolled out\n", True


def _only_rolling(obj: Object) -> None:
    if dig(obj, "spec", "updateStrategy", "type") != "RollingUpdate":
        raise CommandError("rollout status is only available for RollingUpdate strategy type")


def _daemon_set(obj: Object, revision: int) -> tuple[str, bool]:
    _only_rolling(obj)
    name, status = quote(obj["metadata"]["name"]), obj.get("status") or {}
    if obj["metadata"].get("generation", 0) > status.get("observedGeneration", 0):
        return "Waiting for daemon set spec update to be observed...\n", False
    start, wanted = f"Waiting for daemon set {name} rollout to finish: ", status.get("desiredNumberScheduled", 0)
    updated, available = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
    if updated < wanted:
        return f"{start}{updated} out of {wanted} new pods have been updated...\n", False
    if available < wanted:
        return f"{start}{available} of {wanted} updated pods are available...\n", False
    return f"daemon set {name} successfully rolled out\n", True


def _stateful_set(obj: Object, revision: int) -> tuple[str, bool]:
    _only_rolling(obj)
    status, wanted = obj.get("status") or {}, obj["spec"].get("replicas", 1)
    observed, updated = status.get("observedGeneration", 0), status.get("updatedReplicas", 0)
    if not observed or obj["metadata"].get("generation", 0) > observed:
        return "Waiting for statefulset spec update to be observed...\n", False
    if status.get("readyReplicas", 0) < wanted:
        return f"Waiting for {wanted - status.get('readyReplicas', 0)} pods to be ready...\n", False
    rolling = dig(obj, "spec", "updateStrategy", "rollingUpdate")
    if rolling is not None:
        due = wanted - (rolling.get("partition") or 0)
        if updated < due:
            return (
                f"Waiting for partitioned roll out to finish: {updated} out of {due} new pods have been updated...\n",
                False,
            )
        return f"partitioned roll out complete: {updated} new pods have been updated...\n", True
    if status.get("updateRevision") != status.get("currentRevision"):
        return (
            f"waiting for statefulset rolling update to complete {updated} pods at revision "
            f"{status.get('updateRevision', '')}...\n",
            False,
        )
    current, revision_name = status.get("currentReplicas", 0), status.get("currentRevision", "")
    return f"statefulset rolling update complete {current} pods at revision {revision_name}...\n", True


_STATUS = {"Deployment": _deployment, "DaemonSet": _daemon_set, "StatefulSet": _stateful_set}


async def follow(factory: Factory, info: Info, revision: int) -> None:
    """Prints the progress of the rollout, at each change, until it is done.  Raises CommandError."""
    status = _STATUS.get(info.mapping.kind)
    if status is None:
        raise CommandError(f"no status viewer has been implemented for {info.mapping.group_kind}")

    def show(obj: Object) -> bool:
        text, done = status(obj, revision)
        factory.out.write(text)
        factory.out.flush()
        return done or not factory.flags.get_bool("watch")

    first: Object = info.object or {}
    if info.name and show(first):
        return

    def change(obj: Object | None) -> bool:
        if obj is None:
            raise CommandError("object has been deleted")
        return obj["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"] and show(obj)

    following: Deferred[Object | None] = Deferred.fromCoroutine(until(info, change))
    if seconds := factory.flags.get_duration("timeout"):
        following.addTimeout(seconds, factory.reactor)
    try:
        await following
    except TimeoutError:
        raise CommandError("timed out waiting for the condition") from None
