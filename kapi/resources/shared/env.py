"""Environment variables and their sources, downward API selectors (upstream: ``core/validation`` ValidateEnv)."""

from __future__ import annotations

from collections.abc import Collection

from kapi.machinery import field, quantities
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.shared.names import (
    is_config_map_key,
    is_dns1123_label,
    is_qualified_name,
    is_relaxed_env_var_name,
    subdomain_name,
)
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.paths import validate_no_backsteps
from kapi.resources.shared.rules import Errors, need, not_supported, report

ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
#: every field path that the downward API of v1 knows
_KNOWN_FIELDS = frozenset(
    {
        *ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase",
    }
)  # fmt: skip
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_SIZES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def _subscripted(field_path: str) -> tuple[str, str] | None:
    """The field and the key of ``metadata.labels['key']``."""
    if not field_path.endswith("']"):
        return None
    name, bracket, key = field_path[:-2].partition("['")
    return (name, key) if name and bracket else None


def validate_field_ref(ref: Object, allowed: Collection[str], path: Path, errors: Errors) -> None:
    """Checks a reference to a field of the pod."""
    version, field_path = ref.get("apiVersion", ""), ref.get("fieldPath", "")
    if not field_path:
        errors.append(field.required(path.child("fieldPath")))
        return
    found = _subscripted(field_path)
    if version != "v1":
        text = f"unsupported pod version: {version}"
        errors.append(field.invalid(path.child("fieldPath"), field_path, f"error converting fieldPath: {text}"))
    elif found and found[0] in ("metadata.annotations", "metadata.labels"):
        key = found[1].lower() if found[0] == "metadata.annotations" else found[1]
        report(is_qualified_name(key), key, path, errors)
    elif found:
        text = f"error converting fieldPath: field label does not support subscript: {field_path}"
        errors.append(field.invalid(path.child("fieldPath"), field_path, text))
    elif field_path == "spec.host":
        errors.extend(() if "spec.nodeName" in allowed else [_unsupported(path, "spec.nodeName", allowed)])
    elif field_path not in _KNOWN_FIELDS:
        text = f"error converting fieldPath: field label not supported: {field_path}"
        errors.append(field.invalid(path.child("fieldPath"), field_path, text))
    elif field_path not in allowed:
        errors.append(_unsupported(path, field_path, allowed))


def _unsupported(path: Path, value: str, allowed: Collection[str]) -> field.FieldError:
    return not_supported(path.child("fieldPath"), value, sorted(allowed))


def validate_resource_ref(ref: Object, path: Path, errors: Errors, *, in_volume: bool) -> None:
    """Checks a reference to an amount of a container's resources; in a volume it must name the container."""
    resource = ref.get("resource", "")
    if in_volume and not ref.get("containerName"):
        errors.append(field.required(path.child("containerName")))
    elif not resource:
        errors.append(field.required(path.child("resource")))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.append(not_supported(path.child("resource"), resource, _RESOURCES))
    divisor = ref.get("divisor")
    if not divisor or quantities.parse(divisor).value == 0:
        return
    kind = resource.partition(".")[2]
    sizes = ", ".join(_SIZES)
    what = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(
        kind, "hugepages" if resource.startswith(_HUGE_PAGES) else ""
    )
    if kind == "cpu" and divisor not in ("1m", "1"):
        text = "only divisor's values 1m and 1 are supported with the cpu resource"
        errors.append(field.invalid(path.child("divisor"), resource, text))
    elif what and divisor not in _SIZES:
        text = f"only divisor's values {sizes} are supported with the {what} resource"
        errors.append(field.invalid(path.child("divisor"), resource, text))


def _key_ref(ref: Object, path: Path, errors: Errors) -> None:
    report(subdomain_name(ref.get("name", "")), ref.get("name", ""), path, errors, "name")
    key = ref.get("key", "")
    need(key, path, errors, "key")
    report(is_config_map_key(key) if key else (), key, path, errors, "key")


def _file_ref(ref: Object, path: Path, errors: Errors) -> None:
    key, volume, file_path = ref.get("key", ""), ref.get("volumeName", ""), ref.get("path", "")
    need(key, path, errors, "key")
    report(is_relaxed_env_var_name(key) if key else (), key, path, errors, "key")
    need(volume, path, errors, "volumeName")
    report(is_dns1123_label(volume) if volume else (), volume, path, errors, "volumeName")
    if need(file_path, path, errors, "path"):
        validate_no_backsteps(file_path, path.child("path"), errors)


def _value_from(variable: Object, source: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    count = 0
    for name in ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"):
        ref = source.get(name)
        if ref is None:
            continue
        count += 1
        here = path.child(name)
        if name == "fieldRef":
            validate_field_ref(ref, ENV_FIELDS, here, errors)
        elif name == "resourceFieldRef":
            validate_resource_ref(ref, here, errors, in_volume=False)
        elif name == "fileKeyRef":
            _file_ref(ref, here, errors)
        else:
            _key_ref(ref, here, errors)
    if not count:
        kinds = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        if not ctx.env_files:
            kinds = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        errors.append(field.invalid(path, "", f"must specify one of: {kinds}"))
    elif variable.get("value"):
        errors.append(field.invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(field.invalid(path, "", "may not have more than one field specified at a time"))


def validate_env(variables: list[Object], path: Path, errors: Errors, ctx: PodOptions) -> None:
    for i, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            errors.append(field.required(path.index(i).child("name")))
        else:
            for text in is_relaxed_env_var_name(name):
                errors.append(field.invalid(path.index(i).child("name"), name, text))
        source = variable.get("valueFrom")
        if source is not None:
            _value_from(variable, source, path.index(i).child("valueFrom"), errors, ctx)


def validate_env_from(sources: list[Object], path: Path, errors: Errors) -> None:
    for i, source in enumerate(sources):
        here = path.index(i)
        prefix = source.get("prefix")
        report(is_relaxed_env_var_name(prefix) if prefix else (), prefix, here, errors, "prefix")
        count = 0
        for kind in ("configMapRef", "secretRef"):
            ref = source.get(kind)
            if ref is None:
                continue
            count += 1
            name = ref.get("name", "")
            need(name, here, errors, kind, "name")
            report(subdomain_name(name, True) if name else (), name, here, errors, kind, "name")
        if not count:
            errors.append(field.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif count > 1:
            errors.append(field.invalid(path, "", "may not have more than one field specified at a time"))
