"""Containers: names, ports, environment, mounts and devices of volumes, restart rules, probes, lifecycle hooks.

Upstream: ``core/validation`` (validateContainerCommon, ValidateVolumeMounts, ValidateVolumeDevices, validateProbe,
validateLifecycle).
"""

from __future__ import annotations

from collections.abc import Mapping

from kapi.machinery import field
from kapi.machinery.each import each, elements
from kapi.machinery.field import Path
from kapi.machinery.tree import Object, Tree
from kapi.resources.shared import security
from kapi.resources.shared.compute import validate_resources
from kapi.resources.shared.env import validate_env, validate_env_from
from kapi.resources.shared.names import is_dns1123_label, is_http_header_name, is_port_name, is_port_number
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.paths import has_backsteps, validate_descending
from kapi.resources.shared.rules import (
    Errors,
    Rule,
    at,
    at_most,
    enum,
    minimum,
    need,
    nonnegative,
    not_supported,
    report,
    required,
    struct,
    supported,
)

_NUMBERED = tuple(f"SIGRTMIN+{n}" for n in range(1, 16)) + tuple(f"SIGRTMAX-{n}" for n in range(1, 15))
SIGNALS = (
    "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO",
    "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGSEGV", "SIGSTKFLT", "SIGSTOP",
    "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM",
    "SIGWINCH", "SIGXCPU", "SIGXFSZ", "SIGRTMIN", "SIGRTMAX", *_NUMBERED,
)  # fmt: skip
WINDOWS_SIGNALS = ("SIGKILL", "SIGTERM")


def port_or_name(value: int | str, path: Path, errors: Errors, ctx: object) -> None:
    """A port number, or the name of a container port."""
    report(is_port_name(value) if isinstance(value, str) else is_port_number(value), value, path, errors)


def _header(header: Object, path: Path, errors: Errors, ctx: object) -> None:
    name = header.get("name", "")
    report(is_http_header_name(name), name, path, errors)


def _headers(action: Object, path: Path, errors: Errors, ctx: object) -> None:
    for header in elements(action, "httpHeaders"):  # upstream names the list, not the header
        _header(header, path.child("httpHeaders"), errors, ctx)


