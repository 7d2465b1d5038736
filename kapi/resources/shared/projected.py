"""Projected volumes and the files of the downward API (upstream: ``core/validation`` validateProjectionSources)."""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.each import each, elements, entries
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.shared.env import VOLUME_FIELDS, validate_field_ref, validate_resource_ref
from kapi.resources.shared.metadata import MAX_ANNOTATIONS_BYTES
from kapi.resources.shared.names import is_label_key, subdomain_name
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.paths import validate_local, validate_mode
from kapi.resources.shared.rules import Errors, need, not_supported
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
    for source, here in each(path.child("sources"), volume):
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
    for item, here in each(path.child("items"), part):
        validate_key_to_path(item, here, errors)
        if item.get("path"):
            paths.take(item["path"], name)


def _token(token: Object, volume: Path, path: Path, errors: Errors, ctx: PodOptions) -> None:
    seconds, where = token.get("expirationSeconds", 0), token.get("path", "")
    if seconds < 600:
        text = "may not specify a duration less than 10 minutes"
        errors.append(field.invalid(path.child("expirationSeconds"), seconds, text))
    if seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
        errors.append(field.invalid(path.child("expirationSeconds"), seconds, text))
    if not where:  # upstream names the volume's path here
        errors.append(field.required(volume.child("path")))
    elif not ctx.allow_non_local_token_path:
        validate_local(where, volume.child("path"), errors)


def _trust_bundle(bundle: Object, path: Path, errors: Errors, paths: _Paths) -> None:
    name, signer, selector = bundle.get("name"), bundle.get("signerName"), bundle.get("labelSelector")
    if name is not None and signer is not None:
        shown = {
            "Name": name,
            "SignerName": signer,
            "LabelSelector": selector,
            "Optional": bundle.get("optional"),
            "Path": bundle.get("path", ""),
        }
        errors.append(field.invalid(path, shown, "only one of name and signerName may be used"))
    elif name is not None:
        need(name, path, errors, "name", detail="must be a valid object name")
        for text in subdomain_name(name.rpartition(":")[2]):  # behind the signer's name
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
        _user_annotations(annotations, path.child("userAnnotations"), errors)
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


def _user_annotations(annotations: dict[str, str], path: Path, errors: Errors) -> None:
    for key in sorted(annotations):
        lower = key.lower()
        if not lower:
            errors.append(field.required(path))
            continue
        texts = is_label_key(lower)
        for text in texts:
            errors.append(field.invalid(path, lower, text))
        if not texts and "/" not in lower:
            text = 'must be a domain-prefixed key (such as "acme.io/foo")'
            errors.append(field.invalid(path, lower, text))
    if sum(len(key.encode()) + len(value.encode()) for key, value in entries(annotations)) > MAX_ANNOTATIONS_BYTES:
        errors.append(field.too_long(path, MAX_ANNOTATIONS_BYTES))
