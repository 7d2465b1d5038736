"""The approval of definitions in API groups of the Kubernetes community (upstream: ``apihelpers/helpers.go``)."""

from __future__ import annotations

from kapi.cel.library.urls import parse as parse_url
from kapi.machinery.field import FieldError, Path, invalid, required
from kapi.machinery.tree import Object

APPROVED = "api-approved.kubernetes.io"

_KEP = "https://github.com/kubernetes/enhancements/pull/1111"


def is_protected(group: str) -> bool:
    """Whether a group belongs to the Kubernetes community."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def approval(annotations: Object | None) -> tuple[str, str]:
    """The state by the approval annotation (Missing, Bypassed, Approved or Invalid), and the reason."""
    value = (annotations or {}).get(APPROVED, "")
    if not value:
        return "Missing", f'protected groups must have approval annotation "{APPROVED}", see {_KEP}'
    if value.startswith("unapproved"):
        return "Bypassed", f'not approved: "{value}"'
    try:
        url = parse_url(value)
        if url.host and url.scheme:
            return "Approved", f"approved in {value}"
    except ValueError:
        pass
    return "Invalid", (
        f'protected groups must have approval annotation "{APPROVED}" with either a URL or a reason starting with '
        f'"unapproved", see {_KEP}'
    )


def approval_errors(crd: Object, old: Object | None) -> list[FieldError]:
    if not is_protected((crd.get("spec") or {}).get("group") or ""):
        return []
    annotations = crd["metadata"].get("annotations")
    state, reason = approval(annotations)
    if old is not None and approval(old["metadata"].get("annotations"))[0] == state:
        return []
    path = Path("metadata").child("annotations").key(APPROVED)
    if state == "Invalid":
        return [invalid(path, (annotations or {}).get(APPROVED), reason)]
    return [required(path, reason)] if state == "Missing" else []
