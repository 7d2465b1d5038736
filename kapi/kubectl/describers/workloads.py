"""Controllers of pods: replication controllers, replica sets, deployments, stateful sets, daemon sets, jobs, autoscalers."""

from __future__ import annotations

from kapi.kubectl.describers.claims import claim_class
from kapi.kubectl.describers.lines import (
    ANNOTATIONS,
    CREATED,
    HEAD,
    LABELS,
    NAME,
    NAMESPACE,
    NONE,
    UNSET,
    Lines,
    Part,
    at,
    block,
    each,
    line,
    map_text,
    python_bool,
    rfc1123,
    row,
    seconds,
    selector,
    table,
    text,
)
from kapi.kubectl.describers.pods import controller, template
from kapi.machinery.ages import human_duration
from kapi.machinery.golang import quote, value_text
from kapi.machinery.selectors import selector_text
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object, Tree

_CONTROLLED = line(lambda obj: f"Controlled By:\t{controller(obj)}" if controller(obj) else None)
_CONDITIONS = table("status.conditions", "Type|Status|Reason", "type_ status reason", "Conditions")
_TEMPLATE = template("spec.template")


def _pods_status(obj: Object) -> str:
    """The number of its pods in each phase, or the error of reading them."""
    found = obj["related"]
    if found.get("error"):
        return f"Pods Status:\terror in fetching pods: {found['error']}"
    phases = [at(pod, "status.phase") for pod in found["pods"]]
    names = (("Running", "Running"), ("Pending", "Waiting"), ("Succeeded", "Succeeded"), ("Failed", "Failed"))
    return "Pods Status:\t" + " / ".join(f"{phases.count(phase)} {shown}" for phase, shown in names)


def _replicas(obj: Object) -> str:
    return f"Replicas:\t{at(obj, 'status.replicas') or 0} current / {at(obj, 'spec.replicas') or 0} desired"


REPLICATION_CONTROLLER = (
    NAME,
    NAMESPACE,
    row("Selector", "spec.selector", NONE, map_text),
    LABELS,
    ANNOTATIONS,
    line(_replicas),
    line(_pods_status),
    _TEMPLATE,
    _CONDITIONS,
)
REPLICA_SET = (
    NAME,
    NAMESPACE,
    row("Selector", "spec.selector", NONE, selector),
    LABELS,
    ANNOTATIONS,
    _CONTROLLED,
    line(_replicas),
    line(_pods_status),
    _TEMPLATE,
    _CONDITIONS,
)


def _deployment_replicas(obj: Object) -> str:
    status = obj.get("status") or {}
    names = ("updated", "", "available", "unavailable")
    counts = [f"{at(obj, 'spec.replicas') or 0} desired"]
    counts += [f"{status.get(f'{name}Replicas' if name else 'replicas', 0)} {name or 'total'}" for name in names]
    return "Replicas:\t" + " | ".join(counts)


def _replica_sets(title: str, which: str) -> Part:
    def part(out: Lines, obj: Object) -> None:
        sets = obj["related"]["sets"]
        if sets["old"] or sets["new"]:
            shown = (
                f"{at(one, 'metadata.name')} ({at(one, 'status.replicas') or 0}/{at(one, 'spec.replicas') or 0} replicas created)"
                for one in sets[which]
            )
            out.put(f"{title}:\t{', '.join(shown) or NONE}\n")

    return part


DEPLOYMENT = (
    NAME,
    NAMESPACE,
    CREATED,
    LABELS,
    ANNOTATIONS,
    row("Selector", "spec.selector", "", selector_text),
    line(_deployment_replicas),
    row("StrategyType", "spec.strategy.type", ""),
    row("MinReadySeconds", "spec.minReadySeconds", "0"),
    line(
        lambda obj: "RollingUpdateStrategy:\t{maxUnavailable} max unavailable, {maxSurge} max surge".format(**obj["spec"]["strategy"]["rollingUpdate"])  # noqa: E501
        if at(obj, "spec.strategy.rollingUpdate") else None
    ),
    _TEMPLATE,
    _CONDITIONS,
    _replica_sets("OldReplicaSets", "old"),
    _replica_sets("NewReplicaSet", "new"),
)  # fmt: skip


def _claim_templates(out: Lines, obj: Object) -> None:
    templates = at(obj, "spec.volumeClaimTemplates")
    out.put("Volume Claims:\n" if templates else f"Volume Claims:\t{NONE}\n")
    for claim in templates or ():
        out.put(f"Name:\t{at(claim, 'metadata.name') or ''}\n", 1)
        out.put(f"StorageClass:\t{claim_class(claim)}\n", 1)
        out.labels("  Labels", at(claim, "metadata.labels"))
        out.labels("  Annotations", at(claim, "metadata.annotations"))
        out.put(f"Capacity:\t{at(claim, 'spec.resources.requests.storage') or '<default>'}\n", 1)
        out.put(f"Access Modes:\t{value_text(at(claim, 'spec.accessModes') or [])}\n", 1)


