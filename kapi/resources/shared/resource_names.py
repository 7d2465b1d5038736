"""Names and amounts of compute resources (upstream: ``pkg/apis/core/helper``, ``core/validation`` validateResourceName)."""

from __future__ import annotations

from kapi.machinery import quantities
from kapi.machinery.each import entries
from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.memo import memoized
from kapi.machinery.tree import Object
from kapi.resources.shared.names import is_qualified_name
from kapi.resources.shared.rules import Errors

HUGE_PAGES = "hugepages-"
_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_OBJECT_COUNTS = frozenset(
    {
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
_QUOTA = (
    _CONTAINER
    | _OBJECT_COUNTS
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER}
    | {"requests.storage"}
)
_STANDARD = _QUOTA | {"storage"}


def is_huge_page(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def _is_quota_huge_page(name: str) -> bool:
    return name.startswith((HUGE_PAGES, "requests.hugepages-"))


def is_standard_quota_resource(name: str) -> bool:
    return name in _QUOTA or _is_quota_huge_page(name)


def is_native(name: str) -> bool:
    """Whether the resource is Kubernetes' own: its name has no domain, or the domain kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


@memoized(1024)
def is_extended(name: str) -> bool:
    """Whether the resource is an extended one: its name has another domain."""
    return not is_native(name) and not name.startswith("requests.") and not is_qualified_name("requests." + name)


def is_integer_resource(name: str) -> bool:
    return name in _OBJECT_COUNTS or is_extended(name)


def is_overcommit_allowed(name: str) -> bool:
    return is_native(name) and not is_huge_page(name)


@memoized(1024)
def resource_name_texts(name: str) -> tuple[str, ...]:
    """The errors of the name of a resource."""
    texts = is_qualified_name(name)
    if texts:
        return texts
    if "/" not in name and name not in _STANDARD and not _is_quota_huge_page(name):
        return ("must be a standard resource type or fully qualified",)
    return ()


@memoized(1024)
def container_resource_name_texts(name: str) -> tuple[str, ...]:
    """The errors of the name of a container's resource."""
    texts = resource_name_texts(name)
    if "/" not in name:
        if name not in _CONTAINER and not is_huge_page(name):
            return (*texts, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        return (*texts, "doesn't follow extended resource name standard")
    return texts


def check_resource_name(name: str, path: Path) -> list[FieldError]:
    return [invalid(path, name, text) for text in resource_name_texts(name)]


def check_container_resource_name(name: str, path: Path) -> list[FieldError]:
    return [invalid(path, name, text) for text in container_resource_name_texts(name)]


def validate_quantity(name: str, quantity: str, path: Path, errors: Errors) -> None:
    """Checks that the amount is not negative, and an integer for a counted resource (upstream: ValidateResourceQuantityValue)."""
    if quantities.sign(quantity) < 0:
        errors.append(invalid(path, quantity, "must be greater than or equal to 0"))
    if is_integer_resource(name) and not quantities.is_whole(quantity):
        errors.append(invalid(path, quantity, "must be an integer"))


def check_quota_resource_name(name: str, path: Path) -> list[FieldError]:
    errors = check_resource_name(name, path)
    if "/" not in name and not is_standard_quota_resource(name):
        errors.append(invalid(path, name, "must be a standard resource for quota"))
    return errors


def check_resource_quantity(name: str, value: str, path: Path) -> list[FieldError]:
    """The errors of ``validate_quantity``."""
    errors: list[FieldError] = []
    validate_quantity(name, value, path, errors)
    return errors


def round_resource_list(amounts: Object | None) -> None:
    """Rounds amounts up to a thousandth, as upstream's decoding does."""
    if not amounts:
        return
    for name, quantity in entries(amounts):
        rounded = quantities.rounded_to_milli(quantity)
        if rounded is not quantity:
            amounts[name] = rounded
