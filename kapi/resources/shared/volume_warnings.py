"""Warnings about deprecated parts of a persistent volume (upstream: ``pkg/api/persistentvolume``, ``pkg/api/node``)."""

from __future__ import annotations

from collections.abc import Iterator

from kapi.machinery.each import each, each_of, elements
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.shared.names import is_label_value

_ANNOTATIONS = {
    "volume.beta.kubernetes.io/storage-class": 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_SOURCES = {
    "cephfs": ("cephfs", "v1.28", "v1.31"),
    "photonPersistentDisk": ("photonPersistentDisk", "v1.11", "v1.16"),
    "scaleIO": ("scaleIO", "v1.16", "v1.22"),
    "storageos": ("storageOS", "v1.22", "v1.25"),
    "glusterfs": ("glusterfs", "v1.25", "v1.26"),
    "rbd": ("rbd", "v1.28", "v1.31"),
}
_TERMS = Path("spec").child("nodeAffinity", "required", "nodeSelectorTerms")
#: deprecated labels of nodes
NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def persistent_volume_warnings(volume: Object) -> list[str]:
    """The texts, in upstream's order."""
    spec = volume.get("spec") or {}
    annotations = volume["metadata"].get("annotations") or {}
    warnings = [f"metadata.annotations[{key}]: {text}" for key, text in _ANNOTATIONS.items() if key in annotations]
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        warnings.append(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
            "approach is to use dynamic provisioning."
        )
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    for term, here in each_of(_TERMS, required.get("nodeSelectorTerms")):
        warnings += node_term_warnings(term, here)
    for name, (shown, deprecated, gone) in _SOURCES.items():
        if spec.get(name) is not None:
            warnings.append(f"spec.{shown}: deprecated in {deprecated}, non-functional in {gone}+")
    return warnings


def node_term_warnings(term: Object, path: Path, *, check_values: bool = False) -> Iterator[str]:
    """Deprecated node labels in the expressions of a node selector's term, or of a label selector over nodes.

    ``check_values``: also invalid label values, which some terms may have.
    """
    for expression, place in each(path.child("matchExpressions"), term):
        key, here = expression.get("key", ""), place
        if key in NODE_LABELS:
            yield f"{here.child('key')}: {key} is {NODE_LABELS[key]}"
        for j, value in enumerate(elements(expression, "values") if check_values else ()):
            for text in is_label_value(value):
                yield f"{here.child('values').index(j)}: {value} is invalid, {text}"


def node_selector_warnings(selector: Object | None, path: Path) -> list[str]:
    """Deprecated node labels in a label selector over nodes."""
    warnings = list(node_term_warnings(selector or {}, path))
    for key in elements(selector, "matchLabels"):
        if key in NODE_LABELS:
            warnings.append(f"{path}.matchLabels.{key}: {NODE_LABELS[key]}")
    return warnings
