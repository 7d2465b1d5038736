"""Security contexts of pods and containers (upstream: ``core/validation`` ValidateSecurityContext and relatives)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapi.machinery import field
from kapi.machinery.each import elements
from kapi.machinery.field import FieldError, Path
from kapi.machinery.tree import Object
from kapi.resources.shared.internal import internal
from kapi.resources.shared.names import is_dns1123_subdomain, is_group_id, is_user_id
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.paths import validate_descending
from kapi.resources.shared.rules import Errors, at, check, each, enum, need, not_supported, struct, supported

_SYSCTL = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_RE = re.compile(rf"({_SYSCTL}[\./])*{_SYSCTL}\Z").match
_SYSCTL_TEXT = f"must have at most 253 characters and match regex ^({_SYSCTL}[\\./])*{_SYSCTL}$"
_NETBIOS_RE = re.compile(r'[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}\Z').match
_DNS = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN_RE = re.compile(rf"{_DNS}(?:\.{_DNS})*\Z").match
_CONTROL_RE = re.compile(r"[\x00-\x1f\x7f]").search
_USER_CHARS_RE = re.compile(r'["/\\:;|=,\+\*\?<>@\[\]]').search
_DOTS_RE = re.compile(r"[\. ]+\Z").match
_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")

_PARTS = ("initContainers", "containers", "ephemeralContainers")


def containers_with_paths(spec: Object, path: Path) -> list[tuple[Object, Path]]:
    """Every container of a spec with its path, in upstream's order."""
    found = []
    for part in _PARTS:
        containers = spec.get(part)
        if containers:
            below = path.child(part)
            found += [(container, Path(f"[{i}]", below)) for i, container in enumerate(elements(containers))]
    return found


def every_container(spec: Object) -> Iterator[Object]:
    """Every container of a spec, without paths."""
    for part in _PARTS:
        yield from elements(spec, part)


def seccomp(profile: Object, path: Path, errors: Errors, ctx: object) -> None:
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if need(kind, path, errors, "type", detail="type is required when seccompProfile is set"):
        supported(kind, _PROFILE_TYPES, path, errors, "type")
    if kind == "Localhost":
        if local is None:
            errors.append(field.required(path.child("localhostProfile"), "must be set when seccomp type is Localhost"))
        else:
            validate_descending(local, path.child("localhostProfile"), errors)
    elif local is not None:
        text = "can only be set when seccomp type is Localhost"
        errors.append(field.invalid(path.child("localhostProfile"), internal("SeccompProfile", profile), text))


def app_armor(profile: Object, path: Path, errors: Errors, ctx: object) -> None:
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    here = path.child("localhostProfile")
    if kind == "Localhost":
        if local is None or (not local.strip() and local == local.strip()):
            errors.append(field.required(here, "must be set when AppArmor type is Localhost"))
        elif local != local.strip():
            errors.append(field.invalid(here, local, "must not be padded with whitespace"))
        if local is not None and len(local.encode()) > 4095:
            errors.append(field.too_long(here, 4095))
    elif kind in ("RuntimeDefault", "Unconfined"):
        if local is not None:
            errors.append(field.invalid(here, local, "can only be set when AppArmor type is Localhost"))
    elif not kind:
        errors.append(field.required(path.child("type"), "type is required when appArmorProfile is set"))
    else:
        errors.append(not_supported(path.child("type"), kind, _PROFILE_TYPES))


def _user_name_texts(value: str) -> Iterator[str]:
    if not value:
        yield "runAsUserName cannot be an empty string"
        return
    if _CONTROL_RE(value):
        yield "runAsUserName cannot contain control characters"
        return
    if value.count("\\") > 1:
        yield "runAsUserName cannot contain more than one backslash"
        return
    domain, slash, user = value.rpartition("\\")
    if len(domain) >= 256:
        yield "runAsUserName's Domain length must be under 256 characters"
    if slash and not (_NETBIOS_RE(domain) or _DOMAIN_RE(domain)):
        yield "runAsUserName's Domain doesn't match the NetBios nor the DNS format"
    if not user:
        yield "runAsUserName's User cannot be empty"
    elif len(user) > 104:
        yield "runAsUserName's User length must not be longer than 104 characters"
    if _DOTS_RE(user):
        yield "runAsUserName's User cannot contain only periods or spaces"
    if _USER_CHARS_RE(user):
        yield "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


