"""Persistent volume claims, and templates of claims."""

from __future__ import annotations

from kapi.kubectl.describers.lines import ANNOTATIONS, LABELS, NAME, NAMESPACE, Lines, Part, age, at, block, line, row
from kapi.machinery.tree import Object

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def claim_class(obj: Object) -> str:
    """The storage class of a claim or volume."""
    found = (at(obj, "metadata.annotations") or {}).get(_BETA_CLASS)
    return str((at(obj, "spec.storageClassName") or "") if found is None else found)


def access_modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _status(obj: Object) -> str:
    deleted = at(obj, "metadata.deletionTimestamp")
    return f"Status:\tTerminating (lasts {age(deleted)})" if deleted else f"Status:\t{at(obj, 'status.phase') or ''}"


STATUS = line(_status)


def describe_claim(out: Lines, claim: Object, *, whole: bool = True) -> None:
    """``whole``: not the template of a claim, which has fewer lines."""
    bound = at(claim, "spec.volumeName")
    parts: list[Part | bool] = [
        whole and NAME,
        whole and NAMESPACE,
        line(lambda obj: f"StorageClass:\t{claim_class(obj)}"),
        whole and STATUS,
        row("Volume", "spec.volumeName", ""),
        LABELS,
        ANNOTATIONS,
        whole and row("Finalizers", "metadata.finalizers", "[]"),
        line(lambda obj: f"Capacity:\t{(at(obj, 'status.capacity.storage') or '0') if bound else ''}"),
        line(lambda obj: f"Access Modes:\t{access_modes(at(obj, 'status.accessModes')) if bound else ''}"),
        row("VolumeMode", "spec.volumeMode"),
        block("DataSource", "spec.dataSource", row("APIGroup", "apiGroup", level=1), row("Kind", "kind", "", level=1), row("Name", "name", "", level=1)),  # noqa: E501
    ]  # fmt: skip
    for part in parts:
        if not isinstance(part, bool):
            part(out, claim)
