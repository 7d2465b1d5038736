"""Volume mounts and block devices of a container (upstream: ``core/validation`` ValidateVolumeMounts, ValidateVolumeDevices)."""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.paths import has_backsteps, validate_descending
from kapi.resources.shared.rules import Errors, not_supported

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def _propagation(kind: str, container: Object, path: Path, errors: Errors) -> None:
    if kind not in _PROPAGATIONS:
        errors.append(not_supported(path, kind, _PROPAGATIONS))
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
            text = "may only be specified when mountPropagation is None or not specified"
            errors.append(field.forbidden(path, text))


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
        if not name:
            errors.append(field.required(here.child("name")))
        if name in seen_names:
            errors.append(field.invalid(here.child("name"), name, "must be unique"))
        if volume is None:
            errors.append(field.not_found(here.child("name"), name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(field.invalid(here.child("name"), name, text))
        if not device_path:
            errors.append(field.required(here.child("devicePath")))
        if device_path in seen_paths:
            errors.append(field.invalid(here.child("devicePath"), device_path, "must be unique"))
        if has_backsteps(device_path):
            text = "can not contain backsteps ('..')"
            errors.append(field.invalid(here.child("devicePath"), device_path, text))
        else:
            seen_paths.add(device_path)
        if name in mount_paths:
            text = "must not already exist in volumeMounts"
            errors.append(field.invalid(here.child("name"), name, text))
        if device_path in taken:
            text = "must not already exist as a path in volumeMounts"
            errors.append(field.invalid(here.child("devicePath"), device_path, text))
        if name:
            seen_names.add(name)
