"""The spec of a persistent volume: defaults, sources, validation.  VolumeAttachments may contain such a spec too.

Upstream: ``pkg/apis/core/validation``: ValidatePersistentVolumeSpec; ``pkg/apis/core/v1/defaults.go``.
"""

from __future__ import annotations

import posixpath

from kapi.machinery import tree
from kapi.machinery.each import elements, entries
from kapi.machinery.field import Path, forbidden, invalid, required
from kapi.machinery.quantities import ceiling, compare
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.resources.shared import volume_sources as sources
from kapi.resources.shared.affinity import has_invalid_node_values, validate_node_selector
from kapi.resources.shared.names import is_dns1123_label, is_dns1123_subdomain, label_name, subdomain_name
from kapi.resources.shared.paths import validate_no_backsteps
from kapi.resources.shared.rules import (
    Errors,
    Rule,
    at,
    check,
    enum,
    in_range,
    need,
    not_supported,
    present,
    struct,
    supported,
    unless_empty,
)
from kapi.resources.shared.rules import required as require

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SHORT_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_INLINE = "in the context of inline volumes"
_IMPOSSIBLE = f"may not be specified {_INLINE}"
#: the defaults of sources, the same as in a pod's volumes
_DEFAULTS = {
    "hostPath": sources.default_host_path,
    "iscsi": sources.default_iscsi,
    "rbd": sources.default_rbd,
    "azureDisk": sources.default_azure_disk,
    "scaleIO": sources.default_scale_io,
}


def default_volume_source(spec: Object) -> None:
    """Sets the defaults of a volume's sources."""
    for name, set_defaults in _DEFAULTS.items():
        if spec.get(name) is not None:
            set_defaults(spec[name])


def access_modes(modes: list[str] | None) -> str:
    """The access modes as ``RWO,ROX,RWX,RWOP``, each once, in this order."""
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in (modes or ()))


def storage_class(obj: Object) -> str:
    """The class of a volume or claim; the deprecated annotation takes precedence over the field."""
    annotations = obj["metadata"].get("annotations") or {}
    if BETA_CLASS in annotations:
        return str(annotations[BETA_CLASS])
    return (obj.get("spec") or {}).get("storageClassName") or ""


def validate_access_modes(modes: list[str], path: Path, errors: Errors) -> None:
    for mode in elements(modes):
        supported(mode, ACCESS_MODES, path, errors)
    known = {mode for mode in elements(modes) if mode in ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))


_SECRET = struct(require("name"), require("namespace"))
_STRICT_SECRET = struct(
    require("name", then=check(is_dns1123_subdomain)), require("namespace", then=check(is_dns1123_label))
)


def _local(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    if need(source.get("path"), path, errors, "path"):
        validate_no_backsteps(source["path"], path.child("path"), errors)


def _endpoints_namespace(name: str, path: Path, errors: Errors, ctx: object) -> None:
    if not name:
        errors.append(invalid(path, name, "if the endpointnamespace is set, it must be a valid namespace name"))
    else:
        check(label_name)(name, path, errors, ctx)


_initiator = check(lambda name: sources.initiator_texts(name, "must be valid format"))


def _iscsi(source: Object, path: Path, errors: Errors, volume: object) -> None:
    portal, initiator = source.get("targetPortal") or "", source.get("initiatorName")
    need(portal, path, errors, "targetPortal")
    if initiator is not None and len(f"{volume}:{portal}") > 64:
        detail = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
            "specified."
        )
        errors.append(invalid(path.child("targetportal"), portal, detail))
    if need(source.get("iqn"), path, errors, "iqn"):
        _initiator(source["iqn"], path.child("iqn"), errors, None)
    in_range(0, 255)(source.get("lun", 0), path.child("lun"), errors, None)
    secret = source.get("secretRef")
    if secret is None and (source.get("chapAuthDiscovery") or source.get("chapAuthSession")):
        errors.append(required(path.child("secretRef")))
    if secret is not None:
        require("name")(secret, path.child("secretRef"), errors, None)
    if initiator is not None:
        _initiator(initiator, path.child("initiatorname"), errors, None)


def _secret_namespace(value: str, path: Path, errors: Errors, ctx: object) -> None:
    need(value, path, errors)