def _sleep(action: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    seconds = action.get("seconds", 0)
    if ctx.grace is not None and not 0 <= seconds <= ctx.grace:
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({ctx.grace})"
        errors.append(field.invalid(path, seconds, text))


_ACTIONS: dict[str, Rule] = {
    "exec": struct(required("command")),
    "httpGet": struct(at("port", port_or_name, zero=0), at("scheme", enum("HTTP", "HTTPS"), zero=""), _headers),
    "tcpSocket": struct(at("port", port_or_name, zero=0)),
    "grpc": struct(at("port", port_or_name, zero=0)),
    "sleep": _sleep,
}


def _handler(*names: str) -> Rule:
    """Checks that there is exactly one action."""
    actions = [(name, _ACTIONS[name]) for name in names]

    def validate(value: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
        found = False
        for name, rule in actions:
            action = value.get(name)
            if action is None:
                continue
            if found:
                errors.append(field.forbidden(path.child(name), "may not specify more than 1 handler type"))
            else:
                found = True
                rule(action, path.child(name), errors, ctx)
        need(found, path, errors, detail="must specify a handler type")

    return validate


_PROBE = struct(
    _handler("exec", "httpGet", "tcpSocket", "grpc"),
    at("initialDelaySeconds", nonnegative),
    at("timeoutSeconds", nonnegative),
    at("periodSeconds", nonnegative),
    at("successThreshold", nonnegative),
    at("failureThreshold", nonnegative),
    at("terminationGracePeriodSeconds", minimum(1, "must be greater than 0")),
)


def _once(probe: Object, path: Path, errors: Errors, ctx: object) -> None:
    count = probe.get("successThreshold", 0)
    if count != 1:
        errors.append(field.invalid(path.child("successThreshold"), count, "must be 1"))


def _no_grace(probe: Object, path: Path, errors: Errors, ctx: object) -> None:
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None:
        text = "must not be set for readinessProbes"
        errors.append(field.invalid(path.child("terminationGracePeriodSeconds"), grace, text))


PROBES = struct(
    at("livenessProbe", struct(_PROBE, _once)),
    at("readinessProbe", struct(_PROBE, _no_grace)),
    at("startupProbe", struct(_PROBE, _once)),
)


def _stop_signal(signal: str, path: Path, errors: Errors, ctx: PodOptions) -> None:
    if not ctx.os:
        errors.append(field.forbidden(path, "may not be set for containers with empty `spec.os.name`"))
        return
    known = {"windows": WINDOWS_SIGNALS, "linux": SIGNALS}.get(ctx.os)
    if known is not None and signal not in known:
        errors.append(not_supported(path, signal, sorted(known)))


_HOOK = _handler("exec", "httpGet", "tcpSocket", "sleep")
LIFECYCLE = struct(at("postStart", _HOOK), at("preStop", _HOOK), at("stopSignal", _stop_signal))

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
PROTOCOLS = frozenset({"TCP", "UDP", "SCTP"})
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_EPHEMERAL_FORBIDDEN = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe", "readinessProbe",
    "startupProbe", "lifecycle",
)  # fmt: skip


def _propagation(kind: str, container: Object, path: Path, errors: Errors) -> None:
    supported(kind, _PROPAGATIONS, path, errors)
    if kind == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(field.forbidden(path, text))


def _recursive_read_only(mount: Object, path: Path, errors: Errors) -> None:
    kind = mount["recursiveReadOnly"]
    if kind not in _RECURSIVE:
        errors.append(not_supported(path, kind, _RECURSIVE))
    elif kind != "Disabled":
        if not mount.get("readOnly"):
            errors.append(field.forbidden(path, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation") not in (None, "None"):
            errors.append(field.forbidden(path, "may only be specified when mountPropagation is None or not specified"))


def validate_volume_mounts(
    mounts: list[Object], devices: list[Object], container: Object, path: Path, errors: Errors, ctx: PodOptions
) -> None:
    points = set()
    device_paths = {device.get("name", ""): device.get("devicePath", "") for device in devices}
    taken = set(device_paths.values())
    for i, mount in enumerate(mounts):
        name, point = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(field.required(path.index(i).child("name")))
        if name not in ctx.volumes:
            errors.append(field.not_found(path.index(i).child("name"), name))
        if not point:
            errors.append(field.required(path.index(i).child("mountPath")))
        if point in points:
            errors.append(field.invalid(path.index(i).child("mountPath"), point, "must be unique"))
        points.add(point)
        if device_paths:
            if name in device_paths:
                text = "must not already exist in volumeDevices"
                errors.append(field.invalid(path.index(i).child("name"), name, text))
            if point in taken:
                text = "must not already exist as a path in volumeDevices"
                errors.append(field.invalid(path.index(i).child("mountPath"), point, text))
        sub_path, expression = mount.get("subPath"), mount.get("subPathExpr")
        if sub_path:
            validate_descending(sub_path, path.child("subPath"), errors)
        if expression:
            if sub_path:
                text = "subPathExpr and subPath are mutually exclusive"
                errors.append(field.invalid(path.index(i).child("subPathExpr"), expression, text))
            validate_descending(expression, path.child("subPathExpr"), errors)
        propagation = mount.get("mountPropagation")
        if propagation is not None:
            _propagation(propagation, container, path.child("mountPropagation"), errors)
        if mount.get("recursiveReadOnly") is not None:
            _recursive_read_only(mount, path.child("recursiveReadOnly"), errors)


def validate_volume_devices(
    devices: list[Object], mounts: list[Object], path: Path, errors: Errors, ctx: PodOptions
) -> None:
    seen_paths, seen_names = set(), set()
    mount_paths = {mount.get("name", ""): mount.get("mountPath", "") for mount in mounts}
    taken = set(mount_paths.values())
    for i, device in enumerate(devices):
        here = path.index(i)
        name, device_path = device.get("name", ""), device.get("devicePath", "")
        volume = ctx.volumes.get(name)
        need(name, here, errors, "name")
        if name in seen_names:
            errors.append(field.invalid(here.child("name"), name, "must be unique"))
        if volume is None:
            errors.append(field.not_found(here.child("name"), name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(field.invalid(here.child("name"), name, text))
        need(device_path, here, errors, "devicePath")
        if device_path in seen_paths:
            errors.append(field.invalid(here.child("devicePath"), device_path, "must be unique"))
        if has_backsteps(device_path):
            errors.append(field.invalid(here.child("devicePath"), device_path, "can not contain backsteps ('..')"))
        else:
            seen_paths.add(device_path)
        if name in mount_paths:
            errors.append(field.invalid(here.child("name"), name, "must not already exist in volumeMounts"))
        if device_path in taken:
            text = "must not already exist as a path in volumeMounts"
            errors.append(field.invalid(here.child("devicePath"), device_path, text))
        if name:
            seen_names.add(name)


def validate_ports(ports: list[Object], path: Path, errors: Errors) -> None:
    names = set()
    for i, port in enumerate(ports):
        number = port.get("containerPort", 0)
        name, host, protocol = port.get("name"), port.get("hostPort", 0), port.get("protocol", "")
        if name:
            texts = is_port_name(name)
            for text in texts:
                errors.append(field.invalid(path.index(i).child("name"), name, text))
            if not texts:
                if name in names:
                    errors.append(field.duplicate(path.index(i).child("name"), name))
                names.add(name)
        if not number:
            errors.append(field.required(path.index(i).child("containerPort")))
        elif not 1 <= number <= 65535:
            for text in is_port_number(number):
                errors.append(field.invalid(path.index(i).child("containerPort"), number, text))
        if host and not 1 <= host <= 65535:
            for text in is_port_number(host):
                errors.append(field.invalid(path.index(i).child("hostPort"), host, text))
        if protocol not in PROTOCOLS:
            errors.append(not_supported(path.index(i).child("protocol"), protocol, sorted(PROTOCOLS)))


def _resize_policies(policies: list[Object], path: Path, errors: Errors, ctx: PodOptions) -> None:
    seen = set()
    for i, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            errors.append(field.duplicate(path.index(i), name))
        seen.add(name)
        for value, known in ((name, ("cpu", "memory")), (restart, _RESIZE_POLICIES)):
            if not value:
                errors.append(field.required(path))
            elif value not in known:
                errors.append(not_supported(path, value, known))
        if ctx.restart_policy == "Never" and restart != "NotRequired":
            errors.append(field.invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))


def validate_restart_rules(container: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    here = path.child("restartPolicy")
    if policy is None:
        if not rules:
            return
        errors.append(field.required(here, "must specify restartPolicy when restart rules are used"))
    elif policy not in _RESTART_POLICIES:
        errors.append(not_supported(here, policy, _RESTART_POLICIES))
    at_most(len(rules), 20, path, errors, "restartPolicyRules")
    actions = ("Restart", "RestartAllContainers") if ctx.restart_all_containers else ("Restart",)
    for i, rule in enumerate(rules):
        here = path.child("restartPolicyRules").index(i)
        supported(rule.get("action", ""), actions, here, errors, "action")
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(field.required(here.child("exitCodes"), "must be specified"))
            continue
        supported(codes.get("operator", ""), ("In", "NotIn"), here, errors, "exitCodes", "operator")
        at_most(len(codes.get("values") or ()), 255, here, errors, "exitCodes", "values")


def validate_common(container: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    """The rules for containers of every kind."""
    get = container.get
    name = get("name")
    if not name:
        errors.append(field.required(path.child("name")))
    else:
        report(is_dns1123_label(name), name, path, errors, "name")
    need(get("image"), path, errors, "image")
    policy = get("terminationMessagePolicy", "")
    if policy != "File" and policy != "FallbackToLogsOnError":
        errors.append(not_supported(path.child("terminationMessagePolicy"), policy, ("File", "FallbackToLogsOnError")))
    ports = get("ports")
    if ports:
        validate_ports(ports, path.child("ports"), errors)
    env = get("env")
    if env:
        validate_env(env, path.child("env"), errors, ctx)
    sources = get("envFrom")
    if sources:
        validate_env_from(sources, path.child("envFrom"), errors)
    mounts, devices = get("volumeMounts"), get("volumeDevices")
    if mounts:
        validate_volume_mounts(mounts, devices or [], container, path.child("volumeMounts"), errors, ctx)
    if devices:
        validate_volume_devices(devices, mounts or [], path.child("volumeDevices"), errors, ctx)
    policy = get("imagePullPolicy", "")
    if policy not in PULL_POLICIES:
        errors.append(not_supported(path.child("imagePullPolicy"), policy, PULL_POLICIES))
    resources = get("resources")
    if resources:
        validate_resources(
            resources,
            path.child("resources"),
            errors,
            claim_names=ctx.claim_names,
            allow_indivisible=ctx.allow_indivisible_huge_pages,
        )
    policies = get("resizePolicy")
    if policies:
        _resize_policies(policies, path.child("resizePolicy"), errors, ctx)
    context = get("securityContext")
    if context:
        security.CONTAINER(context, path.child("securityContext"), errors, ctx)


def _host_ports(containers: list[tuple[int, Object]], path: Path, errors: Errors) -> None:
    seen = set()
    for i, container in containers:
        for port, here in each(path.index(i).child("ports"), container):
            number = port.get("hostPort")
            if not number:
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{number}"
            if key in seen:
                errors.append(field.duplicate(here.child("hostPort"), key))
            seen.add(key)


def validate_containers(containers: list[Object], path: Path, errors: Errors, ctx: PodOptions) -> None:
    """The regular containers."""
    if not containers:
        errors.append(field.required(path))
        return
    names = set()
    ports = False
    for i, container in enumerate(containers):
        here = path.index(i)
        validate_common(container, here, errors, ctx)
        name = container.get("name", "")
        if name in names:
            errors.append(field.duplicate(here.child("name"), name))
        names.add(name)
        lifecycle = container.get("lifecycle")
        if lifecycle is not None:
            LIFECYCLE(lifecycle, here.child("lifecycle"), errors, ctx)
        PROBES(container, here, errors, ctx)
        validate_restart_rules(container, here, errors, ctx)
        ports = ports or "ports" in container
    if ports:
        _host_ports(list(enumerate(containers)), path, errors)


def _init_restart_policy(container: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules")
    if policy is None and rules:
        text = "must specify restartPolicy when restart rules are used"
        errors.append(field.required(path.child("restartPolicy"), text))
    elif policy != "Always" or ctx.restart_all_containers:
        validate_restart_rules(container, path, errors, ctx)
    elif rules:
        text = "restartPolicyRules are not allowed for init containers with restart policy Always"
        errors.append(field.forbidden(path.child("restartPolicyRules"), text))


def validate_init_containers(
    containers: list[Object], regular: list[Object], path: Path, errors: Errors, ctx: PodOptions
) -> None:
    names = {container.get("name", "") for container in regular}
    for i, container in enumerate(containers):
        here = path.index(i)
        validate_common(container, here, errors, ctx)
        _init_restart_policy(container, here, errors, ctx)
        sidecar = container.get("restartPolicy") == "Always"
        name = container.get("name", "")
        if name in names:
            errors.append(field.duplicate(here.child("name"), name))
        elif name:
            names.add(name)
        _host_ports([(0, container)], path, errors)  # upstream's index is in this list with one element
        if sidecar:
            lifecycle = container.get("lifecycle")
            if lifecycle is not None:
                LIFECYCLE(lifecycle, here.child("lifecycle"), errors, ctx)
            PROBES(container, here, errors, ctx)
        else:
            for part in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                if container.get(part) is not None:
                    text = "may not be set for init containers without restartPolicy=Always"
                    errors.append(field.forbidden(here.child(part), text))
        if not sidecar and not ctx.allow_restart_container_for_init:
            for j, policy in enumerate(elements(container, "resizePolicy")):
                if policy.get("restartPolicy") == "RestartContainer":
                    text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                    place = here.child("resizePolicy").index(j).child("restartPolicy")
                    errors.append(field.invalid(place, "RestartContainer", text))


def validate_ephemeral_containers(
    containers: list[Object], others: set[str], path: Path, errors: Errors, ctx: PodOptions
) -> None:
    """``others``: names of the pod's other containers."""
    names = set(others)
    text = "cannot be set for an Ephemeral Container"
    for i, container in enumerate(containers):
        here = path.index(i)
        validate_common(container, here, errors, ctx)
        validate_image(container, here, errors)
        name = container.get("name", "")
        if name in names:
            errors.append(field.duplicate(here.child("name"), name))
        names.add(name)
        target = container.get("targetContainerName", "")
        if target and target not in others:
            errors.append(field.not_found(here.child("targetContainerName"), target))
        for part in _EPHEMERAL_FORBIDDEN:
            value = container.get(part)
            if value is not None and (value != {} or part != "resources"):
                errors.append(field.forbidden(here.child(part), text))
        for mount, place in each(here.child("volumeMounts"), container):
            for part in ("subPath", "subPathExpr"):
                if mount.get(part):
                    errors.append(field.forbidden(place.child(part), text))


def validate_image(container: Mapping[str, Tree], path: Path, errors: Errors) -> None:
    """Checks images, only of pods: stored templates may have such images."""
    image = container.get("image", "")
    if image != image.strip():
        errors.append(field.invalid(path.child("image"), image, "must not have leading or trailing whitespace"))
