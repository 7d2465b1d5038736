"""ResourcePoolStatusRequest (resource.k8s.io/v1alpha3): a single request for the numbers of devices of pools (KEP-5677).

Upstream: ``pkg/apis/resource/validation``, ``pkg/registry/resource/resourcepoolstatusrequest``, the rules in
``staging/src/k8s.io/api/resource/v1alpha3/types.go``.  The kube-controller-manager sets the status."""

from __future__ import annotations

from collections.abc import Callable

from kapi.machinery.ages import since
from kapi.machinery.each import elements
from kapi.machinery.field import NIL, Path, duplicate, invalid, too_many
from kapi.machinery.names import SUBDOMAIN, regex_text
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_conditions, validate_immutable
from kapi.resources.shared.names import is_dns1123_subdomain
from kapi.resources.shared.rules import Errors, fits, need, present, report, same
from kapi.resources.shared.strategies import PlainStrategy, StatusOnlyStrategy

_SPEC, _STATUS = Path("spec"), Path("status")
_LIMIT, _MAX_LIMIT = 100, 1000
_MAX_POOLS, _MAX_CONDITIONS, _MAX_ERROR_BYTES, _MAX_NAME = 1000, 10, 256, 253
_CASELESS = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character"
)
_COUNTS = ("totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices")


class ResourcePoolStatusRequestStrategy(PlainStrategy):
    namespaced = False
    reset_fields = ("status",)
    allow_unconditional_update = False

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("limit", _LIMIT)

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        obj.pop("status", None)
        if old is not None and "status" in old:
            obj["status"] = old["status"]

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        _check_name(spec, "driver", _check_driver, _SPEC, errors)
        if spec.get("poolName") is not None:
            _check_pool_name(spec["poolName"], _SPEC.child("poolName"), errors)
        _check_least(spec, "limit", 1, _SPEC, errors)
        if spec["limit"] > _MAX_LIMIT:
            errors.append(invalid(_SPEC.child("limit"), spec["limit"], f"must be less than or equal to {_MAX_LIMIT}"))

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        if not same(obj.get("spec"), old.get("spec")):
            errors.append(invalid(_SPEC, NIL, "field is immutable"))


class ResourcePoolStatusRequestStatusStrategy(StatusOnlyStrategy):
    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        """Checks that the status is set only once."""
        status, before = obj.get("status"), old.get("status")
        if before is not None:
            validate_immutable(status, before, _STATUS, errors)
        elif status is not None:
            conditions, here = status.get("conditions") or [], _STATUS.child("conditions")
            validate_conditions(conditions, here, errors)
            _check_count(status, errors)
            _check_pools(status.get("pools") or [], _STATUS.child("pools"), errors)
            if len(conditions) > _MAX_CONDITIONS:
                errors.append(too_many(here, len(conditions), _MAX_CONDITIONS))
            else:
                _check_types(conditions, here, errors)


def _check_name(obj: Object, field: str, rule: Callable[[str, Path, Errors], None], path: Path, errors: Errors) -> None:
    if need(obj.get(field), path, errors, field):
        rule(obj[field], path.child(field), errors)


def _check_driver(name: str, path: Path, errors: Errors) -> None:
    """A subdomain, which may have upper-case letters."""
    texts = is_dns1123_subdomain(name.lower())
    errors += [invalid(path, name, _caseless(text)) for text in texts]


def _caseless(text: str) -> str:
    return regex_text(_CASELESS, SUBDOMAIN, "Example.com") if "regex" in text else text


def _check_pool_name(name: str, path: Path, errors: Errors) -> None:
    fits(len(name.encode()), _MAX_NAME, path, errors)
    for i, part in enumerate(elements(name.split("/"))):
        if not part:
            errors.append(invalid(path, name, f"segment {i}: must not be empty"))
        errors += [invalid(path, part, f"segment {i}: {text}") for text in (is_dns1123_subdomain(part) if part else ())]


