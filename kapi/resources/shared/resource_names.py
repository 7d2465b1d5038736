"""Names and amounts of compute resources (upstream: ``pkg/apis/core/helper``, ``validateResourceName`` and its kin)."""

from __future__ import annotations

from kapi.machinery.checkpoint import steps
from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.tree import Object
from kapi.resources.shared.names import is_label_key
from kapi.resources.shared.quantities import compare, is_whole, rounded_to_milli

_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_INTEGER = frozenset(
    {
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
_QUOTA = (
    _CONTAINER
    | _INTEGER
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER}
    | {"requests.storage"}
)
_STANDARD = _QUOTA | {"storage"}


def is_huge_page(name: str) -> bool:
    return name.startswith("hugepages-")


def _is_quota_huge_page(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-"))


def is_standard_quota_resource(name: str) -> bool:
    return name in _QUOTA or _is_quota_huge_page(name)


def is_native(name: str) -> bool:
    """A resource of Kubernetes itself: without a domain, or of kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """An extended resource, with a domain of its own: whole numbers only."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not is_label_key("requests." + name)


def is_overcommit_allowed(name: str) -> bool:
    return is_native(name) and not is_huge_page(name)


def check_resource_name(name: str, path: Path) -> list[FieldError]:
    problems = is_label_key(name)
    if problems:
        return [invalid(path, name, problem) for problem in problems]
    if "/" not in name and name not in _STANDARD and not _is_quota_huge_page(name):
        return [invalid(path, name, "must be a standard resource type or fully qualified")]
    return []


def check_container_resource_name(name: str, path: Path) -> list[FieldError]:
    errors = check_resource_name(name, path)
    if "/" not in name:
        if name not in _CONTAINER and not is_huge_page(name):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def check_quota_resource_name(name: str, path: Path) -> list[FieldError]:
    errors = check_resource_name(name, path)
    if "/" not in name and not is_standard_quota_resource(name):
        errors.append(invalid(path, name, "must be a standard resource for quota"))
    return errors


def check_resource_quantity(name: str, value: str, path: Path) -> list[FieldError]:
    """Not negative, and whole where the resource is counted."""
    errors: list[FieldError] = []
    if compare(value, "0") < 0:
        errors.append(invalid(path, value, "must be greater than or equal to 0"))
    if (name in _INTEGER or is_extended(name)) and not is_whole(value):
        errors.append(invalid(path, value, "must be an integer"))
    return errors


def round_resource_list(amounts: Object | None) -> None:
    """Rounds amounts up to a thousandth, as decoding does."""
    for name, value in steps((amounts or {}).items()):
        if amounts is not None and isinstance(value, str):
            amounts[name] = rounded_to_milli(value)
