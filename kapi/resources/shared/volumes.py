"""The volumes of a pod (upstream: ``core/validation`` ValidateVolumes).

``SOURCES`` lists every kind of volume in upstream's order with its rule.  The rules of sources that persistent volumes have, too,
are in ``volume_sources.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from kapi.machinery import field, quantities
from kapi.machinery.each import each_of, elements
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.shared.claims import validate_claim_template
from kapi.resources.shared.containers import validate_pull_policy
from kapi.resources.shared.names import is_dns1123_label, subdomain_name
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.paths import FILE_MODE, validate_descending, validate_mode
from kapi.resources.shared.projected import validate_downward_file, validate_key_to_path, validate_projected
from kapi.resources.shared.rules import Errors, Rule, at, check, each, need, present, required, struct, unless_empty
from kapi.resources.shared.volume_sources import (
    AWS_DISK,
    AZURE_DISK,
    CEPHFS,
    FLEX,
    GCE_DISK,
    GLUSTERFS,
    NFS,
    PHOTON,
    PORTWORX,
    RBD,
    SCALE_IO,
    VSPHERE,
    fibre_channel,
    flocker,
    host_path,
    initiator_texts,
    quobyte,
    validate_csi_driver_name,
)

_ONE_TYPE = "may not specify more than 1 volume type"
_NAME_TOO_LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters"
    " if iscsi.initiatorName is specified."
)


def _mode_texts(mode: int) -> tuple[str, ...]:
    return () if 0 <= mode <= 0o777 else (FILE_MODE,)


def _iscsi(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    need(source.get("targetPortal"), path, errors, "targetPortal")
    name = source.get("iqn", "")
    need(name, path, errors, "iqn")
    for text in initiator_texts(name) if name else ():
        errors.append(field.invalid(path.child("iqn"), name, text))
    if not 0 <= source.get("lun", 0) <= 255:
        errors.append(field.invalid(path.child("lun"), source["lun"], "must be between 0 and 255, inclusive"))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(field.required(path.child("secretRef")))
    initiator = source.get("initiatorName")
    for text in initiator_texts(initiator) if initiator is not None else ():
        errors.append(field.invalid(path.child("initiatorname"), initiator, text))


def _csi(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    validate_csi_driver_name(source.get("driver", ""), path.child("driver"), errors)
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return
    name = secret.get("name", "")
    need(name, path, errors, "nodePublishSecretRef", "name")
    for text in subdomain_name(name) if name else ():
        errors.append(field.invalid(path.child("name"), name, text))


def _git_repo(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    need(source.get("repository"), path, errors, "repository")
    validate_descending(source.get("directory", ""), path.child("directory"), errors)


def _downward(source: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    validate_mode(source.get("defaultMode"), path.child("defaultMode"), errors)
    for item in elements(source, "items"):  # upstream leaves the index out
        validate_downward_file(item, path, errors)


def _ephemeral(source: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    template = source.get("volumeClaimTemplate")
    if present(template, path, errors, "volumeClaimTemplate"):
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

#: (name, name in the path of "more than one" errors, name in the path of other errors, rule)
SOURCES: tuple[tuple[str, str, str, Rule], ...] = (
    ("hostPath", "hostPath", "hostPath", host_path),
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
    """The name of an ephemeral volume's claim, which consists of those of pod and volume, must be valid."""
    pod, name = (ctx.metadata or {}).get("name"), volume.get("name")
    if pod and name:
        for text in subdomain_name(f"{pod}-{name}"):
            errors.append(field.invalid(path.child("name"), name, f'PVC name "{pod}-{name}": {text}'))


def validate_volumes(volumes: list[Object], path: Path, errors: Errors, ctx: PodOptions) -> Mapping[str, Object]:
    """Appends the errors; returns the valid volumes by name, for the rules of mounts."""
    good: dict[str, Object] = {}
    pod = (ctx.metadata or {}).get("name")
    created = {f"{pod}-{volume.get('name', '')}" for volume in elements(volumes) if pod and "ephemeral" in volume}
    for volume, place in each_of(path, volumes):
        here, before = place, len(errors)
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
