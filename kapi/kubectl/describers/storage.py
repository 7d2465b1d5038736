"""Volumes, claims, storage classes, CSI nodes, config maps and secrets."""

from __future__ import annotations

import base64

from kapi.kubectl.describers.lines import (
    ANNOTATIONS,
    CREATED,
    LABELS,
    NAME,
    NAMESPACE,
    NONE,
    UNSET,
    Lines,
    Part,
    age,
    at,
    block,
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

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def claim_class(obj: Object) -> str:
    """The storage class of a claim or volume."""
    found = (at(obj, "metadata.annotations") or {}).get(_BETA_CLASS)
    return str((at(obj, "spec.storageClassName") or "") if found is None else found)


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _status(obj: Object) -> str:
    deleted = at(obj, "metadata.deletionTimestamp")
    return f"Status:\tTerminating (lasts {age(deleted)})" if deleted else f"Status:\t{at(obj, 'status.phase') or ''}"


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
    NAME,
    LABELS,
    ANNOTATIONS,
    row("Finalizers", "metadata.finalizers", "[]"),
    line(lambda obj: f"StorageClass:\t{claim_class(obj)}"),
    line(_status),
    row("Claim", "spec.claimRef", "", lambda claim: f"{claim.get('namespace', '')}/{claim.get('name', '')}"),
    row("Reclaim Policy", "spec.persistentVolumeReclaimPolicy", ""),
    row("Access Modes", "spec.accessModes", "", _modes),
    row("VolumeMode", "spec.volumeMode"),
    row("Capacity", "spec.capacity.storage", "0"),
    _affinity,
    row("Message", "status.message", ""),
    text("Source:"),
    lambda out, obj: describe_source(out, obj["spec"], PERSISTENT),
)


def describe_claim(out: Lines, claim: Object, *, whole: bool = True) -> None:
    """``whole``: not the template of a claim, which has fewer lines."""
    bound = at(claim, "spec.volumeName")
    parts: list[Part | bool] = [
        whole and NAME,
        whole and NAMESPACE,
        line(lambda obj: f"StorageClass:\t{claim_class(obj)}"),
        whole and line(_status),
        row("Volume", "spec.volumeName", ""),
        LABELS,
        ANNOTATIONS,
        whole and row("Finalizers", "metadata.finalizers", "[]"),
        line(lambda obj: f"Capacity:\t{(at(obj, 'status.capacity.storage') or '0') if bound else ''}"),
        line(lambda obj: f"Access Modes:\t{_modes(at(obj, 'status.accessModes')) if bound else ''}"),
        row("VolumeMode", "spec.volumeMode"),
        block("DataSource", "spec.dataSource", row("APIGroup", "apiGroup", level=1), row("Kind", "kind", "", level=1), row("Name", "name", "", level=1)),  # noqa: E501
    ]  # fmt: skip
    for part in parts:
        if not isinstance(part, bool):
            part(out, claim)


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
    NAME,
    LABELS,
    ANNOTATIONS,
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


CONFIG_MAP = (NAME, NAMESPACE, LABELS, ANNOTATIONS, _data)
SECRET = (NAME, NAMESPACE, LABELS, ANNOTATIONS, _secret)
