"""The objects to which a pod or a volume refers, and the node of a user.

Upstream: ``pkg/api/v1/pod`` and ``persistentvolume`` visitors, ``pkg/auth/nodeidentifier``.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapi.machinery.each import elements
from kapi.machinery.tree import Object, dig
from kapi.request.user import UserInfo

NODE_PREFIX = "system:node:"
NODES_GROUP = "system:nodes"
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
#: volume type -> path of the secret's name in the volume
_VOLUME_SECRETS: tuple[tuple[str, ...], ...] = (
    ("azureFile", "secretName"),
    ("cephfs", "secretRef", "name"),
    ("cinder", "secretRef", "name"),
    ("flexVolume", "secretRef", "name"),
    ("rbd", "secretRef", "name"),
    ("scaleIO", "secretRef", "name"),
    ("secret", "secretName"),
    ("iscsi", "secretRef", "name"),
    ("storageos", "secretRef", "name"),
    ("csi", "nodePublishSecretRef", "name"),
)
#: volume sources of a PersistentVolume whose secret the kubelet reads
_KUBELET_SECRETS: tuple[tuple[str, str], ...] = (
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("storageos", "secretRef"),
    ("csi", "nodePublishSecretRef"),
    ("csi", "nodeStageSecretRef"),
    ("csi", "nodeExpandSecretRef"),
)


def node_identity(user: UserInfo) -> tuple[str, bool]:
    """(node name, is a node): the user name has the prefix, and the groups contain ``system:nodes``."""
    if not user.name.startswith(NODE_PREFIX) or NODES_GROUP not in user.groups:
        return "", False
    return user.name[len(NODE_PREFIX) :], True


def _containers(spec: Object) -> Iterator[Object]:
    for key in _CONTAINER_LISTS:
        yield from spec.get(key) or ()


def _environment(spec: Object, key_ref: str, source_ref: str) -> Iterator[str]:
    for container in _containers(spec):
        for source in elements(container, "envFrom"):
            yield dig(source, source_ref, "name") or ""
        for variable in elements(container, "env"):
            yield dig(variable, "valueFrom", key_ref, "name") or ""


def pod_secrets(pod: Object) -> set[str]:
    """Names of the secrets a pod reads in its own namespace."""
    spec = pod.get("spec") or {}
    names = {reference.get("name", "") for reference in elements(spec, "imagePullSecrets")}
    names.update(_environment(spec, "secretKeyRef", "secretRef"))
    for volume in elements(spec, "volumes"):
        names.update(dig(volume, *path) or "" for path in _VOLUME_SECRETS)
        for source in elements(dig(volume, "projected", "sources")):
            names.add(dig(source, "secret", "name") or "")
    names.discard("")
    return names


def pod_config_maps(pod: Object) -> set[str]:
    """Names of the config maps a pod reads in its own namespace."""
    spec = pod.get("spec") or {}
    names = set(_environment(spec, "configMapKeyRef", "configMapRef"))
    for volume in elements(spec, "volumes"):
        names.add(dig(volume, "configMap", "name") or "")
        for source in elements(dig(volume, "projected", "sources")):
            names.add(dig(source, "configMap", "name") or "")
    names.discard("")
    return names


def pod_volume_claims(pod: Object) -> set[str]:
    """Names of the PersistentVolumeClaims of a pod, with the claims of its generic ephemeral volumes."""
    names = set()
    for volume in elements(pod, "spec", "volumes"):
        claim = dig(volume, "persistentVolumeClaim", "claimName")
        if claim:
            names.add(claim)
        elif volume.get("ephemeral") is not None:
            names.add(f"{pod['metadata']['name']}-{volume.get('name', '')}")
    return names


def pod_resource_claims(pod: Object) -> set[str]:
    """Names of the ResourceClaims of a pod: named, generated, or made for an extended resource."""
    status = pod.get("status") or {}
    generated = {each.get("name"): each.get("resourceClaimName") for each in elements(status, "resourceClaimStatuses")}
    names = set()
    for claim in elements(pod, "spec", "resourceClaims"):
        if claim.get("resourceClaimName"):
            names.add(claim["resourceClaimName"])
        elif claim.get("resourceClaimTemplateName"):
            names.add(generated.get(claim.get("name")) or "")
    names.add(dig(status, "extendedResourceClaimStatus", "resourceClaimName") or "")
    names.discard("")
    return names


def volume_secrets(volume: Object) -> set[tuple[str, str]]:
    """(namespace, name) of the secrets of a bound PersistentVolume that the kubelet may read."""
    spec = volume.get("spec") or {}
    home = dig(spec, "claimRef", "namespace") or ""
    found = set()
    azure = spec.get("azureFile")
    if azure and azure.get("secretName"):
        found.add((azure.get("secretNamespace") or home, azure["secretName"]))
    for source, reference in _KUBELET_SECRETS:
        secret = dig(spec, source, reference)
        if secret and secret.get("name"):
            found.add((secret.get("namespace") or home, secret["name"]))
    return found
