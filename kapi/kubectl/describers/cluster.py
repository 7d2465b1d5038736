"""Nodes, namespaces, quotas and limit ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from kapi.kubectl.describers.lines import (
    ANNOTATIONS,
    CLUSTER_HEAD,
    CREATED,
    LABELS,
    NAME,
    NAMESPACE,
    NONE,
    UNSET,
    Lines,
    age,
    at,
    each,
    joined,
    line,
    rfc1123,
    row,
    table,
    text,
)
from kapi.kubectl.describers.pods import amounts
from kapi.machinery import quantities
from kapi.machinery.pod_resources import add_all, pod_resources
from kapi.machinery.tree import Object

_SCOPES = {
    "Terminating": "Matches all pods that have an active deadline. These pods have a limited lifespan on a node before being actively terminated by the system.",  # noqa: E501
    "NotTerminating": "Matches all pods that do not have an active deadline. These pods usually include long running pods whose container command is not expected to terminate.",  # noqa: E501
    "BestEffort": "Matches all pods that do not have resource requirements set. These pods have a best effort quality of service.",  # noqa: E501
    "NotBestEffort": "Matches all pods that have at least one resource requirement set. These pods have a burstable or guaranteed quality of service.",  # noqa: E501
}


def _quota(out: Lines, quota: Object, level: int, bullet: str, rule: str) -> None:
    """The lines below a quota's name."""
    scopes = sorted(at(quota, "spec.scopes") or ())
    if scopes:
        out.put(f"Scopes:\t{', '.join(scopes)}\n", level)
    for scope in scopes:
        if scope in _SCOPES:
            out.put(f"{bullet} {_SCOPES[scope]}\n", level)
    hard, used = at(quota, "status.hard") or {}, at(quota, "status.used") or {}
    rows = (
        f"{name}\t{_same_form(used.get(name, '0'), amount) if not level else used.get(name, '0')}\t{amount}"
        for name, amount in sorted(hard.items())
    )
    out.table(("Resource", "Used", "Hard"), rows, level, ("--------", rule, rule))


def _same_form(used: str, hard: str) -> str:
    """A quantity with the kind of suffix of another."""
    form, given = quantities.parse(hard).form, quantities.parse(used)
    return used if given.form == form else str(quantities.Amount(Fraction(quantities.ceiling(used)), form))


RESOURCE_QUOTA = (NAME, NAMESPACE, lambda out, obj: _quota(out, obj, 0, " *", "----"))
_LIMITS = ("Type", "Resource", "Min", "Max", "Default Request", "Default Limit", "Max Limit/Request Ratio")
_LIMIT_PATHS = ("min", "max", "defaultRequest", "default", "maxLimitRequestRatio")


def _limit_rows(obj: Object) -> Iterable[str]:
    for item in at(obj, "spec.limits") or ():
        columns = [item.get(path) or {} for path in _LIMIT_PATHS]
        for name in sorted(set().union(*columns)):
            yield "\t".join([item["type"], name, *(column.get(name, "-") for column in columns)])


LIMIT_RANGE = (NAME, NAMESPACE, lambda out, obj: out.table(_LIMITS, _limit_rows(obj), 0))


def _quotas(out: Lines, obj: Object) -> None:
    found = obj["related"]["quotas"]
    out.put("\n")
    out.put("Resource Quotas\n" if found else "No resource quota.\n")
    for quota in sorted(found, key=lambda one: str(one["metadata"]["name"])):
        out.put(f"Name:\t{quota['metadata']['name']}\n", 1)
        _quota(out, quota, 1, "*", "---")


def _limit_ranges(out: Lines, obj: Object) -> None:
    found = obj["related"]["limits"]
    out.put("\n")
    if not found:
        out.put("No LimitRange resource.\n")
        return
    rows = [" " + limits for one in found for limits in _limit_rows(one)]
    out.put("Resource Limits\n")
    out.table([f" {_LIMITS[0]}", *_LIMITS[1:]], rows, 0, [" ----", *("-" * len(title) for title in _LIMITS[1:])])


_NAMESPACE_CONDITIONS = table(
    "status.conditions",
    "Type|Status|LastTransitionTime|Reason|Message",
    "type status @lastTransitionTime reason message",
    "Conditions",
)
NAMESPACE_OBJECT = (
    *CLUSTER_HEAD,
    row("Status", "status.phase", ""),
    _NAMESPACE_CONDITIONS,
    _quotas,
    _limit_ranges,
)

# -- nodes --------------------------------------------------------------------------------------------------------------

_ROLE = "node-role.kubernetes.io/"


def _roles(labels: Mapping[str, str]) -> str:
    found = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} | {
        labels.get("kubernetes.io/role", "")
    }
    return ",".join(sorted(found - {""})) or NONE


def taint_text(taint: Object) -> str:
    value = taint.get("value", "")
    return f"{taint['key']}{'=' if value else ''}{value}:{taint['effect']}"


def _taints(out: Lines, obj: Object) -> None:
    taints = sorted(at(obj, "spec.taints") or (), key=lambda one: f"{one['effect']},{one['key']}")
    out.multiline("Taints", map(taint_text, taints))


def _lease(out: Lines, obj: Object) -> None:
    lease = obj["related"]["lease"]
    if isinstance(lease, str):
        out.put(f"Lease:\tFailed to get lease: {lease}\n")
        return
    for part in _LEASE:
        part(out, lease)