STATEFUL_SET = (
    NAME,
    NAMESPACE,
    CREATED,
    row("Selector", "spec.selector", "", selector_text),
    LABELS,
    ANNOTATIONS,
    row("Service Name", "spec.serviceName"),
    row("Pod Management Policy", "spec.podManagementPolicy"),
    line(lambda obj: f"Replicas:\t{at(obj, 'spec.replicas') or 0} desired | {at(obj, 'status.replicas') or 0} total"),
    row("Update Strategy", "spec.updateStrategy.type", ""),
    row("Partition", "spec.updateStrategy.rollingUpdate.partition", level=1),
    line(
        lambda obj: (
            f"MaxUnavailable:\t{obj['spec']['updateStrategy']['rollingUpdate']['maxUnavailable']}"
            if at(obj, "spec.updateStrategy.rollingUpdate.maxUnavailable") is not None
            and at(obj, "spec.updateStrategy.rollingUpdate.partition") is not None
            else None
        ),
        1,
    ),
    block(
        "Persistent Volume Claim Retention Policy",
        "spec.persistentVolumeClaimRetentionPolicy",
        row("WhenDeleted", "whenDeleted", "", level=1),
        row("WhenScaled", "whenScaled", "", level=1),
    ),
    line(_pods_status),
    _TEMPLATE,
    _claim_templates,
)


def _count(words: str, path: str) -> Part:
    return line(lambda obj: f"{words}: {at(obj, path) or 0}")


DAEMON_SET = (
    NAME,
    NAMESPACE,
    row("Selector", "spec.selector", "", selector_text),
    row("Node-Selector", "spec.template.spec.nodeSelector", NONE, map_text),
    LABELS,
    ANNOTATIONS,
    _count("Desired Number of Nodes Scheduled", "status.desiredNumberScheduled"),
    _count("Current Number of Nodes Scheduled", "status.currentNumberScheduled"),
    _count("Number of Nodes Scheduled with Up-to-date Pods", "status.updatedNumberScheduled"),
    _count("Number of Nodes Scheduled with Available Pods", "status.numberAvailable"),
    _count("Number of Nodes Misscheduled", "status.numberMisscheduled"),
    line(_pods_status),
    _TEMPLATE,
)


def _duration(obj: Object) -> str | None:
    start, end = at(obj, "status.startTime"), at(obj, "status.completionTime")
    return f"Duration:\t{human_duration(seconds_of(end) - seconds_of(start))}" if start and end else None


def _job_pods(obj: Object) -> str:
    status = obj.get("status") or {}
    ready = f" ({status['ready']} Ready)" if "ready" in status else ""
    return f"Pods Statuses:\t{status.get('active', 0)} Active{ready} / {status.get('succeeded', 0)} Succeeded / {status.get('failed', 0)} Failed"  # noqa: E501


_MAX_INDEXES = 50  # characters


def _indexes(obj: Object) -> str | None:
    if at(obj, "spec.completionMode") != "Indexed":
        return None
    found = at(obj, "status.completedIndexes") or ""
    comma = found.find(",", _MAX_INDEXES)
    return f"Completed Indexes:\t{found[: comma + 1] + '...' if comma >= 0 else found or NONE}"


JOB = (
    NAME,
    NAMESPACE,
    row("Selector", "spec.selector", "", selector_text),
    LABELS,
    ANNOTATIONS,
    _CONTROLLED,
    row("Parallelism", "spec.parallelism"),
    row("Completions", "spec.completions", UNSET),
    row("Completion Mode", "spec.completionMode"),
    row("Suspend", "spec.suspend"),
    row("Backoff Limit", "spec.backoffLimit"),
    row("TTL Seconds After Finished", "spec.ttlSecondsAfterFinished"),
    row("Start Time", "status.startTime", show=rfc1123),
    row("Completed At", "status.completionTime", show=rfc1123),
    line(_duration),
    row("Active Deadline Seconds", "spec.activeDeadlineSeconds", show=seconds),
    line(_job_pods),
    line(_indexes),
    _TEMPLATE,
)
CRON_JOB = (
    *HEAD,
    row("Schedule", "spec.schedule", ""),
    row("Concurrency Policy", "spec.concurrencyPolicy", ""),
    row("Suspend", "spec.suspend", UNSET, python_bool),
    row("Time Zone", "spec.timeZone", UNSET),
    row("Successful Job History Limit", "spec.successfulJobsHistoryLimit", UNSET),
    row("Failed Job History Limit", "spec.failedJobsHistoryLimit", UNSET),
    row("Starting Deadline Seconds", "spec.startingDeadlineSeconds", UNSET, seconds),
    row("Selector", "spec.jobTemplate.spec.selector", UNSET, selector_text),
    row("Parallelism", "spec.jobTemplate.spec.parallelism", UNSET),
    row("Completions", "spec.jobTemplate.spec.completions", UNSET),
    row("Active Deadline Seconds", "spec.jobTemplate.spec.activeDeadlineSeconds", show=seconds),
    template("spec.jobTemplate.spec.template"),
    row("Last Schedule Time", "status.lastScheduleTime", UNSET, rfc1123),
    row("Active Jobs", "status.active", NONE, lambda jobs: ", ".join(job.get("name", "") for job in jobs)),
)

