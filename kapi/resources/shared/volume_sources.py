"""Rules and defaults of the volume sources that pods and persistent volumes have in common (upstream: ``core/validation``)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from kapi.machinery import field
from kapi.machinery.each import elements
from kapi.machinery.field import Path
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.resources.shared.names import is_dns1123_subdomain
from kapi.resources.shared.paths import validate_no_backsteps
from kapi.resources.shared.rules import Errors, at, check, enum, fits, need, not_supported, report, required, struct


@cache
def _iqn() -> Callable[[str], object]:
    import re2  # imported only when it is used

    search: Callable[[str], object] = re2.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)\z").search
    return search


_INITIATORS: dict[str, Callable[[str], object]] = {
    "iqn": lambda name: _iqn()(name),
    "eui": re.compile(r"eui.[A-Za-z0-9]{16}\Z").match,
    "naa": re.compile(r"naa.[A-Za-z0-9]{32}\Z").match,
}
HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
#: host and port as in Go's ``net.SplitHostPort``
_host_port = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*").fullmatch
_PARTITION = "must be between 1 and 255, inclusive"


def _partition_texts(number: int) -> tuple[str, ...]:
    return () if 0 <= number <= 255 else (_PARTITION,)


def initiator_texts(name: str, unknown: str = "must be valid format starting with iqn, eui, or naa") -> tuple[str, ...]:
    """The errors of an iSCSI name; ``unknown`` is the text for a name that does not begin with iqn, eui or naa."""
    form = _INITIATORS.get(name[:3])
    if form is None:
        return (unknown,)
    return () if form(name) else ("must be valid format",)


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
            if _host_port(pair) is None:
                errors.append(field.invalid(path.child("registry"), registry, text))
    need(source.get("volume"), path, errors, "volume")


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
    for key in elements(ordered(source.get("options") or ())):
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


def validate_csi_driver_name(name: str, path: Path, errors: Errors) -> None:
    if not name:
        errors.append(field.required(path))
        return
    fits(len(name.encode()), 63, path, errors)
    report(is_dns1123_subdomain(name.lower()), name, path, errors)


def host_path(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    where = source.get("path", "")
    if not where:
        errors.append(field.required(path.child("path")))
        return
    validate_no_backsteps(where, path.child("path"), errors)
    kind = source.get("type")
    if kind is not None and kind not in HOST_PATH_TYPES:
        errors.append(not_supported(path.child("type"), kind, HOST_PATH_TYPES))


def _absolute(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    where = source.get("path", "")
    if not where.startswith("/"):
        errors.append(field.invalid(path.child("path"), where, "must be an absolute path"))


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


# -- defaults: upstream's empty texts are absent here, decoding has dropped them ----------------------------------------


def default_iscsi(source: Object) -> None:
    source.setdefault("iscsiInterface", "default")


def default_rbd(source: Object) -> None:
    source.setdefault("pool", "rbd")
    source.setdefault("user", "admin")
    source.setdefault("keyring", "/etc/ceph/keyring")


def default_azure_disk(source: Object) -> None:
    source.setdefault("cachingMode", "ReadWrite")
    source.setdefault("fsType", "ext4")
    source.setdefault("readOnly", False)
    source.setdefault("kind", "Shared")


def default_scale_io(source: Object) -> None:
    source.setdefault("storageMode", "ThinProvisioned")
    source.setdefault("fsType", "xfs")


def default_host_path(source: Object) -> None:
    source.setdefault("type", "")
