"""The controls of the Pod Security Standards, each from the version that introduced it (kubernetes.io/docs, "Pod Security Standards").

A check looks at a pod's metadata and spec and returns None or (reason, detail), in upstream's words.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Collection

from kapi.admission.podsecurity.levels import (
    BASELINE,
    RESTRICTED,
    Check,
    Finding,
    Rule,
    containers_of,
    context_of,
    named,
    not_in_user_namespace,
    not_on_windows,
    offenders,
    plural,
    quoted,
    setters_of,
)
from kapi.machinery.each import elements, entries
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object

# -- baseline -----------------------------------------------------------------------------------------------------


def _other_profile(holder: Object, field: str) -> tuple[str, ...]:
    """The type of a profile that is neither the runtime's default nor a local one."""
    profile = context_of(holder).get(field)
    if profile is None or profile.get("type") in ("RuntimeDefault", "Localhost"):
        return ()
    return (profile.get("type", ""),)


def _app_armor(metadata: Object, spec: Object) -> Finding:
    text, values = setters_of(spec, lambda holder: _other_profile(holder, "appArmorProfile"))
    setters = [text] if text else []
    annotations = sorted(
        f"{key}={quote(value)}"
        for key, value in entries(metadata, "annotations")
        if key.startswith("container.apparmor.security.beta.kubernetes.io/")
        and not (value in ("", "runtime/default") or value.startswith("localhost/"))
    )
    shown = [*values, *annotations]
    if annotations:
        setters.append(plural("annotation", "annotations", annotations))
    if not setters:
        return None
    return (
        plural("forbidden AppArmor profile", "forbidden AppArmor profiles", shown),
        f"{' and '.join(setters)} must not set AppArmor profile type to {quoted(shown)}",
    )


_DEFAULT_CAPABILITIES = frozenset(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT".split()
)


def _capabilities_baseline(metadata: Object, spec: Object) -> Finding:
    detail = _added_capabilities(spec, _DEFAULT_CAPABILITIES)
    return ("non-default capabilities", detail) if detail else None


def _added_capabilities(spec: Object, allowed: frozenset[str]) -> str:
    """The finding about containers that add other capabilities, "" without any."""

    def bad(container: Object) -> Collection[str]:
        added = (context_of(container).get("capabilities") or {}).get("add")
        return set(added) - allowed if added else ()

    names, added = offenders(containers_of(spec), bad)
    return f"{named(names)} must not include {quoted(added)} in securityContext.capabilities.add" if names else ""


def _host_namespaces(metadata: Object, spec: Object) -> Finding:
    used = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return ("host namespaces", ", ".join(used)) if used else None


def _host_paths(metadata: Object, spec: Object) -> Finding:
    names = [volume.get("name", "") for volume in elements(spec, "volumes") if volume.get("hostPath") is not None]
    return ("hostPath volumes", f"{plural('volume', 'volumes', names)} {quoted(names)}") if names else None


def _host_ports(metadata: Object, spec: Object) -> Finding:
    def used(container: Object) -> list[str]:
        return [str(port["hostPort"]) for port in elements(container, "ports") if port.get("hostPort")]

    names, ports = offenders(containers_of(spec), used)
    if not names:
        return None
    uses = plural("uses", "use", names)
    return "hostPort", f"{named(names)} {uses} {plural('hostPort', 'hostPorts', ports)} {', '.join(ports)}"


def _host_probes(metadata: Object, spec: Object) -> Finding:
    def used(container: Object) -> list[str]:
        lifecycle = container.get("lifecycle") or {}
        handlers = [container.get(field) for field in ("livenessProbe", "readinessProbe", "startupProbe")]
        handlers += [lifecycle.get("postStart"), lifecycle.get("preStop")]
        actions = [handler.get(action) for handler in handlers if handler for action in ("httpGet", "tcpSocket")]
        return [action["host"] for action in actions if action and action.get("host")]

    found, hosts = offenders(containers_of(spec), used)
    if not found:
        return None
    names = sorted(set(found))
    what = plural("probe or lifecycle host", "probe or lifecycle hosts", hosts)
    return ("probe or lifecycle host", f"{named(names)} {plural('uses', 'use', names)} {what} {quoted(hosts)}")


