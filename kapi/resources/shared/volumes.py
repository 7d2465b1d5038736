"""The volumes of a pod, with projected volumes and files of the downward API (upstream: ``core/validation`` ValidateVolumes).

``SOURCES`` lists every kind of volume in upstream's order with its rule.  The rules of sources that persistent volumes also have
are in ``volume_sources.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from kapi.machinery import field, quantities
from kapi.machinery.each import each_of, elements
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.shared import volume_sources as sources
from kapi.resources.shared.claims import validate_claim_template
from kapi.resources.shared.containers import PULL_POLICIES
from kapi.resources.shared.env import VOLUME_FIELDS, validate_field_ref, validate_resource_ref
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import validate_user_annotations
from kapi.resources.shared.names import is_dns1123_label, subdomain_name
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.paths import FILE_MODE, validate_descending, validate_local, validate_mode
from kapi.resources.shared.rules import (
    TOKEN_SECONDS,
    Errors,
    Rule,
    at,
    check,
    each,
    need,
    not_supported,
    present,
    report,
    required,
    struct,
    supported,
    unless_empty,
)
from kapi.resources.shared.selectors import validate_label_selector
from kapi.resources.shared.signers import is_kubernetes_signer, validate_signer_name

_CONFLICT = "conflicting duplicate paths"
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_MAX_LIFETIME_SECONDS, _MAX_KUBERNETES_LIFETIME_SECONDS = 91 * 86400, 86400  # of a pod's certificate


def validate_key_to_path(item: Object, path: Path, errors: Errors, ctx: object = None) -> None:
    need(item.get("key"), path, errors, "key")
    where = item.get("path", "")
    need(where, path, errors, "path")
    validate_local(where, path.child("path"), errors)
    validate_mode(item.get("mode"), path.child("mode"), errors)


def validate_downward_file(item: Object, path: Path, errors: Errors) -> None:
    where = item.get("path", "")
    need(where, path, errors, "path")
    validate_local(where, path.child("path"), errors)
    ref, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if ref is not None:
        validate_field_ref(ref, VOLUME_FIELDS, path.child("fieldRef"), errors)
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(field.invalid(path, "resource", text))
    elif resource is not None:
        validate_resource_ref(resource, path.child("resourceFieldRef"), errors, in_volume=True)
    else:
        errors.append(field.required(path, "one of fieldRef and resourceFieldRef is required"))
    validate_mode(item.get("mode"), path.child("mode"), errors)


class _Paths:
    """The paths of all sources, to find duplicates."""

    def __init__(self, volume: Path, errors: Errors) -> None:
        self._volume = volume
        self._errors = errors
        self._seen: set[str] = set()

    def take(self, path: str, shown: str) -> None:
        if path in self._seen:
            self._errors.append(field.invalid(self._volume, shown, _CONFLICT))
        self._seen.add(path)


def validate_projected(volume: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    validate_mode(volume.get("defaultMode"), path.child("defaultMode"), errors)
    paths = _Paths(path, errors)
    for source, here in each_of(path.child("sources"), volume.get("sources")):
        count = 0
        for kind in ("secret", "configMap"):
            part = source.get(kind)
            if part is not None:
                count += 1
                _keys(part, here.child(kind), errors, paths)
        downward = source.get("downwardAPI")
        if downward is not None:
            count += 1
            for item in elements(downward, "items"):
                validate_downward_file(item, here.child("downwardAPI"), errors)
                if item.get("path"):
                    paths.take(item["path"], item["path"])
        token = source.get("serviceAccountToken")
        if token is not None:
            count += 1
            _token(token, path, here.child("serviceAccountToken"), errors, ctx)
        bundle = source.get("clusterTrustBundle")
        if bundle is not None:
            count += 1
            _trust_bundle(bundle, here.child("clusterTrustBundle"), errors, paths)
        certificate = source.get("podCertificate")
        if certificate is not None:
            count += 1
            _certificate(certificate, here.child("podCertificate"), errors, paths)
        if count > 1:
            errors.append(field.forbidden(here, "may not specify more than 1 volume type per source"))


def _keys(part: Object, path: Path, errors: Errors, paths: _Paths) -> None:
    name = part.get("name", "")
    need(name, path, errors, "name")
    for item, here in each_of(path.child("items"), part.get("items")):
        validate_key_to_path(item, here, errors)
        if item.get("path"):
            paths.take(item["path"], name)


def _token(token: Object, volume: Path, path: Path, errors: Errors, ctx: PodOptions) -> None:
    seconds, where = token.get("expirationSeconds", 0), token.get("path", "")
    TOKEN_SECONDS(seconds, path.child("expirationSeconds"), errors, None)
    if not where:  # upstream names the volume's path here
        errors.append(field.required(volume.child("path")))
    elif not ctx.allow_non_local_token_path:
        validate_local(where, volume.child("path"), errors)


def _trust_bundle(bundle: Object, path: Path, errors: Errors, paths: _Paths) -> None:
    name, signer, selector = bundle.get("name"), bundle.get("signerName"), bundle.get("labelSelector")
    if name is not None and signer is not None:
        shown = internal("ClusterTrustBundleProjection", bundle)
        errors.append(field.invalid(path, shown, "only one of name and signerName may be used"))
    elif name is not None:
        need(name, path, errors, "name", detail="must be a valid object name")
        for text in subdomain_name(name.rpartition(":")[2]):  # the part after the signer's name
            errors.append(field.invalid(path.child("name"), name, f"not a valid clustertrustbundlename: {text}"))
        if selector is not None:
            text = "labelSelector must be unset if name is specified"
            errors.append(field.invalid(path.child("labelSelector"), selector, text))
    elif signer is not None:
        need(signer, path, errors, "signerName", detail="must be a valid signer name")
        validate_signer_name(signer, path.child("signerName"), errors)
        validate_label_selector(selector, path.child("labelSelector"), errors)
    else:
        errors.append(field.required(path, "either name or signerName must be specified"))
    where = bundle.get("path", "")
    need(where, path, errors, "path")
    validate_local(where, path.child("path"), errors)
    paths.take(where, where)


def _certificate(certificate: Object, path: Path, errors: Errors, paths: _Paths) -> None:
    signer = certificate.get("signerName", "")
    validate_signer_name(signer, path.child("signerName"), errors)
    annotations = certificate.get("userAnnotations")
    if annotations is not None:
        validate_user_annotations(annotations, path.child("userAnnotations"), errors)
    if certificate.get("keyType") not in _KEY_TYPES:
        errors.append(not_supported(path.child("keyType"), certificate.get("keyType", ""), _KEY_TYPES))
    seconds = certificate.get("maxExpirationSeconds")
    if seconds is not None:
        here = path.child("maxExpirationSeconds")
        if seconds < 3600:
            errors.append(field.invalid(here, seconds, "if provided, maxExpirationSeconds must be >= 3600"))
        longest = _MAX_KUBERNETES_LIFETIME_SECONDS if is_kubernetes_signer(signer) else _MAX_LIFETIME_SECONDS
        if seconds > longest:
            errors.append(field.invalid(here, seconds, f"if provided, maxExpirationSeconds must be <= {longest}"))
    count = 0
    for name in ("credentialBundlePath", "keyPath", "certificateChainPath"):
        where = certificate.get(name)
        if where:
            count += 1
            validate_local(where, path.child(name), errors)
            paths.take(where, where)
    if not count:
        text = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        errors.append(field.required(path, text))


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
    report(sources.initiator_texts(name) if name else (), name, path, errors, "iqn")
    if not 0 <= source.get("lun", 0) <= 255:
        errors.append(field.invalid(path.child("lun"), source["lun"], "must be between 0 and 255, inclusive"))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(field.required(path.child("secretRef")))
    initiator = source.get("initiatorName")
    report(
        sources.initiator_texts(initiator) if initiator is not None else (), initiator, path, errors, "initiatorname"
    )


def _csi(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    sources.validate_csi_driver_name(source.get("driver", ""), path.child("driver"), errors)
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return
    name = secret.get("name", "")
    need(name, path, errors, "nodePublishSecretRef", "name")
    report(subdomain_name(name) if name else (), name, path, errors, "name")


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
    supported(source.get("pullPolicy", ""), PULL_POLICIES, path, errors, "pullPolicy")


_LABEL = check(is_dns1123_label)


def _secret_ref(source: Object, path: Path, errors: Errors, ctx: object) -> None:
    ref = source.get("secretRef")
    if ref is not None and not ref.get("name"):
        errors.append(field.required(path.child("secretRef", "name")))


_MODE = at("defaultMode", check(_mode_texts))
_ITEMS = at("items", each(validate_key_to_path))

#: (name, name in the path of "more than one" errors, name in the path of other errors, rule)
SOURCES: tuple[tuple[str, str, str, Rule], ...] = (
    ("hostPath", "hostPath", "hostPath", sources.host_path),
    ("gitRepo", "gitRepo", "gitRepo", _git_repo),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", sources.GCE_DISK),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", sources.AWS_DISK),
    ("secret", "secret", "secret", struct(required("secretName"), _MODE, _ITEMS)),
    ("nfs", "nfs", "nfs", sources.NFS),
    ("iscsi", "iscsi", "iscsi", _iscsi),
    ("glusterfs", "glusterfs", "glusterfs", sources.GLUSTERFS),
    ("flocker", "flocker", "flocker", sources.flocker),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", struct(required("claimName"))),
    ("rbd", "rbd", "rbd", sources.RBD),
    ("cinder", "cinder", "cinder", struct(required("volumeID"), _secret_ref)),
    ("cephfs", "cephFS", "cephfs", sources.CEPHFS),
    ("quobyte", "quobyte", "quobyte", sources.quobyte),
    ("downwardAPI", "downwarAPI", "downwardAPI", _downward),
    ("fc", "fc", "fc", sources.fibre_channel),
    ("flexVolume", "flexVolume", "flexVolume", sources.FLEX),
    ("configMap", "configMap", "configMap", struct(required("name"), _MODE, _ITEMS)),
    ("azureFile", "azureFile", "azureFile", struct(required("secretName"), required("shareName"))),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", sources.VSPHERE),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", sources.PHOTON),
    ("portworxVolume", "portworxVolume", "portworxVolume", sources.PORTWORX),
    ("azureDisk", "azureDisk", "azureDisk", sources.AZURE_DISK),
    (
        "storageos",
        "storageos",
        "storageos",
        struct(required("volumeName", then=_LABEL), unless_empty("volumeNamespace", _LABEL), _secret_ref),
    ),
    ("projected", "projected", "projected", validate_projected),
    ("scaleIO", "scaleIO", "scaleIO", sources.SCALE_IO),
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


def _claim_name(volume: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    """Checks the name of an ephemeral volume's claim, which consists of the names of pod and volume."""
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
            report(is_dns1123_label(name), name, here, errors, "name")
        if name in good:
            errors.append(field.duplicate(here.child("name"), name))
        if len(errors) == before:
            good[name] = volume
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and created and claim.get("claimName") in created:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(field.invalid(here.child("persistentVolumeClaim", "claimName"), claim["claimName"], text))
    return good