# -- autoscalers --------------------------------------------------------------------------------------------------------

_UNKNOWN = "<unknown>"


def _metric(kind: str, spec: Object, current: Object) -> str:
    """One metric of an autoscaler, with its current and target value."""
    target, name = spec.get("target") or {}, at(spec, "metric.name") or spec.get("name", "")
    average = current.get("averageValue")
    if kind in ("Resource", "ContainerResource"):
        what = (
            f"resource {name}"
            + (f' of container "{spec["container"]}"' if kind == "ContainerResource" else "")
            + " on pods"
        )
        if "averageValue" in target:
            return f"{what}:\t{average or _UNKNOWN} / {target['averageValue']}"
        use, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        now = _UNKNOWN if use is None else f"{use}% ({average})"
        return f"{what}  (as a percentage of request):\t{now} / {'<auto>' if wanted is None else f'{wanted}%'}"
    if kind == "Pods":
        return f"{quote(name)} on pods:\t{average or _UNKNOWN} / {target.get('averageValue', '')}"
    on = " on {kind}/{name}".format(**spec["describedObject"]) if kind == "Object" else ""
    if "averageValue" in target if kind == "External" else target.get("type") == "AverageValue":
        return f"{quote(name)}{on} (target average value):\t{average or _UNKNOWN} / {target['averageValue']}"
    return f"{quote(name)}{on} (target value):\t{current.get('value') or _UNKNOWN} / {target.get('value', '')}"


def _metrics(out: Lines, obj: Object) -> None:
    out.put("Metrics:\t( current / target )\n")
    known = at(obj, "status.currentMetrics") or []
    for number, metric in enumerate(at(obj, "spec.metrics") or ()):
        kind = metric["type"]
        path = kind[0].lower() + kind[1:]
        current = at(known[number], f"{path}.current") if number < len(known) else None
        out.put(f"{_metric(kind, metric[path], current or {})}\n", 1)


def _behavior(title: str, path: str) -> Part:
    policies = each(
        "policies", line(lambda one: "- Type: {type}\tValue: {value}\tPeriod: {periodSeconds} seconds".format(**one), 3)
    )
    return block(
        title,
        path,
        line(
            lambda rules: (
                f"Stabilization Window: {rules['stabilizationWindowSeconds']} seconds"
                if "stabilizationWindowSeconds" in rules
                else None
            ),
            2,
        ),
        line(lambda rules: f"Select Policy: {rules.get('selectPolicy', 'Max')}" if rules.get("policies") else None, 2),
        lambda out, rules: text("Policies:", 2)(out, rules) if rules.get("policies") else None,
        policies,
        level=1,
    )


def _scaled(obj: Object) -> str:
    status: Tree = obj.get("status") or {}
    return f"{at(obj, 'spec.scaleTargetRef.kind')} pods:\t{status.get('currentReplicas', 0)} current / {status.get('desiredReplicas', 0)} desired"  # noqa: E501


HORIZONTAL_POD_AUTOSCALER = (
    *HEAD,
    CREATED,
    line(lambda obj: "Reference:\t{kind}/{name}".format(**obj["spec"]["scaleTargetRef"])),
    _metrics,
    row("Min replicas", "spec.minReplicas", UNSET),
    row("Max replicas", "spec.maxReplicas", "0"),
    block("Behavior", "spec.behavior", _behavior("Scale Up", "scaleUp"), _behavior("Scale Down", "scaleDown")),
    line(_scaled),
    table("status.conditions", "Type|Status|Reason|Message", "type status reason message", "Conditions"),
)
POD_DISRUPTION_BUDGET = (
    NAME,
    NAMESPACE,
    line(
        lambda obj: next(
            (
                f"{title}:\t{obj['spec'][path]}"
                for title, path in (("Min available", "minAvailable"), ("Max unavailable", "maxUnavailable"))
                if path in obj["spec"]
            ),
            None,
        )
    ),
    line(lambda obj: f"Selector:\t{UNSET if at(obj, 'spec.selector') is None else selector(obj['spec']['selector'])}"),
    text("Status:"),
    row("Allowed disruptions", "status.disruptionsAllowed", "0", level=2),
    row("Current", "status.currentHealthy", "0", level=2),
    row("Desired", "status.desiredHealthy", "0", level=2),
    row("Total", "status.expectedPods", "0", level=2),
)
PRIORITY_CLASS = (
    NAME,
    row("Value", "value", "0"),
    row("GlobalDefault", "globalDefault", "false"),
    row("PreemptionPolicy", "preemptionPolicy", ""),
    row("Description", "description", ""),
    row("Annotations", "metadata.annotations", NONE, map_text),
)
