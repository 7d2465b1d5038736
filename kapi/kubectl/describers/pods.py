"""Pods and pod templates: containers, their states, probes, environment and mounts."""

from __future__ import annotations

import math
from collections.abc import Callable
from urllib.parse import quote as escape

from kapi.kubectl.describers.lines import (
    ANNOTATIONS,
    LABELS,
    NAME,
    NAMESPACE,
    NONE,
    Lines,
    Part,
    age,
    at,
    block,
    labels,
    line,
    python_bool,
    rfc1123,
    row,
)
from kapi.kubectl.describers.lines import selector as selector_of
from kapi.kubectl.describers.volumes import SOURCES, describe_source
from kapi.machinery import quantities
from kapi.machinery.golang import quote, value_text
from kapi.machinery.tree import Object

Resolver = Callable[[str], str]


def controller(obj: Object) -> str | None:
    """``Kind/name`` of the controller."""
    for owner in at(obj, "metadata.ownerReferences") or ():
        if owner.get("controller"):
            return f"{owner['kind']}/{owner['name']}"
    return None


def _status(out: Lines, pod: Object) -> None:
    deleted, phase = at(pod, "metadata.deletionTimestamp"), at(pod, "status.phase") or ""
    if deleted and phase not in ("Failed", "Succeeded"):
        out.put(f"Status:\tTerminating (lasts {age(deleted)})\n")
        out.put(f"Termination Grace Period:\t{at(pod, 'metadata.deletionGracePeriodSeconds')}s\n")
    else:
        out.put(f"Status:\t{phase}\n")


def _seccomp(level: int, inner: int) -> Part:
    def part(out: Lines, obj: Object) -> None:
        profile = at(obj, "securityContext.seccompProfile")
        if profile is not None:
            out.put(f"SeccompProfile:\t{profile['type']}\n", level)
            if profile["type"] == "Localhost":
                out.put(f"LocalhostProfile:\t{profile['localhostProfile']}\n", inner)

    return part


def _ips(out: Lines, pod: Object) -> None:
    ips = at(pod, "status.podIPs")
    out.put("IPs:\n" if ips else f"IPs:\t{NONE}\n")
    for ip in ips or ():
        out.put(f"IP:\t{ip['ip']}\n", 1)


def amounts(title: str, path: str, level: int) -> Part:
    """Resource names and quantities."""

    def part(out: Lines, obj: Object) -> None:
        if found := at(obj, path):
            out.put(f"{title}:\n", level)
            for name, amount in sorted(found.items()):
                out.put(f"{name}:\t{amount}\n", level + 1)

    return part


# -- containers ---------------------------------------------------------------------------------------------------------


def _ports(ports: list[Object], key: str, title: str) -> str:
    shown = [
        f"{port.get(key, 0)}/{port['protocol']}" + (f" ({port['name']})" if port.get("name") else "") for port in ports
    ]
    return f"{title}s:\t{', '.join(shown)}" if len(shown) > 1 else f"{title}:\t{shown[0] if shown else NONE}"


def _lines(title: str, path: str) -> Part:
    def part(out: Lines, container: Object) -> None:
        if found := container.get(path):
            out.put(f"{title}:\n", 2)
            for argument in found:
                for text in argument.split("\n"):
                    out.put(f"{text}\n", 3)

    return part


def _state(title: str, state: Object) -> Part:
    name = next((name for name, value in state.items() if value is not None), "waiting")
    found: Object = state.get(name) or {}

    def part(out: Lines, obj: Object) -> None:
        out.put(f"{title}:\t{name.capitalize()}\n", 2)
        if name == "running":
            out.put(f"Started:\t{rfc1123(found.get('startedAt'))}\n", 3)
        for inner in _ENDED if name == "terminated" else (_REASON,) if name == "waiting" else ():
            inner(out, found)

    return part


_REASON = row("Reason", "reason", level=3)
_ENDED = (
    _REASON,
    row("Message", "message", level=3),
    row("Exit Code", "exitCode", "0", level=3),
    line(lambda ended: f"Signal:\t{ended['signal']}" if ended.get("signal") else None, 3),
    line(lambda ended: f"Started:\t{rfc1123(ended.get('startedAt'))}", 3),
    line(lambda ended: f"Finished:\t{rfc1123(ended.get('finishedAt'))}", 3),
)


