"""The volumes of a pod (upstream: ``core/validation`` ValidateVolumes).

``SOURCES`` lists every kind of volume in upstream's order with its rule.  Most rules are declarations; those that a
PersistentVolume shares have public names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from kapi.machinery import field
from kapi.machinery.checkpoint import steps
from kapi.machinery.field import Path
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.resources.shared import quantities
from kapi.resources.shared.claim_template import validate_claim_template
from kapi.resources.shared.containers import validate_pull_policy
from kapi.resources.shared.names import is_dns1123_label, is_dns1123_subdomain, subdomain_name
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.paths import (
    FILE_MODE,
    validate_descending,
    validate_mode,
    validate_no_backsteps,
)
from kapi.resources.shared.projected import validate_downward_file, validate_key_to_path, validate_projected
from kapi.resources.shared.rules import (
    Errors,
    Rule,
    at,
    check,
    each,
    enum,
    not_supported,
    required,
    struct,
    unless_empty,
)


@cache
def _iqn() -> Callable[[str], object]:
    import re2  # for those alone who use it

    search: Callable[[str], object] = re2.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)\z").search
    return search


_ONE_TYPE = "may not specify more than 1 volume type"
_INITIATORS: dict[str, Callable[[str], object]] = {
    "iqn": lambda name: _iqn()(name),
    "eui": re.compile(r"eui.[A-Za-z0-9]{16}\Z").match,
    "naa": re.compile(r"naa.[A-Za-z0-9]{32}\Z").match,
}
_NAME_TOO_LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters"
    " if iscsi.initiatorName is specified."
)
HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_PARTITION = "must be between 1 and 255, inclusive"


def _mode_texts(mode: int) -> tuple[str, ...]:
    return () if 0 <= mode <= 0o777 else (FILE_MODE,)


def _partition_texts(number: int) -> tuple[str, ...]:
    return () if 0 <= number <= 255 else (_PARTITION,)


def initiator_texts(name: str, first: str = "must be valid format starting with iqn, eui, or naa") -> tuple[str, ...]:
    """An iSCSI qualified name, by the form that its first letters choose."""
    form = _INITIATORS.get(name[:3])
    if form is None:
        return (first,)
    return () if form(name) else ("must be valid format",)


def _iscsi(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    if not source.get("targetPortal"):
        errors.append(field.required(path.child("targetPortal")))
    name = source.get("iqn", "")
    if not name:
        errors.append(field.required(path.child("iqn")))
    for text in initiator_texts(name) if name else ():
        errors.append(field.invalid(path.child("iqn"), name, text))
    if not 0 <= source.get("lun", 0) <= 255:
        errors.append(field.invalid(path.child("lun"), source["lun"], "must be between 0 and 255, inclusive"))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(field.required(path.child("secretRef")))
    initiator = source.get("initiatorName")
    for text in initiator_texts(initiator) if initiator is not None else ():
        errors.append(field.invalid(path.child("initiatorname"), initiator, text))


def fibre_channel(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    names, ids, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    here = path.child("targetWWNs")
    if not names and not ids:
        errors.append(field.required(here, "must specify either targetWWNs or wwids, but not both"))
    if names and ids:
        errors.append(field.invalid(here, names, "targetWWNs and wwids can not be specified simultaneously"))
    if names and lun is None:
        errors.append(field.required(path.child("lun"), "lun is required if targetWWNs is specified"))
    elif names and lun is not None and not 0 <= lun <= 255:
        errors.append(field.invalid(path.child("lun"), lun, "must be between 0 and 255, inclusive"))


def quobyte(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    registry = source.get("registry", "")
    text = "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        errors.append(field.required(path.child("registry"), text))
    elif len(source.get("tenant", "")) >= 65:
        tenant = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(field.required(path.child("tenant"), tenant))
    else:
        for pair in registry.split(","):
            host, colon, port = pair.rpartition(":")
            if not colon or (":" in host and not (host.startswith("[") and host.endswith("]"))):
                errors.append(field.invalid(path.child("registry"), registry, text))
    if not source.get("volume"):
        errors.append(field.required(path.child("volume")))


def flocker(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID")
    if not name and not uuid:
        errors.append(field.required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        text = "datasetName and datasetUUID can not be specified simultaneously"
        errors.append(field.invalid(path, "resource", text))
    if "/" in name:
        errors.append(field.invalid(path.child("datasetName"), name, "must not contain '/'"))


def flex_options(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    for key in steps(ordered(source.get("options") or ())):
        namespace = "." + key.partition("/")[0].lower()
        if namespace.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(field.invalid(path.child("options").key(key), key, text))


def azure_disk_uri(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    kind, uri = source.get("kind"), source.get("diskURI", "")
    managed = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
    blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.append(not_supported(path.child("diskURI"), uri, (managed,)))
    if kind is not None and kind != "Managed" and not uri.startswith("https://"):
        errors.append(not_supported(path.child("diskURI"), uri, (blob,)))


def csi_driver_name(name: str, path: Path, errors: Errors) -> None:
    if not name:
        errors.append(field.required(path))
        return
    if len(name.encode()) > 63:
        errors.append(field.too_long(path, 63))
    for text in is_dns1123_subdomain(name.lower()):
        errors.append(field.invalid(path, name, text))


def _csi(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    csi_driver_name(source.get("driver", ""), path.child("driver"), errors)
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return
    name = secret.get("name", "")
    if not name:
        errors.append(field.required(path.child("nodePublishSecretRef", "name")))
    for text in subdomain_name(name) if name else ():
        errors.append(field.invalid(path.child("name"), name, text))


def _host_path(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    where = source.get("path", "")
    if not where:
        errors.append(field.required(path.child("path")))
        return
    validate_no_backsteps(where, path.child("path"), errors)
    kind = source.get("type")
    if kind is not None and kind not in HOST_PATH_TYPES:
        errors.append(not_supported(path.child("type"), kind, HOST_PATH_TYPES))


def _git_repo(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    if not source.get("repository"):
        errors.append(field.required(path.child("repository")))
    validate_descending(source.get("directory", ""), path.child("directory"), errors)


def _absolute(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    where = source.get("path", "")
    if not where.startswith("/"):
        errors.append(field.invalid(path.child("path"), where, "must be an absolute path"))


def _downward(source: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    validate_mode(source.get("defaultMode"), path.child("defaultMode"), errors)
    for item in steps(source.get("items") or ()):  # upstream leaves the index out
        validate_downward_file(item, path, errors)


def _ephemeral(source: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        errors.append(field.required(path.child("volumeClaimTemplate")))
    else:
        validate_claim_template(template, path.child("volumeClaimTemplate"), errors)


def _image(source: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    if ctx.is_pod and not source.get("reference"):
        errors.append(field.required(path.child("reference")))
    validate_pull_policy(source.get("pullPolicy", ""), path.child("pullPolicy"), errors)


_LABEL = check(is_dns1123_label)


def _secret_ref(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    ref = source.get("secretRef")
    if ref is not None and not ref.get("name"):
        errors.append(field.required(path.child("secretRef", "name")))


_MODE = at("defaultMode", check(_mode_texts))
_ITEMS = at("items", each(validate_key_to_path))

GCE_DISK = struct(required("pdName"), at("partition", check(_partition_texts)))
AWS_DISK = struct(required("volumeID"), at("partition", check(_partition_texts)))
NFS = struct(required("server"), required("path"), _absolute)
GLUSTERFS = struct(required("endpoints"), required("path"))
RBD = struct(required("monitors"), required("image"))
CEPHFS = struct(required("monitors"))
FLEX = struct(required("driver"), flex_options)
VSPHERE = struct(required("volumePath"))
PHOTON = struct(required("pdID"))
PORTWORX = struct(required("volumeID"))
SCALE_IO = struct(required("gateway"), required("system"), required("volumeName"))
AZURE_DISK = struct(
    required("diskName"),
    required("diskURI"),
    at("cachingMode", enum("None", "ReadOnly", "ReadWrite")),
    at("kind", enum("Dedicated", "Managed", "Shared")),
    azure_disk_uri,
)

#: (name, name in the path of "more than one" errors, name in the path of other errors, rule)
SOURCES: tuple[tuple[str, str, str, Rule], ...] = (
    ("hostPath", "hostPath", "hostPath", _host_path),
    ("gitRepo", "gitRepo", "gitRepo", _git_repo),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", GCE_DISK),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", AWS_DISK),
    ("secret", "secret", "secret", struct(required("secretName"), _MODE, _ITEMS)),
    ("nfs", "nfs", "nfs", NFS),
    ("iscsi", "iscsi", "iscsi", _iscsi),
    ("glusterfs", "glusterfs", "glusterfs", GLUSTERFS),
    ("flocker", "flocker", "flocker", flocker),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", struct(required("claimName"))),
    ("rbd", "rbd", "rbd", RBD),
    ("cinder", "cinder", "cinder", struct(required("volumeID"), _secret_ref)),
    ("cephfs", "cephFS", "cephfs", CEPHFS),
    ("quobyte", "quobyte", "quobyte", quobyte),
    ("downwardAPI", "downwarAPI", "downwardAPI", _downward),
    ("fc", "fc", "fc", fibre_channel),
    ("flexVolume", "flexVolume", "flexVolume", FLEX),
    ("configMap", "configMap", "configMap", struct(required("name"), _MODE, _ITEMS)),
    ("azureFile", "azureFile", "azureFile", struct(required("secretName"), required("shareName"))),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", VSPHERE),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", PHOTON),
    ("portworxVolume", "portworxVolume", "portworxVolume", PORTWORX),
    ("azureDisk", "azureDisk", "azureDisk", AZURE_DISK),
    (
        "storageos",
        "storageos",
        "storageos",
        struct(required("volumeName", then=_LABEL), unless_empty("volumeNamespace", _LABEL), _secret_ref),
    ),
    ("projected", "projected", "projected", validate_projected),
    ("scaleIO", "scaleIO", "scaleIO", SCALE_IO),
    ("csi", "csi", "csi", _csi),
    ("ephemeral", "ephemeral", "ephemeral", _ephemeral),
    ("image", "image", "image", _image),
)
_BY_NAME = {source[0]: source for source in SOURCES}
_ORDER = {source[0]: i for i, source in enumerate(SOURCES)}


def _validate_source(volume: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    found = False
    empty = volume.get("emptyDir")
    if empty is not None:
        found = True
        limit = empty.get("sizeLimit")
        if limit is not None and quantities.parse(limit).value < 0:
            text = "SizeLimit field must be a valid resource quantity"
            errors.append(field.forbidden(path.child("emptyDir", "sizeLimit"), text))
    kinds = [kind for kind in volume if kind in _ORDER]
    if len(kinds) > 1:
        kinds.sort(key=_ORDER.__getitem__)
    for kind in kinds:
        source = volume[kind]
        if source is None:
            continue
        _, doubled, named, rule = _BY_NAME[kind]
        if found:
            errors.append(field.forbidden(path.child(doubled), _ONE_TYPE))
        else:
            found = True
            rule(source, path.child(named), errors, ctx)
            if kind == "ephemeral":
                _claim_name(volume, path, errors, ctx)
        if kind == "iscsi" and source.get("initiatorName") is not None:
            name = volume.get("name", "")
            if len(f"{name}:{source.get('targetPortal', '')}") > 64:
                errors.append(field.invalid(path.child("name"), name, _NAME_TOO_LONG))
    if not found:
        errors.append(field.required(path, "must specify a volume type"))


def _claim_name(volume: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    """The claim of an ephemeral volume is named after pod and volume."""
    pod, name = (ctx.metadata or {}).get("name"), volume.get("name")
    if pod and name:
        for text in subdomain_name(f"{pod}-{name}"):
            errors.append(field.invalid(path.child("name"), name, f'PVC name "{pod}-{name}": {text}'))


def validate_volumes(volumes: list[Object], path: Path, errors: Errors, ctx: PodOptions) -> Mapping[str, Object]:
    """Appends what is wrong; returns the good volumes by name, for mounts to look up."""
    good: dict[str, Object] = {}
    pod = (ctx.metadata or {}).get("name")
    created = {f"{pod}-{volume.get('name', '')}" for volume in steps(volumes) if pod and "ephemeral" in volume}
    for i, volume in enumerate(steps(volumes)):
        here, before = path.index(i), len(errors)
        _validate_source(volume, here, errors, ctx)
        name = volume.get("name", "")
        if not name:
            errors.append(field.required(here.child("name")))
        else:
            for text in is_dns1123_label(name):
                errors.append(field.invalid(here.child("name"), name, text))
        if name in good:
            errors.append(field.duplicate(here.child("name"), name))
        if len(errors) == before:
            good[name] = volume
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and created and claim.get("claimName") in created:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(field.invalid(here.child("persistentVolumeClaim", "claimName"), claim["claimName"], text))
    return good