def _csi(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    sources.validate_csi_driver_name(source.get("driver") or "", path.child("driver"), errors)
    require("volumeHandle")(source, path, errors, ctx)
    # upstream does not check nodeStageSecretRef
    for name in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        at(name + "SecretRef", _STRICT_SECRET)(source, path, errors, ctx)


#: (field, name in the path of its errors, rule), in upstream's order
_SOURCE_RULES: tuple[tuple[str, str, Rule], ...] = (
    ("hostPath", "hostPath", sources.host_path),
    ("gcePersistentDisk", "persistentDisk", sources.GCE_DISK),
    ("awsElasticBlockStore", "", sources.AWS_DISK),
    ("glusterfs", "", struct(sources.GLUSTERFS, at("endpointsNamespace", _endpoints_namespace))),
    ("flocker", "", sources.flocker),
    ("nfs", "", sources.NFS),
    ("rbd", "", sources.RBD),
    ("quobyte", "", sources.quobyte),
    ("cephfs", "", sources.CEPHFS),
    ("iscsi", "", _iscsi),
    ("cinder", "", struct(require("volumeID"), at("secretRef", _SECRET))),
    ("fc", "", sources.fibre_channel),
    ("flexVolume", "", sources.FLEX),
    ("azureFile", "", struct(require("secretName"), require("shareName"), at("secretNamespace", _secret_namespace))),
    ("vsphereVolume", "", sources.VSPHERE),
    ("photonPersistentDisk", "", sources.PHOTON),
    ("portworxVolume", "", sources.PORTWORX),
    ("azureDisk", "", sources.AZURE_DISK),
    ("scaleIO", "", sources.SCALE_IO),
    ("local", "", _local),
    (
        "storageos",
        "",
        struct(
            require("volumeName", then=check(is_dns1123_label)),
            unless_empty("volumeNamespace", check(is_dns1123_label)),
            at("secretRef", _SECRET),
        ),
    ),
    ("csi", "", _csi),
)
SOURCES = tuple(name for name, _, _ in _SOURCE_RULES)


def source_of(spec: Object) -> Object:
    """The volume source of a spec."""
    return {name: spec[name] for name in SOURCES if spec.get(name) is not None}


def validate_volume_spec(
    spec: Object, volume: str, path: Path, errors: Errors, *, inline: bool = False, old_spec: Object | None = None
) -> None:
    """A persistent volume's spec; ``inline``: the spec is part of a VolumeAttachment."""
    if inline:
        for name in ("claimRef", "capacity"):
            if spec.get(name):
                errors.append(forbidden(path.child(name), _IMPOSSIBLE))
        if spec.get("csi") is None:
            errors.append(required(path.child("csi"), f"has to be specified {_INLINE}"))
    modes = spec.get("accessModes") or []
    need(modes, path, errors, "accessModes")
    validate_access_modes(modes, path.child("accessModes"), errors)
    if not inline:
        _capacity(spec.get("capacity"), path.child("capacity"), errors)
    policy, here = spec.get("persistentVolumeReclaimPolicy") or "", path.child("persistentVolumeReclaimPolicy")
    if policy and inline and policy != "Retain":
        errors.append(forbidden(here, f"may only be Retain {_INLINE}"))
    elif policy and not inline and policy not in ("Delete", "Recycle", "Retain"):
        errors.append(not_supported(here, policy, ("Delete", "Recycle", "Retain")))
    affinity = spec.get("nodeAffinity")
    if affinity is not None and inline:
        errors.append(forbidden(path.child("nodeAffinity"), _IMPOSSIBLE))
    elif affinity is not None:
        _affinity(affinity, path.child("nodeAffinity"), old_spec, errors)
    _sources(spec, volume, path, affinity is not None and not inline, errors)
    if posixpath.normpath(tree.dig(spec, "hostPath", "path") or ".") in ("/", "//") and policy == "Recycle":
        errors.append(forbidden(here, "may not be 'recycle' for a hostPath mount of '/'"))
    _classes(spec, path, inline, errors)


def _capacity(capacity: Object | None, path: Path, errors: Errors) -> None:
    need(capacity, path, errors)
    if not capacity or "storage" not in capacity or len(capacity) > 1:
        shown = {name: capacity[name] for name in elements(ordered(capacity))} if capacity else None
        errors.append(not_supported(path, shown, ("storage",)))
    for name, value in entries(capacity):
        if ceiling(value) < 0:
            errors.append(invalid(path.key(name), ceiling(value), "must be a valid resource quantity"))
        if compare(value, "0") <= 0:
            errors.append(invalid(path.key(name), value, "must be greater than zero"))


def _affinity(affinity: Object, path: Path, old_spec: Object | None, errors: Errors) -> None:
    if affinity.get("required") is None:
        errors.append(required(path.child("required"), "must specify required node constraints"))
        return
    lax = has_invalid_node_values(tree.dig(old_spec, "nodeAffinity", "required"))
    validate_node_selector(affinity["required"], path.child("required"), errors, allow_invalid_values=lax)


def _sources(spec: Object, volume: str, path: Path, has_affinity: bool, errors: Errors) -> None:
    count = 0
    for name, shown, rule in _SOURCE_RULES:
        source = spec.get(name)
        if source is None:
            continue
        if count and name != "flexVolume":
            named = "cephFS" if name == "cephfs" else name
            errors.append(forbidden(path.child(named), "may not specify more than 1 volume type"))
            continue
        count += 1
        rule(source, path.child(shown or name), errors, volume)
        if name == "local" and not has_affinity:
            errors.append(required(path.child("nodeAffinity"), "Local volume requires node affinity"))
    need(count, path, errors, detail="must specify a volume type")


def _classes(spec: Object, path: Path, inline: bool, errors: Errors) -> None:
    name = spec.get("storageClassName") or ""
    if name and inline:
        errors.append(forbidden(path.child("storageClassName"), _IMPOSSIBLE))
    elif name:
        check(subdomain_name)(name, path.child("storageClassName"), errors, None)
    mode = spec.get("volumeMode")
    if mode is not None and inline and mode != "Filesystem":
        detail = f"may not specify volumeMode other than Filesystem {_INLINE}"
        errors.append(forbidden(path.child("volumeMode"), detail))
    elif mode is not None and not inline:
        enum("Block", "Filesystem")(mode, path.child("volumeMode"), errors, None)
    attributes, here = spec.get("volumeAttributesClassName"), path.child("volumeAttributesClassName")
    if attributes is None or inline:
        return
    if need(attributes, here, errors, detail="an empty string is disallowed"):
        check(subdomain_name)(attributes, here, errors, None)
    present(spec.get("csi"), path, errors, "csi", detail="has to be specified when using volumeAttributesClassName")
