"""FlowSchema (flowcontrol.apiserver.k8s.io/v1).

Upstream: ``pkg/apis/flowcontrol/validation``, ``pkg/registry/flowcontrol/flowschema``."""

from __future__ import annotations

from typing import ClassVar

from kapi.machinery.each import each, elements
from kapi.machinery.field import Path, forbidden, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.definition import FieldText, Resource, StrategyContext, type_meta
from kapi.resources.flowcontrol.bootstrap import FLOW_SCHEMAS
from kapi.resources.shared import printing
from kapi.resources.shared.internal import internal
from kapi.resources.shared.names import label_name, subdomain_name
from kapi.resources.shared.rules import Errors, check, distinct, need, not_supported
from kapi.resources.shared.rules import required as require
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy, UpdateRules, keep

_SPEC, _STATUS = Path("spec"), Path("status")
_MAX_PRECEDENCE = 10000
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_DISTINGUISHERS = ("ByNamespace", "ByUser")
#: kind of subject -> the field that describes it
_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
#: the order in which upstream checks fields of other kinds
_OTHERS = {
    "ServiceAccount": ("User", "Group"),
    "User": ("ServiceAccount", "Group"),
    "Group": ("ServiceAccount", "User"),
}


def _subject(subject: Object, path: Path, errors: Errors) -> None:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        errors.append(not_supported(path.child("kind"), kind, sorted(_SUBJECTS)))
        return
    part = _SUBJECTS[kind]
    described, here = subject.get(part), path.child(part)
    if described is None:
        errors.append(required(here, f"{part} is required when subject kind is '{kind}'"))
    elif kind == "ServiceAccount":
        name, namespace = described.get("name") or "", described.get("namespace") or ""
        if need(name, here, errors, "name") and name != "*":
            check(subdomain_name)(name, here.child("name"), errors, None)
        if namespace:
            check(label_name)(namespace, here.child("namespace"), errors, None)
        else:
            errors.append(required(here.child("namespace"), "must specify namespace for service account"))
    else:
        require("name")(described, here, errors, None)
    for other in _OTHERS[kind]:
        name = _SUBJECTS[other]
        if subject.get(name) is not None:
            errors.append(forbidden(path.child(name), f"{name} is forbidden when subject kind is not '{other}'"))


def _are_named(values: list[str], path: Path, errors: Errors, kind: str, missing: str) -> bool:
    """Whether there are values without a star, which has to be alone.  ``missing``: the error when there are none, if any."""
    if "*" in values and len(values) > 1:
        errors.append(invalid(path, values, f"if '*' is present, must not specify other {kind}"))
    elif not values and missing:
        errors.append(required(path, missing))
    return bool(values) and "*" not in values


def _verbs(rule: Object, path: Path, errors: Errors) -> None:
    verbs, here = rule.get("verbs") or [], path.child("verbs")
    named = _are_named(verbs, here, errors, "verbs", "verbs must contain at least one value")
    if named and not set(verbs) <= set(_VERBS):
        errors.append(not_supported(here, verbs, _VERBS))