_LEASE = (
    text("Lease:"),
    row("HolderIdentity", "spec.holderIdentity", UNSET, level=1),
    row("AcquireTime", "spec.acquireTime", UNSET, rfc1123, level=1),
    row("RenewTime", "spec.renewTime", UNSET, rfc1123, level=1),
)
_MAX_POOLS = 10


def _slices(out: Lines, obj: Object) -> None:
    """The pools of devices that belong to this node alone."""
    pools: dict[tuple[str, str], list[int]] = {}
    for one in obj["related"]["slices"]:
        counts = pools.setdefault((one["spec"]["driver"], at(one, "spec.pool.name") or ""), [0, 0])
        counts[0] += 1
        counts[1] += len(one["spec"].get("devices") or ())
    if not pools:
        return
    shown = sorted(pools.items(), key=lambda item: "/".join(item[0]))
    rows = [f"{driver}\t{pool}\t{counts[0]}\t{counts[1]}" for (driver, pool), counts in shown[:_MAX_POOLS]]
    if len(shown) > _MAX_POOLS:
        rows.append(f"...and {len(shown) - _MAX_POOLS} more pools")
    out.put("Node-Local ResourceSlices:\n")
    out.table(("Driver", "Pool", "Slices", "Devices"), rows, 1)


_OF_NOTHING = -(1 << 63)  # kubectl divides by zero for a node without an amount, which gives this on most processors


def _percent(amount: str, whole: str, milli: bool, of_nothing: int = 0) -> str:
    """An amount, and its percentage of the node's amount."""
    count = quantities.milli if milli else quantities.ceiling
    return f"{amount} ({int(count(amount) / count(whole) * 100) if count(whole) else of_nothing}%)"


def _pods(out: Lines, obj: Object) -> None:
    pods = obj["related"]["pods"]
    if pods is None:
        out.put("Pods:\tnot authorized\n")
        return
    node: Mapping[str, str] = at(obj, "status.allocatable") or at(obj, "status.capacity") or {}

    def share(found: Mapping[str, str], name: str, of_nothing: int = 0) -> str:
        return _percent(found.get(name, "0"), node.get(name, "0"), name == "cpu", of_nothing)

    out.put(f"Non-terminated Pods:\t({len(pods)} in total)\n")
    columns = ("Namespace", "Name", "", "CPU Requests", "CPU Limits", "Memory Requests", "Memory Limits", "Age")
    rows, total = [], ({}, {})  # type: tuple[list[str], tuple[dict[str, str], dict[str, str]]]
    for pod in pods:
        both = [
            pod_resources(pod["spec"], part, overhead=True, status=pod.get("status")) for part in ("requests", "limits")
        ]
        shares = [share(found, name, _OF_NOTHING) for name in ("cpu", "memory") for found in both]
        rows.append(
            "\t".join(
                [
                    at(pod, "metadata.namespace"),
                    at(pod, "metadata.name"),
                    "",
                    *shares,
                    age(at(pod, "metadata.creationTimestamp")),
                ]
            )
        )
        for part, sums in zip(("requests", "limits"), total, strict=True):
            add_all(sums, pod_resources(pod["spec"], part, overhead=True))
    out.table(columns, rows, 1)
    out.put("Allocated resources:\n  (Total limits may be over 100 percent, i.e., overcommitted.)\n")
    huge = sorted(name for name in node if name.startswith("hugepages-"))
    known = ("cpu", "memory", "ephemeral-storage", *huge)
    shown = [f"{name}\t{share(total[0], name)}\t{share(total[1], name)}" for name in known]
    others = sorted(name for name in node if name not in known and name != "pods")
    shown += [f"{name}\t{total[0].get(name, '0')}\t{total[1].get(name, '0')}" for name in others]
    out.table(("Resource", "Requests", "Limits"), shown, 1)


_INFO = "Machine ID=machineID|System UUID=systemUUID|Boot ID=bootID|Kernel Version=kernelVersion|OS Image=osImage|Operating System=operatingSystem|Architecture=architecture|Container Runtime Version=containerRuntimeVersion|Kubelet Version=kubeletVersion"  # noqa: E501
NODE = (
    NAME,
    row("Roles", "metadata.labels", NONE, _roles),
    LABELS,
    ANNOTATIONS,
    CREATED,
    _taints,
    row("Unschedulable", "spec.unschedulable", "false"),
    _lease,
    table(
        "status.conditions",
        "Type|Status|LastHeartbeatTime|LastTransitionTime|Reason|Message",
        "type_ status_ @lastHeartbeatTime_ @lastTransitionTime_ reason_ message",
        "Conditions",
    ),
    text("Addresses:"),
    each("status.addresses", line(lambda one: f"{one['type']}:\t{one['address']}", 1)),
    amounts("Capacity", "status.capacity", 0),
    amounts("Allocatable", "status.allocatable", 0),
    _slices,
    text("System Info:"),
    *(
        row(title, f"status.nodeInfo.{path}", "", level=1)
        for title, _, path in (one.partition("=") for one in _INFO.split("|"))
    ),
    row("PodCIDR", "spec.podCIDR"),
    row("PodCIDRs", "spec.podCIDRs", show=joined(",")),
    row("ProviderID", "spec.providerID"),
    _pods,
)
