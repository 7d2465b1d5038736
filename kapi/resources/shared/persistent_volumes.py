"""The spec of a persistent volume: defaults, sources, validation.  VolumeAttachments carry one too.

Upstream: ``pkg/apis/core/validation``: ValidatePersistentVolumeSpec; ``pkg/apis/core/v1/defaults.go``.
"""

from __future__ import annotations

import posixpath
import re

from kapi.machinery import tree
from kapi.machinery.checkpoint import steps
from kapi.machinery.field import FieldError, Path, forbidden, invalid, required
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.resources.shared.names import (
    is_dns1123_label,
    is_dns1123_subdomain,
    is_label_value,
    label_name,
    subdomain_name,
)
from kapi.resources.shared.node_selectors import validate_node_selector
from kapi.resources.shared.quantities import ceiling, compare
from kapi.resources.shared.rules import (
    Errors,
    Rule,
    at,
    check,
    enum,
    in_range,
    not_supported,
    struct,
    unless_empty,
)
from kapi.resources.shared.rules import required as require

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SHORT_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_ISCSI_NAMES = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.([a-z0-9\-.]+)(:[^,;*&$|\s]+)$"),
    "eui": re.compile(r"eui\.[a-fA-F0-9]{16}$"),
    "naa": re.compile(r"naa\.[a-fA-F0-9]{32}$"),
}
_MANAGED_DISK = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_DISK = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_INLINE = "in the context of inline volumes"
_IMPOSSIBLE = f"may not be specified {_INLINE}"
_DEFAULTS: dict[str, Object] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def default_volume_source(spec: Object) -> None:
    """What the sources of a volume leave out."""
    for name, defaults in _DEFAULTS.items():
        source = spec.get(name)
        if source is None:
            continue
        for field, value in defaults.items():
            absent = source.get(field) is None if field in ("type", "readOnly") else not source.get(field)
            if absent:
                source[field] = value


def access_modes(modes: list[str] | None) -> str:
    """``RWO,ROX,RWX,RWOP``: each once, always in this order."""
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in (modes or ()))


def storage_class(obj: Object) -> str:
    """The class of a volume or claim: the old annotation counts before the field."""
    annotations = obj["metadata"].get("annotations") or {}
    if BETA_CLASS in annotations:
        return str(annotations[BETA_CLASS])
    return (obj.get("spec") or {}).get("storageClassName") or ""


def validate_access_modes(modes: list[str], path: Path, errors: Errors) -> None:
    for mode in steps(modes):
        if mode not in ACCESS_MODES:
            errors.append(not_supported(path, mode, ACCESS_MODES))
    known = {mode for mode in steps(modes) if mode in ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))


def check_csi_driver_name(name: str, path: Path) -> list[FieldError]:
    from kapi.machinery.field import too_long

    if not name:
        return [required(path)]
    errors = [too_long(path, 63)] if len(name.encode()) > 63 else []
    return errors + [invalid(path, name, problem) for problem in is_dns1123_subdomain(name.lower())]


def _no_backsteps(text: str, path: Path, errors: Errors, ctx: object) -> None:
    if ".." in text.split("/"):
        errors.append(invalid(path, text, "must not contain '..'"))


def _partition(value: int, path: Path, errors: Errors, ctx: object) -> None:
    if not 0 <= value <= 255:
        errors.append(invalid(path, value, "must be between 1 and 255, inclusive"))


_SECRET = struct(require("name"), require("namespace"))
_STRICT_SECRET = struct(
    require("name", then=check(is_dns1123_subdomain)), require("namespace", then=check(is_dns1123_label))
)


