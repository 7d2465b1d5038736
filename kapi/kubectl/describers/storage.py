"""Volumes, claims, storage classes, CSI nodes, config maps and secrets."""

from __future__ import annotations

import base64

from kapi.kubectl.describers.claims import STATUS, access_modes, claim_class, describe_claim
from kapi.kubectl.describers.lines import (
    CLUSTER_HEAD,
    CREATED,
    HEAD,
    NAME,
    NONE,
    UNSET,
    Lines,
    at,
    each,
    line,
    map_text,
    python_bool,
    row,
    table,
    text,
)
from kapi.kubectl.describers.volumes import PERSISTENT, describe_source
from kapi.machinery.golang import value_text
from kapi.machinery.tree import Object, Tree

_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _terms(out: Lines, terms: list[Object], path: str, operator: str, level: int) -> None:
    for number, term in enumerate(terms):
        out.put(f"Term {number}:\t", level)
        requirements = term.get(path) or []
        if not requirements:
            out.put(f"{NONE}\n")
        for place, one in enumerate(requirements):
            if place:
                out.put("\t", level)
            values = f" [{', '.join(one['values'])}]" if one.get("values") else ""
            out.put(f"{one['key']} {operator or one['operator'].lower()}{values}\n")


def _affinity(out: Lines, obj: Object) -> None:
    required = at(obj, "spec.nodeAffinity.required")
    out.put(f"Node Affinity:\t{NONE if required is None else ''}\n")
    if required is not None:
        terms = required.get("nodeSelectorTerms")
        out.put(f"Required Terms:\t{'' if terms else NONE}\n", 1)
        _terms(out, terms or [], "matchExpressions", "", 2)


PERSISTENT_VOLUME = (
    *CLUSTER_HEAD,
    row("Finalizers", "metadata.finalizers", "[]"),
    line(lambda obj: f"StorageClass:\t{claim_class(obj)}"),
    STATUS,
    row("Claim", "spec.claimRef", "", lambda claim: f"{claim.get('namespace', '')}/{claim.get('name', '')}"),
    row("Reclaim Policy", "spec.persistentVolumeReclaimPolicy", ""),
    row("Access Modes", "spec.accessModes", "", access_modes),
    row("VolumeMode", "spec.volumeMode"),
    row("Capacity", "spec.capacity.storage", "0"),
    _affinity,
    row("Message", "status.message", ""),
    text("Source:"),
    lambda out, obj: describe_source(out, obj["spec"], PERSISTENT),
)

PERSISTENT_VOLUME_CLAIM = (
    describe_claim,
    lambda out, obj: out.multiline("Used By", sorted(at(pod, "metadata.name") for pod in obj["related"]["pods"])),
    table(
        "status.conditions",
        "Type|Status|LastProbeTime|LastTransitionTime|Reason|Message",
        "type_ status_ @lastProbeTime_ @lastTransitionTime_ reason_ message",
        "Conditions",
        rules="----|------|-----------------|------------------|------|-------",
    ),
)


def _options(out: Lines, obj: Object) -> None:
    options = obj.get("mountOptions")
    out.put("MountOptions:\n" if options else f"MountOptions:\t{NONE}\n")
    for option in options or ():
        out.put(f"{option}\n", 1)


def _topologies(out: Lines, obj: Object) -> None:
    if (terms := obj.get("allowedTopologies")) is not None:
        out.put(f"AllowedTopologies:\t{'' if terms else NONE}\n")
        _terms(out, terms, "matchLabelExpressions", "in", 1)


STORAGE_CLASS = (
    NAME,
    line(lambda obj: f"IsDefaultClass:\t{'Yes' if any((at(obj, 'metadata.annotations') or {}).get(key) == 'true' for key in _DEFAULT_CLASS) else 'No'}"),  # noqa: E501
    row("Annotations", "metadata.annotations", NONE, map_text),
    row("Provisioner", "provisioner", ""),
    row("Parameters", "parameters", NONE, map_text),
    row("AllowVolumeExpansion", "allowVolumeExpansion", UNSET, python_bool),
    _options,
    row("ReclaimPolicy", "reclaimPolicy"),
    row("VolumeBindingMode", "volumeBindingMode"),
    _topologies,
)  # fmt: skip
VOLUME_ATTRIBUTES_CLASS = (
    NAME,
    row("Annotations", "metadata.annotations", NONE, map_text),
    row("DriverName", "driverName", ""),
    row("Parameters", "parameters", NONE, map_text),
)
_DRIVER = (
    line(lambda driver: f"{driver['name']}:", 2),
    row("Node ID", "nodeID", "", level=3),
    lambda out, driver: out.put(f"      Allocatables:\n        Count:\t{driver['allocatable']['count']}\n") if at(driver, "allocatable.count") is not None else None,  # noqa: E501
    row("Topology Keys", "topologyKeys", level=3),
)  # fmt: skip
CSI_NODE = (
    *CLUSTER_HEAD,
    CREATED,
    text("Spec:"),
    lambda out, obj: out.put("Drivers:\n", 1) if at(obj, "spec.drivers") is not None else None,
    each("spec.drivers", *_DRIVER),
)


def _data(out: Lines, obj: Object) -> None:
    out.put("\nData\n====\n")
    for key, value in sorted((obj.get("data") or {}).items()):
        out.put(f"{key}:\n----\n{value}\n\n")
    out.put("\nBinaryData\n====\n")
    for key, value in sorted((obj.get("binaryData") or {}).items()):
        out.put(f"{key}: {_size(value)} bytes\n")
    out.put("\n")


def _size(value: str | None) -> int:
    return len(base64.b64decode(value or ""))


def _secret(out: Lines, obj: Object) -> None:
    kind = obj.get("type", "")
    out.put(f"\nType:\t{kind}\n\nData\n====\n")
    for key, value in sorted((obj.get("data") or {}).items()):
        is_token = key == "token" and kind == "kubernetes.io/service-account-token"
        shown: Tree = base64.b64decode(value or "").decode("utf-8", "replace") if is_token else f"{_size(value)} bytes"
        out.put(f"{key}:\t{value_text(shown)}\n")


CONFIG_MAP = (*HEAD, _data)
SECRET = (*HEAD, _secret)
