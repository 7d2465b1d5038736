"""StorageVersion (internal.apiserver.k8s.io/v1alpha1): the versions in which servers store a resource (KEP-2339).

Upstream: ``pkg/apis/apiserverinternal/validation``, ``pkg/registry/apiserverinternal/storageversion``.
"""

from __future__ import annotations

from typing import ClassVar

from kapi.machinery.each import each_of, elements
from kapi.machinery.field import Path, invalid
from kapi.machinery.names import regex_text
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.names import is_dns1035_label, is_dns1123_subdomain, is_label_key, subdomain_name
from kapi.resources.shared.rules import Errors, need, report, report_once
from kapi.resources.shared.strategies import PlainStrategy, StatusOnlyStrategy, UpdateRules

_STATUS = Path("status")
_EMPTY = "must be non-empty"
_LABEL_TEXT = (
    "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character"
)
_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"


def _group_and_resource(name: str, prefix: bool) -> tuple[str, ...]:
    group, dot, resource = name.rpartition(".")
    if not dot:
        return ("name must be in the form of <group>.<resource>",)
    return (
        *(f"the group segment {text}" for text in is_dns1123_subdomain(group)),
        *(f"the resource segment {text}" for text in is_dns1035_label(resource)),
    )


def _api_version_texts(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        form = regex_text(_LABEL_TEXT, _LABEL, "my-name", "abc-123")
        return [f"an apiVersion is {form} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')"]
    found = []
    if len(parts) == 2:
        found += [f"group part: {one}" for one in (is_dns1123_subdomain(parts[0]) if parts[0] else (_EMPTY,))]
    found += [f"version part: {one}" for one in (is_dns1035_label(parts[-1]) if parts[-1] else (_EMPTY,))]
    return found


def _check_status(obj: Object, errors: Errors) -> None:
    status = obj.get("status") or {}
    servers = status.get("storageVersions") or []
    for server, place in each_of(_STATUS.child("storageVersions"), servers):
        _check_server(server, place, errors)
    versions = {server.get("encodingVersion", "") for server in servers}
    common = next(iter(versions)) if len(versions) == 1 else None
    given, here = status.get("commonEncodingVersion"), _STATUS.child("commonEncodingVersion")
    if common is None and given is not None:
        text = (
            "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the "
            "supported versions yet"
        )
        errors.append(invalid(here, given, text))
    elif common is not None and given is None:
        errors.append(invalid(here, None, f"the common encoding version is {common}"))
    elif common != given:
        errors.append(invalid(here, given, f"the actual common encoding version is {common}"))
    _check_conditions(status.get("conditions") or [], errors)


def _check_server(server: Object, path: Path, errors: Errors) -> None:
    name, encoding = server.get("apiServerID", ""), server.get("encodingVersion", "")
    decodable = server.get("decodableVersions") or []
    report(subdomain_name(name), name, path, errors, "apiServerID")
    report_once(_api_version_texts(encoding), encoding, path, errors, "encodingVersion")
    for version, here in each_of(path.child("decodableVersions"), decodable):
        report_once(_api_version_texts(version), version, here, errors)
    if encoding not in decodable:
        text = f"decodableVersions must include encodingVersion {encoding}"
        errors.append(invalid(path.child("decodableVersions"), decodable, text))


def _check_conditions(conditions: list[Object], errors: Errors) -> None:
    """Checks conditions.  Upstream's paths lack the name of the list, and its error about a status shows the type."""
    seen: dict[str, int] = {}
    for i, condition in enumerate(elements(conditions)):
        here, kind = _STATUS.index(i), condition.get("type", "")
        if kind in seen:
            text = f"the type of the condition is not unique, it also appears in conditions[{seen[kind]}]"
            errors.append(invalid(here.child("type"), kind, text))
        seen[kind] = i
        report(is_label_key(kind), kind, here, errors, "type")
        report(is_label_key(condition.get("status", "")), kind, here, errors, "status")
        for name in ("reason", "message"):
            need(condition.get(name), here, errors, name, detail=f"{name} cannot be empty")


class StorageVersionStrategy(PlainStrategy):
    namespaced = False
    name_rule = staticmethod(_group_and_resource)
    empty_status: ClassVar[Object | None] = {}
    reset_fields = ("status",)
    allow_unconditional_update = False
    update_rules = (UpdateRules.TYPE,)


class StorageVersionStatusStrategy(StatusOnlyStrategy):
    validates_metadata = False

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        _check_status(obj, errors)


def _common(obj: Object, now: float) -> str:
    return (obj.get("status") or {}).get("commonEncodingVersion") or printing.UNSET


def _servers(obj: Object, now: float) -> str:
    """The first three servers, and the number of further ones."""
    servers = (obj.get("status") or {}).get("storageVersions") or []
    shown = [f"{one.get('apiServerID', '')}={one.get('encodingVersion', '')}" for one in servers[:3]]
    more = f" + {len(servers) - 3} more..." if len(servers) > 3 else ""
    return ",".join(shown) + more


STORAGE_VERSION = Resource(
    *type_meta("internal.apiserver.k8s.io/v1alpha1", "StorageVersion"),
    strategy=StorageVersionStrategy(),
    status=StorageVersionStatusStrategy,
    table=printing.table(
        printing.NAME,
        printing.column("CommonEncodingVersion", _common, ".status.commonEncodingVersion"),
        printing.column("StorageVersions", _servers, ".status.storageVersions"),
        printing.AGE,
        of="api.apiserverinternal.v1alpha1.StorageVersion",
    ),
)
