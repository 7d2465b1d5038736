"""Ingress (networking.k8s.io/v1).

Upstream: ``pkg/apis/networking/validation``, ``pkg/registry/networking/ingress``."""

from __future__ import annotations

from typing import ClassVar

from kapi.machinery.each import each, each_of, elements
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.addresses import check_ip_legacy, ip_warnings, parse
from kapi.resources.shared.features import gate
from kapi.resources.shared.names import (
    is_dns1123_subdomain,
    is_path_segment_name,
    is_port_name,
    is_port_number,
    is_wildcard_dns1123_subdomain,
    label_name,
    service_name,
    subdomain_name,
)
from kapi.resources.shared.rules import Errors, Rule, at, check, need, not_supported, struct
from kapi.resources.shared.rules import required as require
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy, UpdateRules

_SPEC = Path("spec")
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_SUFFIXES = ("/..", "/.")
_NOT_AN_IP = "must be a DNS name, not an IP address"
_MAX_SHOWN = 3  # hosts in a table cell

#: a reference to an object of any kind in the same namespace
REFERENCE = struct(
    at("apiGroup", check(is_dns1123_subdomain)),
    require("kind", then=check(is_path_segment_name)),
    require("name", then=check(is_path_segment_name)),
)


#: the rules for the name of a Service: today's, and the rule before 1.36
_SERVICE = require("name", then=check(label_name))
_STRICT_SERVICE = require("name", then=check(service_name))


def _host(host: str, path: Path, errors: Errors) -> None:
    check(is_wildcard_dns1123_subdomain if "*" in host else is_dns1123_subdomain)(host, path, errors, None)


def _backend(backend: Object, path: Path, name_rule: Rule, errors: Errors) -> None:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        errors.append(invalid(path, "", "cannot set both resource and service backends"))
    elif resource is not None:
        REFERENCE(resource, path.child("resource"), errors, None)
    elif service is not None:
        _service_backend(service, path, name_rule, errors)
    else:
        errors.append(invalid(path, "", "resource or service backend is required"))


def _service_backend(service: Object, path: Path, name_rule: Rule, errors: Errors) -> None:
    name_rule(service, path.child("service"), errors, None)
    port = service.get("port") or {}
    name, number = port.get("name") or "", port.get("number") or 0
    if name and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif name:
        check(is_port_name)(name, path.child("service", "port", "name"), errors, None)
    elif number:
        check(is_port_number)(number, path.child("service", "port", "number"), errors, None)
    else:
        errors.append(required(path, "port name or number is required"))


def _http_path(item: Object, path: Path, name_rule: Rule, errors: Errors) -> None:
    kind, text = item.get("pathType"), item.get("path") or ""
    if kind is None:
        errors.append(required(path.child("pathType"), "pathType must be specified"))
        return
    here = path.child("path")
    if kind in ("Exact", "Prefix"):
        if not text.startswith("/"):
            errors.append(invalid(here, text, "must be an absolute path"))
        errors += [invalid(here, text, f"must not contain '{bad}'") for bad in _BAD_SEQUENCES if bad in text]
        errors += [invalid(here, text, f"cannot end with '{bad}'") for bad in _BAD_SUFFIXES if text.endswith(bad)]
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            errors.append(invalid(here, text, "must be an absolute path"))
    else:
        errors.append(not_supported(path.child("pathType"), kind, _PATH_TYPES))
    _backend(item.get("backend") or {}, path.child("backend"), name_rule, errors)


def _rule_value(rule: Object, path: Path, name_rule: Rule, errors: Errors) -> None:
    http = rule.get("http")
    if http is None:
        return
    paths = path.child("http", "paths")
    need(http.get("paths"), paths, errors)
    for item, here in each_of(paths, http.get("paths")):
        _http_path(item, here, name_rule, errors)


def _rules(rules: list[Object], path: Path, lax_wildcards: bool, name_rule: Rule, errors: Errors) -> None:
    for i, rule in enumerate(rules):
        host = rule.get("host") or ""
        if host:
            if parse(host) is not None:
                errors.append(invalid(path.index(i).child("host"), host, _NOT_AN_IP))
            _host(host, path.index(i).child("host"), errors)
        if "*" not in host or not lax_wildcards:
            _rule_value(rule, path.index(i), name_rule, errors)


def _tls(entries: list[Object], path: Path, lax_secrets: bool, errors: Errors) -> None:
    for i, entry in enumerate(entries):
        for host, here in each(path.index(i).child("hosts"), entry):
            _host(host, here, errors)
        secret = entry.get("secretName") or ""
        if secret and not lax_secrets:
            check(subdomain_name)(secret, path.index(i).child("secretName"), errors, None)


def _had_bad_secret(old: Object | None) -> bool:
    entries = ((old or {}).get("spec") or {}).get("tls") or []
    return any(entry.get("secretName") and subdomain_name(entry["secretName"]) for entry in elements(entries))


