"""APIService (apiregistration.k8s.io/v1): the server of a group version, and its place in discovery.

Upstream: kube-aggregator ``registry/apiservice``, ``apis/apiregistration/validation``.
"""

from __future__ import annotations

import base64
import binascii
from typing import ClassVar

from kapi.machinery.each import each_of
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.golang import quote
from kapi.machinery.names import path_segment
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_metadata
from kapi.resources.shared.names import is_dns1035_label, is_dns1123_subdomain
from kapi.resources.shared.rules import Errors, need, not_supported, report
from kapi.resources.shared.strategies import PlainStrategy, StatusOnlyStrategy, UpdateRules

#: the label of local APIServices with their manager; the server manages those with "onstart" and "true"
AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
_SPEC = Path("spec")
DEFAULT_PORT = 443


def local_available(now: str) -> Object:
    """The condition of an APIService without a service."""
    return condition("True", "Local", "Local APIServices are always available", now)


def condition(status: str, reason: str, message: str, now: str) -> Object:
    """An ``Available`` condition."""
    return {"type": "Available", "status": status, "lastTransitionTime": now, "reason": reason, "message": message}


def is_available(obj: Object) -> bool:
    """Whether the server of the group version is available."""
    found = available_condition(obj)
    return found is not None and found.get("status") == "True"


def available_condition(obj: Object) -> Object | None:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item.get("type") == "Available"), None)


def _bundle_size(text: str) -> int:
    try:
        return len(base64.b64decode(text))
    except (binascii.Error, ValueError):
        return 0


class APIServiceStrategy(PlainStrategy):
    namespaced = False
    qualified_finalizers = False
    update_rules = (UpdateRules.CHANGED_METADATA, UpdateRules.NEW_METADATA, UpdateRules.TYPE)
    empty_status: ClassVar[Object | None] = {}
    reset_fields = ("status",)
    allow_unconditional_update = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("groupPriorityMinimum", 0)
        spec.setdefault("versionPriority", 0)
        service = spec.get("service")
        if service is not None and service.get("port") is None:
            service["port"] = DEFAULT_PORT
        obj.setdefault("status", {})

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        if old is None and obj["spec"].get("service") is None:
            obj["status"] = {"conditions": [local_available(ctx.now)]}

    def _new_metadata(self, obj: Object, errors: Errors) -> None:
        """The rules for a new object's metadata: the name must consist of version and group."""
        wanted = f"{obj['spec'].get('version', '')}.{obj['spec'].get('group', '')}"

        def rule(name: str, prefix: bool) -> tuple[str, ...]:
            texts = path_segment(name)
            if texts or name == wanted:
                return texts
            return (f'must be `spec.version+"."+spec.group`: {quote(wanted)}',)

        validate_metadata(obj, errors, namespaced=False, name=rule, qualified_finalizers=False)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj["spec"]
        group, version = spec.get("group", ""), spec.get("version", "")
        if not group and version != "v1":
            errors.append(
                required(_SPEC.child("group"), "only v1 may have an empty group and it better be legacy kube")
            )
        elif group:
            report(is_dns1123_subdomain(group), group, _SPEC, errors, "group")
        report(is_dns1035_label(version), version, _SPEC, errors, "version")
        for field, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
            value = spec.get(field, 0)
            if not 0 < value <= limit:
                errors.append(invalid(_SPEC.child(field), value, f"must be positive and less than {limit}"))
        self._check_service(spec, errors)

    @staticmethod
    def _check_service(spec: Object, errors: Errors) -> None:
        service, bundle = spec.get("service"), spec.get("caBundle")
        insecure = spec.get("insecureSkipTLSVerify", False)
        if service is None:
            if bundle:
                shown = f"{_bundle_size(bundle)} bytes"
                errors.append(invalid(_SPEC.child("caBundle"), shown, "local APIServices may not have a caBundle"))
            if insecure:
                text = "local APIServices may not have insecureSkipTLSVerify"
                errors.append(invalid(_SPEC.child("insecureSkipTLSVerify"), True, text))
            return
        path = _SPEC.child("service")
        for field in ("namespace", "name"):
            need(service.get(field), path, errors, field)
        port = service.get("port", DEFAULT_PORT)
        if not 0 < port < 1 << 16:
            errors.append(
                invalid(path.child("port"), port, "port is not valid: must be between 1 and 65535, inclusive")
            )
        if insecure and bundle:
            errors.append(invalid(_SPEC.child("insecureSkipTLSVerify"), True, "may not be true if caBundle is present"))


class APIServiceStatusStrategy(StatusOnlyStrategy):
    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        path = Path("status").child("conditions")
        for item, here in each_of(path, (obj.get("status") or {}).get("conditions")):
            if item.get("status") not in ("True", "False", "Unknown"):
                where = here.child("status")
                errors.append(not_supported(where, item.get("status", ""), ("True", "False", "Unknown")))


def _service(obj: Object, now: float) -> str:
    service = obj["spec"].get("service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available(obj: Object, now: float) -> str:
    found = available_condition(obj)
    if found is None:
        return "Unknown"
    status = str(found.get("status", ""))
    return status if status == "True" else f"{status} ({found.get('reason', '')})"


_TABLE = printing.table(
    printing.NAME,
    printing.column("Service", _service, "The reference to the service that hosts this API endpoint."),
    printing.column("Available", _available, "Whether this service is available."),
    printing.AGE,
)
API_SERVICE = Resource(
    *type_meta("apiregistration.k8s.io/v1", "APIService"),
    categories=("api-extensions",),
    strategy=APIServiceStrategy(),
    status=APIServiceStatusStrategy,
    table=_TABLE,
)