def _credential_spec_texts(value: str) -> tuple[str, ...]:
    if not value:
        return ("gmsaCredentialSpec cannot be an empty string",)
    if len(value.encode()) > 64 * 1024:
        return ("gmsaCredentialSpec size must be under 64 KiB",)
    return ()


windows_options = struct(
    at("gmsaCredentialSpecName", check(is_dns1123_subdomain)),
    at("gmsaCredentialSpec", check(_credential_spec_texts)),
    at("runAsUserName", check(lambda value: tuple(_user_name_texts(value)))),
)


def _privileged(context: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    if context.get("privileged") and not ctx.allow_privileged:
        errors.append(field.forbidden(path.child("privileged"), "disallowed by cluster policy"))


def _proc_mount(kind: str, path: Path, errors: Errors, ctx: PodOptions) -> None:
    supported(kind, ("Default", "Unmasked"), path, errors)
    if ctx.host_users and kind == "Unmasked":
        errors.append(field.invalid(path, kind, "`hostUsers` must be false to use `Unmasked`"))


def _escalation(context: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    if context.get("allowPrivilegeEscalation") is not False:
        return
    text = "cannot set `allowPrivilegeEscalation` to false and "
    if context.get("privileged"):
        errors.append(field.invalid(path, internal("SecurityContext", context), text + "`privileged` to true"))
    for capability in elements(context, "capabilities", "add"):
        if capability == "CAP_SYS_ADMIN":
            value = internal("SecurityContext", context)
            errors.append(field.invalid(path, value, text + "`capabilities.Add` CAP_SYS_ADMIN"))


CONTAINER = struct(
    _privileged,
    at("runAsUser", check(is_user_id)),
    at("runAsGroup", check(is_group_id)),
    at("procMount", _proc_mount),
    at("seccompProfile", seccomp),
    _escalation,
    at("windowsOptions", windows_options),
    at("appArmorProfile", app_armor),
)


def host_sysctl(name: str, spec: Object, path: Path) -> FieldError | None:
    """The error of a sysctl in a namespace that the pod shares with the host."""
    dotted = name.replace("/", ".") if "/" in name and name.find("/") < (name.find(".") % (len(name) + 1)) else name
    if spec.get("hostNetwork") and dotted.startswith("net."):
        return field.invalid(path, name, "may not be specified when 'hostNetwork' is true")
    ipc = dotted.startswith(("kernel.shm", "kernel.msg", "fs.mqueue.")) or dotted == "kernel.sem"
    if spec.get("hostIPC") and ipc:
        return field.invalid(path, name, "may not be specified when 'hostIPC' is true")
    return None


def _sysctls(spec: Object, sysctls: list[Object], path: Path, errors: Errors, ctx: PodOptions) -> None:
    seen = set()
    for i, sysctl in enumerate(sysctls):
        name, here = sysctl.get("name", ""), path.index(i).child("name")
        if not name:
            errors.append(field.required(here))
        elif len(name) > 253 or not _SYSCTL_RE(name):
            errors.append(field.invalid(here, name, _SYSCTL_TEXT))
        elif name in seen:
            errors.append(field.duplicate(here, name))
        if not ctx.allow_host_sysctls:
            error = host_sysctl(name, spec, here)
            if error is not None:
                errors.append(error)
        seen.add(name)


_POD_IDS = struct(
    at("fsGroup", check(is_group_id)),
    at("runAsUser", check(is_user_id)),
    at("runAsGroup", check(is_group_id)),
    at("supplementalGroups", each(check(is_group_id))),
)
_POD_REST = struct(
    at("fsGroupChangePolicy", enum("Always", "OnRootMismatch")),
    at("seccompProfile", seccomp),
    at("windowsOptions", windows_options),
    at("appArmorProfile", app_armor),
    at("supplementalGroupsPolicy", enum("Merge", "Strict")),
)
_SELINUX = enum("MountOption", "Recursive")
_SELINUX_RECURSIVE = enum("Recursive")


def validate_pod_security(spec: Object, spec_path: Path, errors: Errors, ctx: PodOptions) -> None:
    """The pod's own context.  Host namespaces are fields of it in upstream's internal type, so their errors have its path."""
    context = spec.get("securityContext") or {}
    path = spec_path.child("securityContext")
    if context:
        _POD_IDS(context, path, errors, ctx)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(field.invalid(path.child("shareProcessNamespace"), True, text))
    if context:
        sysctls = context.get("sysctls")
        if sysctls:
            _sysctls(spec, sysctls, path.child("sysctls"), errors, ctx)
        _POD_REST(context, path, errors, ctx)
        policy = context.get("seLinuxChangePolicy")
        if policy is not None:
            rule = _SELINUX_RECURSIVE if ctx.recursive_selinux_only else _SELINUX
            rule(policy, path.child("seLinuxChangePolicy"), errors, ctx)


def validate_host_process(spec: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    """Windows HostProcess containers: all or none, on the host's network, and only if privileged containers are allowed."""
    pod = ((spec.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
    total = count = 0
    for container, here in elements(containers_with_paths(spec, path)):
        total += 1
        security = container.get("securityContext")
        own = None if security is None else (security.get("windowsOptions") or {}).get("hostProcess")
        if pod is not None and own is not None and pod != own:
            shown = "true" if pod else "false"
            text = f"pod hostProcess value must be identical if both are specified, was {shown}"
            errors.append(field.invalid(here.child("securityContext", "windowsOptions", "hostProcess"), own, text))
        if own or (own is None and pod):
            count += 1
    if not count:
        return
    if count != total:
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(field.invalid(path, "", text))
    if not spec.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(field.invalid(path.child("hostNetwork"), False, text))
    if not ctx.allow_privileged:
        errors.append(field.forbidden(path, "hostProcess containers are disallowed by cluster policy"))


_NOT_ON_WINDOWS = (
    ("securityContext", "appArmorProfile"), ("securityContext", "seLinuxOptions"), ("hostUsers",), ("hostPID",),
    ("hostIPC",), ("securityContext", "seccompProfile"), ("securityContext", "fsGroup"),
    ("securityContext", "fsGroupChangePolicy"), ("securityContext", "sysctls"), ("shareProcessNamespace",),
    ("securityContext", "runAsUser"), ("securityContext", "runAsGroup"), ("securityContext", "supplementalGroups"),
    ("securityContext", "supplementalGroupsPolicy"), ("securityContext", "seLinuxChangePolicy"),
)  # fmt: skip
_NOT_IN_WINDOWS_CONTAINERS = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip
_FALSE_IS_UNSET = frozenset({"hostPID", "hostIPC", "sysctls"})


def validate_linux(spec: Object, path: Path, errors: Errors) -> None:
    text = "windows options cannot be set for a linux pod"
    if (spec.get("securityContext") or {}).get("windowsOptions") is not None:
        errors.append(field.forbidden(path.child("securityContext", "windowsOptions"), text))
    for container, here in elements(containers_with_paths(spec, path)):
        if (container.get("securityContext") or {}).get("windowsOptions") is not None:
            errors.append(field.forbidden(here.child("securityContext", "windowsOptions"), text))


def validate_windows(spec: Object, path: Path, errors: Errors) -> None:
    text = "cannot be set for a windows pod"
    for parts in _NOT_ON_WINDOWS:
        owner = spec if len(parts) == 1 else spec.get("securityContext") or {}
        value = owner.get(parts[-1])
        if value if parts[-1] in _FALSE_IS_UNSET else value is not None:
            errors.append(field.forbidden(path.child(*parts), text))
    for container, here in elements(containers_with_paths(spec, path)):
        context: Object = container.get("securityContext") or {}
        for name in _NOT_IN_WINDOWS_CONTAINERS:
            if context.get(name) is not None:
                errors.append(field.forbidden(here.child("securityContext", name), text))