def _had_bad_wildcard_rule(old: Object | None) -> bool:
    for rule in elements(old, "spec", "rules"):
        found: Errors = []
        _rule_value(rule, Path(), _SERVICE, found)
        if found and "*" in (rule.get("host") or ""):
            return True
    return False


def _had_relaxed_name(old: Object | None) -> bool:
    """Whether the stored object has a Service name that only the relaxed rule allows."""
    spec = (old or {}).get("spec") or {}
    backends = [spec.get("defaultBackend")]
    for rule in elements(spec, "rules"):
        backends += [item.get("backend") for item in elements(rule, "http", "paths")]
    names = [((backend or {}).get("service") or {}).get("name") for backend in elements(backends)]
    return any(name and service_name(name) for name in elements(names))


class IngressStrategy(PlainStrategy):
    generation_parts = ("spec",)
    empty_status: ClassVar[Object | None] = {"loadBalancer": {}}
    reset_fields = ("status",)
    update_rules = (UpdateRules.CHANGED_METADATA, UpdateRules.NEW_METADATA, UpdateRules.TYPE)

    def default(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        if spec.get("rules") == [] and spec.get("defaultBackend") is not None:
            del spec["rules"]  # decoding keeps an empty list for the message of ``check``

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        relaxed = gate(ctx, "RelaxedServiceNameValidation") or _had_relaxed_name(old)
        name_rule = _SERVICE if relaxed else _STRICT_SERVICE
        rules, default = spec.get("rules") or [], spec.get("defaultBackend")
        if not rules and default is None:
            errors.append(invalid(_SPEC, spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
        if default is not None:
            _backend(default, _SPEC.child("defaultBackend"), name_rule, errors)
        _rules(rules, _SPEC.child("rules"), _had_bad_wildcard_rule(old), name_rule, errors)
        _tls(spec.get("tls") or [], _SPEC.child("tls"), _had_bad_secret(old), errors)
        at("ingressClassName", check(subdomain_name))(spec, _SPEC, errors, None)
        if old is None:
            annotation = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
            name = spec.get("ingressClassName")
            if annotation is not None and name is not None and annotation != name:
                path = Path("annotations").child(_CLASS_ANNOTATION)
                errors.append(invalid(path, annotation, "must match `ingressClassName` when both are specified"))

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        annotations = obj["metadata"].get("annotations") or {}
        if _CLASS_ANNOTATION in annotations and (obj.get("spec") or {}).get("ingressClassName") is None:
            return [f"annotation \"{_CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]
        return []


class IngressStatusStrategy(PlainStatusStrategy):
    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        accepted = {ingress["ip"] for ingress in _ingresses(old) if ingress.get("ip")}
        for i, ingress in enumerate(_ingresses(obj)):
            path = Path("status").child("loadBalancer", "ingress").index(i)
            ip, host = ingress.get("ip") or "", ingress.get("hostname") or ""
            if ip:
                errors += check_ip_legacy(path.child("ip"), ip, ctx, accepted)
            if host:
                check(is_dns1123_subdomain)(host, path.child("hostname"), errors, None)
                if parse(host) is not None:
                    errors.append(invalid(path.child("hostname"), host, _NOT_AN_IP))

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        warnings: list[str] = []
        for i, ingress in enumerate(_ingresses(obj)):
            path = Path("status").child("loadBalancer", "ingress").index(i)
            warnings += ip_warnings(path, ingress["ip"]) if ingress.get("ip") else []
        return warnings


def _ingresses(obj: Object) -> list[Object]:
    return ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []


def _hosts(obj: Object, now: float) -> str:
    rules = (obj.get("spec") or {}).get("rules") or []
    hosts: list[str] = []
    for rule in rules:
        if len(hosts) == _MAX_SHOWN:
            return f"{','.join(hosts)} + {len(rules) - _MAX_SHOWN} more..."
        if rule.get("host"):
            hosts.append(rule["host"])
    return ",".join(hosts) or "*"


def _address(obj: Object, now: float) -> str:
    return ",".join(sorted({entry.get("ip") or entry.get("hostname") or "" for entry in _ingresses(obj)} - {""}))


RESOURCE = Resource(
    *type_meta("networking.k8s.io/v1", "Ingress"),
    short_names=("ing",),
    strategy=IngressStrategy(),
    status=IngressStatusStrategy,
    table=printing.table(
        printing.NAME,
        printing.column(
            "Class",
            printing.value("spec", "ingressClassName", empty=printing.NONE),
            "The name of the IngressClass resource that should be used for additional configuration",
        ),
        printing.column("Hosts", _hosts, "Hosts that incoming requests are matched against before the ingress rule"),
        printing.column("Address", _address, "Address is a list containing ingress points for the load-balancer"),
        printing.column(
            "Ports",
            lambda obj, now: "80, 443" if (obj.get("spec") or {}).get("tls") else "80",
            "Ports of TLS configurations that open",
        ),
        printing.AGE,
    ),
)