def _check_least(obj: Object, field: str, least: int, path: Path, errors: Errors) -> None:
    if obj.get(field) is not None and obj[field] < least:
        errors.append(invalid(path.child(field), obj[field], f"must be greater than or equal to {least}"))


def _check_count(status: Object, errors: Errors) -> None:
    present(status.get("poolCount"), _STATUS, errors, "poolCount")
    _check_least(status, "poolCount", 0, _STATUS, errors)


def _check_pools(pools: list[Object], path: Path, errors: Errors) -> None:
    if len(pools) > _MAX_POOLS:
        errors.append(too_many(path, len(pools), _MAX_POOLS))
        return
    for i, pool in enumerate(pools):
        here = path.index(i)
        _check_name(pool, "driver", _check_driver, here, errors)
        _check_name(pool, "poolName", _check_pool_name, here, errors)
        if need(pool.get("generation"), here, errors, "generation"):  # 0 counts as missing
            _check_least(pool, "generation", 0, here, errors)
        _check_least(pool, "resourceSliceCount", 1, here, errors)
        for field in _COUNTS:
            _check_least(pool, field, 0, here, errors)
        if pool.get("nodeName") is not None:
            report(is_dns1123_subdomain(pool["nodeName"]), pool["nodeName"], here, errors, "nodeName")
        fits(len((pool.get("validationError") or "").encode()), _MAX_ERROR_BYTES, here, errors, "validationError")


def _check_types(conditions: list[Object], path: Path, errors: Errors) -> None:
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        if condition.get("type", "") in seen:
            errors.append(duplicate(path.index(i), condition))
        seen.add(condition.get("type", ""))


def _ended(obj: Object) -> tuple[str, Object]:
    """The first of the conditions Complete and Failed that is true, with its type; "" without one."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return condition["type"], condition
    return "", {}


def _over_pools(number: Callable[[Object], int]) -> printing.Reader:
    def cell(obj: Object, now: float) -> Tree:
        if obj.get("status") is None or _ended(obj)[0] == "Failed":
            return "-"
        return str(sum(number(pool) for pool in obj["status"].get("pools") or ()))

    return cell


def _total(field: str) -> printing.Reader:
    return _over_pools(lambda pool: pool.get(field) or 0)


def _state(obj: Object, now: float) -> Tree:
    ended, status = _ended(obj)[0], obj.get("status") or {}
    count, listed = status.get("poolCount") or 0, len(status.get("pools") or ())
    if ended == "Complete" and count > listed:
        return f"Complete ({listed}/{count} pools)"
    return ended or "Pending"


def _completed(obj: Object, now: float) -> Tree:
    ended, condition = _ended(obj)
    return since(condition.get("lastTransitionTime"), now) if ended == "Complete" else printing.NONE


RESOURCE = Resource(
    *type_meta("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest"),
    returns_deleted=True,
    strategy=ResourcePoolStatusRequestStrategy(),
    status=ResourcePoolStatusRequestStatusStrategy,
    table=printing.table(
        printing.NAME,
        printing.column("Driver", printing.value("spec", "driver"), "The driver to query pools for."),
        printing.column("Total", _total("totalDevices"), "Total number of devices across all pools."),
        printing.column("Available", _total("availableDevices"), "Number of available devices across all pools."),
        printing.column("Allocated", _total("allocatedDevices"), "Number of allocated devices across all pools."),
        printing.column("Unavailable", _total("unavailableDevices"), "Number of unavailable devices across all pools."),
        printing.column(
            "Errors",
            _over_pools(lambda pool: int(pool.get("validationError") is not None)),
            "Number of pools with validation errors.",
        ),
        printing.column(
            "Pools", printing.value("status", "poolCount", empty=0), "Total number of matching pools.", "integer"
        ),
        printing.column("Status", _state, "Processing status."),
        printing.column("Completed", _completed, "Time since the observation completed."),
    ),
)