def _resource_rule(rule: Object, path: Path, errors: Errors) -> None:
    _verbs(rule, path, errors)
    for name, one, many in (("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")):
        text = f"resource rules must supply at least one {one}"
        _are_named(rule.get(name) or [], path.child(name), errors, many, text)
    namespaces, here = rule.get("namespaces") or [], path.child("namespaces")
    text = "resource rules that are not cluster scoped must supply at least one namespace"
    if _are_named(namespaces, here, errors, "namespaces", "" if rule.get("clusterScope") else text):
        intro = "each member of this list must be '*' or a DNS-1123 label; "
        for i, namespace in enumerate(namespaces):
            errors += [invalid(here.index(i), namespace, intro + problem) for problem in label_name(namespace)]


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count("*")
    if stars > 1 or (stars == 1 and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


def _url_rule(rule: Object, path: Path, errors: Errors) -> None:
    _verbs(rule, path, errors)
    urls, here = rule.get("nonResourceURLs") or [], path.child("nonResourceURLs")
    if _are_named(urls, here, errors, "non-resource URLs", "nonResourceURLs must contain at least one value"):
        for i, url in enumerate(urls):
            problem = _url_problem(url)
            if problem:
                errors.append(invalid(here.index(i), url, problem))


def _rule(rule: Object, path: Path, errors: Errors) -> None:
    subjects, resources, urls = (rule.get(name) or [] for name in ("subjects", "resourceRules", "nonResourceRules"))
    for i, subject in enumerate(subjects):
        _subject(subject, path.child("subjects").index(i), errors)
    need(subjects, path, errors, "subjects", detail="subjects must contain at least one value")
    if not resources and not urls:
        errors.append(required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
    for i, resource_rule in enumerate(resources):
        _resource_rule(resource_rule, path.child("resourceRules").index(i), errors)
    for i, url_rule in enumerate(urls):
        _url_rule(url_rule, path.child("nonResourceRules").index(i), errors)


def validate_flow_conditions(obj: Object, errors: Errors) -> None:
    """Conditions of a FlowSchema or PriorityLevelConfiguration must have different types."""
    seen: set[str] = set()
    for i, condition in enumerate(elements(obj, "status", "conditions")):
        kind, path = condition.get("type") or "", _STATUS.child("conditions").index(i).child("type")
        distinct(kind, seen, path, errors)
        need(kind, path, errors)


class FlowSchemaStrategy(PlainStrategy):
    namespaced = False
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE)
    generation_parts = ("spec",)
    empty_status: ClassVar[Object | None] = {}
    reset_fields = ("status",)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000
        spec.setdefault("priorityLevelConfiguration", {}).setdefault("name", "")

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
        precedence, path = spec.get("matchingPrecedence", 0), _SPEC.child("matchingPrecedence")
        if precedence <= 0:
            errors.append(invalid(path, precedence, "must be a positive value"))
        if precedence > _MAX_PRECEDENCE:
            errors.append(invalid(path, precedence, f"must not be greater than {_MAX_PRECEDENCE}"))
        if precedence == 1 and name != "exempt":
            errors.append(invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
        method = spec.get("distinguisherMethod")
        if method is not None and method.get("type", "") not in _DISTINGUISHERS:
            path = _SPEC.child("distinguisherMethod", "type")
            errors.append(not_supported(path, {"Type": method.get("type", "")}, _DISTINGUISHERS))
        level, path = (
            (spec.get("priorityLevelConfiguration") or {}).get("name") or "",
            _SPEC.child("priorityLevelConfiguration", "name"),
        )
        if level:
            check(subdomain_name)(level, path, errors, None)
        else:
            errors.append(required(path, "must reference a priority level"))
        for rule, here in each(_SPEC.child("rules"), spec):
            _rule(rule, here, errors)
        fixed = FLOW_SCHEMAS.get(name)
        if fixed is not None and spec != fixed:
            errors.append(
                invalid(_SPEC, internal("FlowSchemaSpec", spec), f"spec of '{name}' must equal the fixed value")
            )
        validate_flow_conditions(obj, errors)


class FlowStatusStrategy(PlainStatusStrategy):
    """The status of flow schemas and priority levels: metadata other than managedFields may not change."""

    reset_fields = ("metadata", "spec")
    validates_metadata = False

    def prepare(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        managed = obj["metadata"].get("managedFields")
        keep(obj, old, "metadata")
        if managed is not None:
            obj["metadata"]["managedFields"] = managed

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        validate_flow_conditions(obj, errors)


def _precedence(obj: Object, now: float) -> int:
    return int((obj.get("spec") or {}).get("matchingPrecedence") or 0)


def _method(obj: Object, now: float) -> str:
    method = (obj.get("spec") or {}).get("distinguisherMethod")
    return printing.NONE if method is None else method.get("type", "")


def _dangling(obj: Object, now: float) -> str:
    for condition in elements(obj, "status", "conditions"):
        if condition.get("type") == "Dangling":
            return str(condition.get("status", ""))
    return "?"


RESOURCE = Resource(
    *type_meta("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"),
    strategy=FlowSchemaStrategy(),
    status=FlowStatusStrategy,
    table=printing.table(
        printing.NAME,
        printing.column(
            "PriorityLevel",
            printing.value("spec", "priorityLevelConfiguration", "name"),
            FieldText("api.flowcontrol.v1.PriorityLevelConfigurationReference", "name"),
        ),
        printing.column("MatchingPrecedence", _precedence, ".spec.matchingPrecedence"),
        printing.column("DistinguisherMethod", _method, ".spec.distinguisherMethod"),
        printing.AGE,
        printing.column("MissingPL", _dangling, "references a broken or non-existent PriorityLevelConfiguration"),
        order=lambda obj: (_precedence(obj, 0), obj["metadata"].get("name", "")),
        of="api.flowcontrol.v1.FlowSchema",
    ),
)