def _probe(probe: Object) -> str:
    attributes = "delay={}s timeout={}s period={}s successThreshold={} failureThreshold={}".format(
        *(probe.get(name, 0) for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"))  # noqa: E501
    )  # fmt: skip
    if "exec" in probe:
        return f"exec {value_text(probe['exec'].get('command') or [])} {attributes}"
    if (get := probe.get("httpGet")) is not None:
        host, path = get.get("host", ""), get.get("path", "")
        host = f"[{host}]" if ":" in host else host
        slash = "" if not path or path.startswith("/") else "/"
        url = f"{get.get('scheme', '').lower()}://{host}:{get['port']}{slash}{escape(path, safe='/$&+,:;=@~')}"
        return f"http-get {url} {attributes}"
    if (socket := probe.get("tcpSocket")) is not None:
        return f"tcp-socket {socket.get('host', '')}:{socket['port']} {attributes}"
    if (grpc := probe.get("grpc")) is not None:
        return f"grpc <pod>:{grpc['port']} {grpc.get('service', '')} {attributes}"
    return f"unknown {attributes}"


def _environment_from(out: Lines, container: Object) -> None:
    if sources := container.get("envFrom"):
        out.put("Environment Variables from:\n", 2)
        for source in sources:
            kind, found = (
                ("ConfigMap", source["configMapRef"])
                if "configMapRef" in source
                else ("Secret", source.get("secretRef") or {})
            )
            prefix = f" with prefix '{source['prefix']}'" if source.get("prefix") else ""
            out.put(
                f"{found.get('name', '')}\t{kind}{prefix}\tOptional: {value_text(bool(found.get('optional')))}\n", 3
            )


def _environment(resolve: Resolver) -> Part:
    def part(out: Lines, container: Object) -> None:
        variables = container.get("env") or []
        out.put("Environment:\n" if variables else f"Environment:\t{NONE}\n", 2)
        for variable in variables:
            name, source = variable["name"], variable.get("valueFrom")
            if source is None:
                first, *rest = variable.get("value", "").split("\n")
                out.put(f"{name}:\t{first}\n", 3)
                for text in rest:
                    out.put(f"\t{text}\n", 3)
            elif (field := source.get("fieldRef")) is not None:
                out.put(
                    f"{name}:\t{resolve(field['fieldPath'])} ({field.get('apiVersion', '')}:{field['fieldPath']})\n", 3
                )
            elif (amount := source.get("resourceFieldRef")) is not None:
                out.put(f"{name}:\t{_amount_of(amount, container)} ({amount['resource']})\n", 3)
            else:
                for path, words in (("secretKeyRef", "in secret"), ("configMapKeyRef", "of config map")):
                    if (key := source.get(path)) is not None:
                        optional = value_text(bool(key.get("optional")))
                        which = f"<set to the key '{key['key']}' {words} '{key.get('name', '')}'>"
                        out.put(f"{name}:\t{which}\tOptional: {optional}\n", 3)

    return part


def _amount_of(field: Object, container: Object) -> str:
    """The request or limit of a container, in units of the divisor, rounded up."""
    resource = field["resource"]
    part, _, name = resource.partition(".")
    if part not in ("limits", "requests") or not (
        name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")
    ):
        return ""
    given = at(container, f"resources.{part}") or {}
    divisor = quantities.value_of(field.get("divisor") or "0") or 1
    value = str(math.ceil(quantities.value_of(given.get(name, "0")) / divisor))
    return "node allocatable" if value == "0" and resource in ("limits.cpu", "limits.memory") else value


def _mounts(out: Lines, container: Object) -> None:
    mounts = container.get("volumeMounts") or []
    none = "" if mounts else f"\t{NONE}"
    out.put(f"Mounts:{none}\n", 2)
    for mount in sorted(mounts, key=lambda mount: str(mount["mountPath"])):
        sub_path = f",path={quote(mount['subPath'])}" if mount.get("subPath") else ""
        out.put(f"{mount['mountPath']} from {mount['name']} ({'ro' if mount.get('readOnly') else 'rw'}{sub_path})\n", 3)
    if devices := container.get("volumeDevices"):
        out.put(f"Devices:{none}\n", 2)
        for device in sorted(devices, key=lambda device: str(device["devicePath"])):
            out.put(f"{device['devicePath']} from {device['name']}\n", 3)


def containers(title: str, path: str, statuses_path: str = "", space: str = "") -> Part:
    """``space`` is the indentation of a template's lines."""

    def part(out: Lines, obj: Object) -> None:
        found, statuses = (
            at(obj, path) or [],
            {one["name"]: one for one in at(obj, statuses_path) or ()} if statuses_path else {},
        )
        out.put(f"{space}{title}:{'' if found else ' ' + NONE}\n")
        resolve = _resolver(obj) if not space else lambda field: ""
        for container in found:
            _container(out, container, statuses.get(container["name"]), space, resolve)

    return part


def _container(out: Lines, container: Object, status: Object | None, space: str, resolve: Resolver) -> None:
    out.put(f"{' ' if space else ''}{container['name']}:\n", 1)
    ports = container.get("ports") or []
    known = status is not None
    state = status or {}
    parts: list[Part | bool] = [
        known and row("Container ID", "status.containerID", "", level=2),
        row("Image", "image", "", level=2),
        known and row("Image ID", "status.imageID", "", level=2),
        line(lambda _: _ports(ports, "containerPort", "Port"), 2),
        line(lambda _: _ports(ports, "hostPort", "Host Port"), 2),
        _seccomp(2, 3),
        _lines("Command", "command"),
        _lines("Args", "args"),
        known and _state("State", state.get("state") or {}),
        bool(at(state, "lastState.terminated")) and _state("Last State", state.get("lastState") or {}),
        known and row("Ready", "status.ready", "False", python_bool, level=2),
        known and row("Restart Count", "status.restartCount", "0", level=2),
        amounts("Limits", "resources.limits", 2),
        amounts("Requests", "resources.requests", 2),
        row("Liveness", "livenessProbe", show=_probe, level=2),
        row("Readiness", "readinessProbe", show=_probe, level=2),
        row("Startup", "startupProbe", show=_probe, level=2),
        _environment_from,
        _environment(resolve),
        _mounts,
    ]
    for part in parts:
        if not isinstance(part, bool):
            part(out, {**container, "status": state})


def _resolver(pod: Object) -> Resolver:
    """The fields that a variable may refer to and kubectl knows; "" for others."""
    return lambda field: str(at(pod, field)) if field in ("metadata.name", "metadata.namespace") else ""


# -- the rest of a pod --------------------------------------------------------------------------------------------------


def volumes(path: str, space: str = "") -> Part:
    def part(out: Lines, obj: Object) -> None:
        found = at(obj, path) or []
        out.put(f"{space}Volumes:" + ("\n" if found else f"\t{NONE}\n"))
        for volume in found:
            out.put(f"{' ' if space else ''}{volume['name']}:\n", 1)
            describe_source(out, volume, SOURCES)

    return part


def _toleration(one: Object) -> str:
    key, value, effect = (one.get(name, "") for name in ("key", "value", "effect"))
    text = key + (f"={value}" if value else "") + (f":{effect}" if effect else "")
    if one.get("operator") == "Exists" and not value:
        text += " op=Exists" if key or effect else "op=Exists"
    wait = one.get("tolerationSeconds")
    return text if wait is None else f"{text} for {wait}s"


def tolerations(title: str, path: str) -> Part:
    return lambda out, obj: out.multiline(
        title, map(_toleration, sorted(at(obj, path) or (), key=lambda one: str(one.get("key", ""))))
    )


def spread_constraints(path: str, space: str = "") -> Part:
    def part(out: Lines, obj: Object) -> None:
        found = sorted(at(obj, path) or (), key=lambda one: str(one["topologyKey"]))
        if found:
            out.put(f"{space}Topology Spread Constraints:\t")
        for number, one in enumerate(found):
            chosen = "" if one.get("labelSelector") is None else f" for selector {selector_of(one['labelSelector'])}"
            start = f"{space}\t" if number else ""
            out.put(
                f"{start}{one['topologyKey']}:{one['whenUnsatisfiable']} when max skew {one['maxSkew']} is exceeded{chosen}\n"
            )

    return part


def _gates(out: Lines, pod: Object) -> None:
    if gates := at(pod, "spec.readinessGates"):
        statuses = {one["type"]: one["status"] for one in reversed(at(pod, "status.conditions") or [])}
        out.put("Readiness Gates:\n  Type\tStatus\n")
        for gate in gates:
            out.put(f"{gate['conditionType']} \t{statuses.get(gate['conditionType'], NONE)} \n", 1)


def _conditions(out: Lines, pod: Object) -> None:
    if conditions := at(pod, "status.conditions"):
        out.put("Conditions:\n  Type\tStatus\n")
        for one in conditions:
            out.put(f"{one['type']} \t{one['status']} \n", 1)


def _optional(title: str, path: str, statuses: str) -> Part:
    return lambda out, pod: containers(title, path, statuses)(out, pod) if at(pod, path) else None


POD = (
    NAME,
    NAMESPACE,
    row("Priority", "spec.priority"),
    row("Priority Class Name", "spec.priorityClassName"),
    row("Runtime Class Name", "spec.runtimeClassName"),
    row("Service Account", "spec.serviceAccountName"),
    line(lambda pod: f"Node:\t{pod['spec']['nodeName']}/{at(pod, 'status.hostIP') or ''}" if at(pod, "spec.nodeName") else f"Node:\t{NONE}"),  # noqa: E501
    row("Start Time", "status.startTime", show=rfc1123),
    LABELS,
    ANNOTATIONS,
    _status,
    row("Reason", "status.reason"),
    row("Message", "status.message"),
    lambda out, pod: _seccomp(0, 0)(out, pod["spec"]),
    row("IP", "status.podIP", ""),
    _ips,
    line(lambda pod: f"Controlled By:\t{controller(pod)}" if controller(pod) else None),
    row("NominatedNodeName", "status.nominatedNodeName"),
    block("Resources", "spec.resources", amounts("Limits", "limits", 1), amounts("Requests", "requests", 1)),
    _optional("Init Containers", "spec.initContainers", "status.initContainerStatuses"),
    containers("Containers", "spec.containers", "status.containerStatuses"),
    _optional("Ephemeral Containers", "spec.ephemeralContainers", "status.ephemeralContainerStatuses"),
    _gates,
    _conditions,
    volumes("spec.volumes"),
    row("QoS Class", "status.qosClass", "BestEffort"),
    labels("Node-Selectors", "spec.nodeSelector"),
    tolerations("Tolerations", "spec.tolerations"),
    spread_constraints("spec.topologySpreadConstraints"),
    block("SchedulingGroup", "spec.schedulingGroup", row("PodGroupName", "podGroupName", "", level=1)),
)  # fmt: skip
_TEMPLATE = (
    labels("  Labels", "metadata.labels"),
    lambda out, template: (
        out.annotations("  Annotations", at(template, "metadata.annotations"))
        if at(template, "metadata.annotations")
        else None
    ),
    row("Service Account", "spec.serviceAccountName", level=1),
    lambda out, template: (
        containers("Init Containers", "spec.initContainers", space="  ")(out, template)
        if at(template, "spec.initContainers")
        else None
    ),
    containers("Containers", "spec.containers", space="  "),
    volumes("spec.volumes", "  "),
    spread_constraints("spec.topologySpreadConstraints", "  "),
    row("Priority Class Name", "spec.priorityClassName", level=1),
    labels("  Node-Selectors", "spec.nodeSelector"),
    tolerations("  Tolerations", "spec.tolerations"),
    lambda out, template: block(
        "  SchedulingGroup", "spec.schedulingGroup", row("PodGroupName", "podGroupName", "", level=1)
    )(out, template),
)


def template(path: str) -> Part:
    def part(out: Lines, obj: Object) -> None:
        found = at(obj, path)
        out.put("Pod Template:\n")
        if found is None:
            out.put("<unset>", 1)
            return
        for inner in _TEMPLATE:
            inner(out, found)

    return part