def _privileged(metadata: Object, spec: Object) -> Finding:
    containers = [
        container.get("name", "") for container in containers_of(spec) if context_of(container).get("privileged")
    ]
    return ("privileged", f"{named(containers)} must not set securityContext.privileged=true") if containers else None


def _proc_mount(metadata: Object, spec: Object) -> Finding:
    def bad(container: Object) -> tuple[str, ...]:
        mount = context_of(container).get("procMount")
        return () if mount in (None, "Default") else (mount,)

    names, values = offenders(containers_of(spec), bad)
    if not names:
        return None
    return "procMount", f"{named(names)} must not set securityContext.procMount to {quoted(values)}"


def _se_linux(allowed: frozenset[str]) -> Rule:
    def rule(metadata: Object, spec: Object) -> Finding:
        def wrong_types(holder: Object) -> tuple[str, ...]:
            options = context_of(holder).get("seLinuxOptions")
            return () if options is None or options.get("type", "") in allowed else (options["type"],)

        def wrong_fields(holder: Object) -> list[str]:
            options = context_of(holder).get("seLinuxOptions")
            return [] if options is None else [field for field in ("user", "role") if options.get(field)]

        setters, _ = setters_of(spec, lambda holder: wrong_types(holder) or wrong_fields(holder))
        if not setters:
            return None
        types, fields = (setters_of(spec, bad)[1] for bad in (wrong_types, wrong_fields))
        data = [f"{plural('type', 'types', types)} {quoted(types)}"] if types else []
        data += [f"{field} may not be set" for field in ("user", "role") if field in fields]
        return "seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"

    return rule


_SE_LINUX = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})