def _host_path(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    if not source.get("path"):
        errors.append(required(path.child("path")))
        return
    _no_backsteps(source["path"], path.child("path"), errors, ctx)
    if source.get("type") is not None and source["type"] not in _HOST_PATH_TYPES:
        errors.append(not_supported(path.child("type"), source["type"], _HOST_PATH_TYPES))


def _local(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    if not source.get("path"):
        errors.append(required(path.child("path")))
    else:
        _no_backsteps(source["path"], path.child("path"), errors, ctx)


def _nfs(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    struct(require("server"), require("path"))(source, path, errors, ctx)
    if not (source.get("path") or "").startswith("/"):
        errors.append(invalid(path.child("path"), source.get("path", ""), "must be an absolute path"))


def _endpoints_namespace(name: str, path: Path, errors: Errors, ctx: object) -> None:
    if not name:
        errors.append(invalid(path, name, "if the endpointnamespace is set, it must be a valid namespace name"))
    else:
        check(label_name)(name, path, errors, ctx)


def _flocker(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    name, uid = source.get("datasetName") or "", source.get("datasetUUID") or ""
    if not name and not uid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        errors.append(invalid(path.child("datasetName"), name, "must not contain '/'"))


def _quobyte(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    registry, pairs = source.get("registry") or "", "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        errors.append(required(path.child("registry"), pairs))
    elif len(source.get("tenant") or "") >= 65:
        errors.append(required(path.child("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
    else:
        for pair in registry.split(","):
            if not re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:]*", pair):
                errors.append(invalid(path.child("registry"), registry, pairs))
    require("volume")(source, path, errors, ctx)


def _iscsi_name(name: str, path: Path, errors: Errors) -> None:
    form = _ISCSI_NAMES.get(name[:3])
    if form is None or not form.match(name):
        errors.append(invalid(path, name, "must be valid format"))


def _iscsi(source: Object, path: Path, errors: Errors, volume: object) -> None:
    portal, initiator = source.get("targetPortal") or "", source.get("initiatorName")
    if not portal:
        errors.append(required(path.child("targetPortal")))
    if initiator is not None and len(f"{volume}:{portal}") > 64:
        detail = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
            "specified."
        )
        errors.append(invalid(path.child("targetportal"), portal, detail))
    if not source.get("iqn"):
        errors.append(required(path.child("iqn")))
    else:
        _iscsi_name(source["iqn"], path.child("iqn"), errors)
    in_range(0, 255)(source.get("lun", 0), path.child("lun"), errors, None)
    secret = source.get("secretRef")
    if secret is None and (source.get("chapAuthDiscovery") or source.get("chapAuthSession")):
        errors.append(required(path.child("secretRef")))
    if secret is not None:
        require("name")(secret, path.child("secretRef"), errors, None)
    if initiator is not None:
        _iscsi_name(initiator, path.child("initiatorname"), errors)


def _fc(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    targets, ids, lun = source.get("targetWWNs") or [], source.get("wwids") or [], source.get("lun")
    here = path.child("targetWWNs")
    if not targets and not ids:
        errors.append(required(here, "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        errors.append(invalid(here, targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets and lun is None:
        errors.append(required(path.child("lun"), "lun is required if targetWWNs is specified"))
    elif targets:
        in_range(0, 255)(lun, path.child("lun"), errors, ctx)


def _flex(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    require("driver")(source, path, errors, ctx)
    for key in steps(source.get("options") or {}):
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid(path.child("options").key(key), key, detail))


def _azure_disk(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    struct(
        require("diskName"),
        require("diskURI"),
        at("cachingMode", enum("None", "ReadOnly", "ReadWrite")),
        at("kind", enum("Dedicated", "Managed", "Shared")),
    )(source, path, errors, ctx)
    kind, uri = source.get("kind"), source.get("diskURI") or ""
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.append(not_supported(path.child("diskURI"), uri, (_MANAGED_DISK,)))
    elif kind not in (None, "Managed") and not uri.startswith("https://"):
        errors.append(not_supported(path.child("diskURI"), uri, (_BLOB_DISK,)))


def _secret_namespace(value: str, path: Path, errors: Errors, ctx: object) -> None:
    if not value:
        errors.append(required(path))


def _csi(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    errors += check_csi_driver_name(source.get("driver") or "", path.child("driver"))
    require("volumeHandle")(source, path, errors, ctx)
    # nodeStageSecretRef is not looked into upstream
    for name in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        at(name + "SecretRef", _STRICT_SECRET)(source, path, errors, ctx)


#: (field, name in the path of its errors, rule), in upstream's order
_SOURCE_RULES: tuple[tuple[str, str, Rule], ...] = (
    ("hostPath", "hostPath", _host_path),
    ("gcePersistentDisk", "persistentDisk", struct(require("pdName"), at("partition", _partition))),
    ("awsElasticBlockStore", "", struct(require("volumeID"), at("partition", _partition))),
    (
        "glusterfs",
        "",
        struct(require("endpoints"), require("path"), at("endpointsNamespace", _endpoints_namespace)),
    ),
    ("flocker", "", _flocker),
    ("nfs", "", _nfs),
    ("rbd", "", struct(require("monitors"), require("image"))),
    ("quobyte", "", _quobyte),
    ("cephfs", "", require("monitors")),
    ("iscsi", "", _iscsi),
    ("cinder", "", struct(require("volumeID"), at("secretRef", _SECRET))),
    ("fc", "", _fc),
    ("flexVolume", "", _flex),
    (
        "azureFile",
        "",
        struct(require("secretName"), require("shareName"), at("secretNamespace", _secret_namespace)),
    ),
    ("vsphereVolume", "", require("volumePath")),
    ("photonPersistentDisk", "", require("pdID")),
    ("portworxVolume", "", require("volumeID")),
    ("azureDisk", "", _azure_disk),
    ("scaleIO", "", struct(require("gateway"), require("system"), require("volumeName"))),
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
    """The part of a spec that says where the volume is."""
    return {name: spec[name] for name in SOURCES if spec.get(name) is not None}


def validate_volume_spec(
    spec: Object, volume: str, path: Path, errors: Errors, *, inline: bool = False, old_spec: Object | None = None
) -> None:
    """A persistent volume's spec; ``inline``: one that a VolumeAttachment carries."""
    if inline:
        for name in ("claimRef", "capacity"):
            if spec.get(name):
                errors.append(forbidden(path.child(name), _IMPOSSIBLE))
        if spec.get("csi") is None:
            errors.append(required(path.child("csi"), f"has to be specified {_INLINE}"))
    modes = spec.get("accessModes") or []
    if not modes:
        errors.append(required(path.child("accessModes")))
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
    if not capacity:
        errors.append(required(path))
    if not capacity or "storage" not in capacity or len(capacity) > 1:
        shown = {name: capacity[name] for name in steps(ordered(capacity))} if capacity else None
        errors.append(not_supported(path, shown, ("storage",)))
    for name, value in steps((capacity or {}).items()):
        if ceiling(value) < 0:
            errors.append(invalid(path.key(name), ceiling(value), "must be a valid resource quantity"))
        if compare(value, "0") <= 0:
            errors.append(invalid(path.key(name), value, "must be greater than zero"))


def _affinity(affinity: Object, path: Path, old_spec: Object | None, errors: Errors) -> None:
    if affinity.get("required") is None:
        errors.append(required(path.child("required"), "must specify required node constraints"))
        return
    terms = tree.dig(old_spec, "nodeAffinity", "required", "nodeSelectorTerms") or []
    lax = any(
        is_label_value(value)
        for term in steps(terms)
        for expression in steps(term.get("matchExpressions") or [])
        for value in steps(expression.get("values") or [])
    )
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
    if not count:
        errors.append(required(path, "must specify a volume type"))


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
    if attributes is None:
        return
    if not attributes:
        errors.append(required(here, "an empty string is disallowed"))
    else:
        check(subdomain_name)(attributes, here, errors, None)
    if spec.get("csi") is None:
        errors.append(required(path.child("csi"), "has to be specified when using volumeAttributesClassName"))