def _seccomp_annotations(metadata: Object, spec: Object) -> Finding:
    annotations = metadata.get("annotations") or {}
    keys = ["seccomp.security.alpha.kubernetes.io/pod"]
    keys += [f"container.seccomp.security.alpha.kubernetes.io/{c.get('name', '')}" for c in containers_of(spec)]
    bad = sorted(
        {
            f"{key}={quote(annotations[key])}"
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    return ("seccompProfile", f"forbidden {plural('annotation', 'annotations', bad)} {', '.join(bad)}") if bad else None


def _seccomp(required: bool) -> Rule:
    def rule(metadata: Object, spec: Object) -> Finding:
        setters, values = setters_of(spec, lambda holder: _other_profile(holder, "seccompProfile"))
        if setters:
            return "seccompProfile", f"{setters} must not set securityContext.seccompProfile.type to {quoted(values)}"
        if not required or context_of(spec).get("seccompProfile") is not None:
            return None
        unset = [one for one in containers_of(spec) if context_of(one).get("seccompProfile") is None]
        if missing := [container.get("name", "") for container in unset]:
            return (
                "seccompProfile",
                f'pod or {named(missing)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"',
            )
        return None

    return rule


def _sysctls(allowed: frozenset[str]) -> Rule:
    def rule(metadata: Object, spec: Object) -> Finding:
        names = [sysctl.get("name", "") for sysctl in elements(context_of(spec), "sysctls")]
        bad = [name for name in names if name not in allowed]
        return ("forbidden sysctls", ", ".join(bad)) if bad else None

    return rule


_SYSCTLS_0 = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)
_SYSCTLS_27 = _SYSCTLS_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def _windows_host_process(metadata: Object, spec: Object) -> Finding:
    def bad(holder: Object) -> tuple[str, ...]:
        return ("true",) if (context_of(holder).get("windowsOptions") or {}).get("hostProcess") else ()

    setters, _ = setters_of(spec, bad)
    return (
        ("hostProcess", f"{setters} must not set securityContext.windowsOptions.hostProcess=true") if setters else None
    )


# -- restricted ---------------------------------------------------------------------------------------------------


def _privilege_escalation(metadata: Object, spec: Object) -> Finding:
    containers = [
        container.get("name", "")
        for container in containers_of(spec)
        if context_of(container).get("allowPrivilegeEscalation") is not False
    ]
    if not containers:
        return None
    detail = f"{named(containers)} must set securityContext.allowPrivilegeEscalation=false"
    return "allowPrivilegeEscalation != false", detail


def _capabilities_restricted(metadata: Object, spec: Object) -> Finding:
    def drops_all(container: Object) -> bool:
        return "ALL" in ((context_of(container).get("capabilities") or {}).get("drop") or ())

    keeping = [container.get("name", "") for container in containers_of(spec) if not drops_all(container)]
    details = [f'{named(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    if added := _added_capabilities(spec, frozenset({"NET_BIND_SERVICE"})):
        details.append(added)
    return ("unrestricted capabilities", "; ".join(details)) if details else None


_GOOD_VOLUMES = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
_BAD_VOLUMES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


def _restricted_volumes(metadata: Object, spec: Object) -> Finding:
    def bad(volume: Object) -> tuple[str, ...]:
        if any(volume.get(kind) is not None for kind in _GOOD_VOLUMES):
            return ()
        return (next((kind for kind in _BAD_VOLUMES if volume.get(kind) is not None), "unknown"),)

    names, types = offenders(elements(spec, "volumes"), bad)
    if not names:
        return None
    return (
        "restricted volume types",
        f"{plural('volume', 'volumes', names)} {quoted(names)} {plural('uses', 'use', names)} "
        f"{plural('restricted volume type', 'restricted volume types', types)} {quoted(types)}",
    )


def _non_root(metadata: Object, spec: Object) -> Finding:
    reason = "runAsNonRoot != true"

    setters, _ = setters_of(spec, lambda holder: (reason,) if context_of(holder).get("runAsNonRoot") is False else ())
    if setters:
        return reason, f"{setters} must not set securityContext.runAsNonRoot=false"
    if context_of(spec).get("runAsNonRoot"):
        return None
    unset = [one for one in containers_of(spec) if context_of(one).get("runAsNonRoot") is None]
    missing = [container.get("name", "") for container in unset]
    return (reason, f"pod or {named(missing)} must set securityContext.runAsNonRoot=true") if missing else None


def _not_user_zero(metadata: Object, spec: Object) -> Finding:
    setters, _ = setters_of(spec, lambda holder: ("0",) if context_of(holder).get("runAsUser") == 0 else ())
    return ("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


CHECKS = (
    Check("appArmorProfile", BASELINE, ((0, _app_armor),)),
    Check("capabilities_baseline", BASELINE, ((0, _capabilities_baseline),)),
    Check("hostNamespaces", BASELINE, ((0, _host_namespaces),)),
    Check("hostPathVolumes", BASELINE, ((0, _host_paths),)),
    Check("hostPorts", BASELINE, ((0, _host_ports),)),
    Check("hostProbesAndHostLifecycle", BASELINE, ((34, _host_probes),)),
    Check("privileged", BASELINE, ((0, _privileged),)),
    Check("procMount", BASELINE, ((0, _proc_mount), (35, not_in_user_namespace(_proc_mount)))),
    Check("seLinuxOptions", BASELINE, ((0, _se_linux(_SE_LINUX)), (31, _se_linux(_SE_LINUX | {"container_engine_t"})))),
    Check("seccompProfile_baseline", BASELINE, ((0, _seccomp_annotations), (19, _seccomp(required=False)))),
    Check(
        "sysctls",
        BASELINE,
        (
            (0, _sysctls(_SYSCTLS_0)),
            (27, _sysctls(_SYSCTLS_27)),
            (29, _sysctls(_SYSCTLS_29)),
            (32, _sysctls(_SYSCTLS_32)),
        ),
    ),
    Check("windowsHostProcess", BASELINE, ((0, _windows_host_process),)),
    Check(
        "allowPrivilegeEscalation",
        RESTRICTED,
        ((8, _privilege_escalation), (25, not_on_windows(_privilege_escalation))),
    ),
    Check(
        "capabilities_restricted",
        RESTRICTED,
        ((22, _capabilities_restricted), (25, not_on_windows(_capabilities_restricted))),
        overrides="capabilities_baseline",
    ),
    Check("procMount_restricted", RESTRICTED, ((35, _proc_mount),), overrides="procMount"),
    Check("restrictedVolumes", RESTRICTED, ((0, _restricted_volumes),), overrides="hostPathVolumes"),
    Check("runAsNonRoot", RESTRICTED, ((0, _non_root), (35, not_in_user_namespace(_non_root)))),
    Check("runAsUser", RESTRICTED, ((23, _not_user_zero), (35, not_in_user_namespace(_not_user_zero)))),
    Check(
        "seccompProfile_restricted",
        RESTRICTED,
        ((19, _seccomp(required=True)), (25, not_on_windows(_seccomp(required=True)))),
        overrides="seccompProfile_baseline",
    ),
)
