"""Webhook configurations, validating and mutating: defaults and validation.

Upstream: ``pkg/apis/admissionregistration/validation``.
"""

from __future__ import annotations

from kapi.machinery.each import each, elements
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.tree import Object
from kapi.machinery.urls import parse_url
from kapi.resources.admissionregistration.rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    default_rules,
    selectors_have_invalid_values,
    validate_conditions,
    validate_rule,
    validate_selectors,
)
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.names import is_dns1035_label, is_dns1123_subdomain, is_port_number
from kapi.resources.shared.rules import Errors, distinct, need, not_supported, report_once
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules

REVIEW_VERSIONS = ("v1", "v1beta1")
_KNOWN_VERSIONS = ", ".join(REVIEW_VERSIONS)
_NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_URL_FORM = "; desired format: https://host[/path]"
#: the suffix of names of configurations in manifest files of the server
STATIC_SUFFIX = ".static.k8s.io"
_RESERVED = (
    f'names ending with "{STATIC_SUFFIX}" are reserved for static manifest-based configurations '
    "and cannot be managed via the API"
)
_MANIFESTS = "ManifestBasedAdmissionControlConfig"
TABLE = printing.table(
    printing.NAME,
    printing.column(
        "Webhooks",
        lambda obj, now: len(obj.get("webhooks") or ()),
        "Webhooks indicates the number of webhooks registered in this configuration",
        "integer",
    ),
    printing.AGE,
)


class ConfigurationStrategy(PlainStrategy):
    """The strategy of objects that manifest files of the server may also contain; the API refuses names for such files."""

    namespaced = False
    allow_unconditional_update = False
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE)
    qualified_finalizers = False

    def validate(self, obj: Object, ctx: StrategyContext) -> Errors:
        errors = super().validate(obj, ctx)
        if ctx.features.get(_MANIFESTS) and _is_static(obj):
            errors.append(invalid(Path("metadata").child("name"), obj["metadata"]["name"], _RESERVED))
        return errors

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return [f"metadata.name: {_RESERVED}"] if _is_static(obj) else []


def _is_static(obj: Object) -> bool:
    return (obj["metadata"].get("name") or "").endswith(STATIC_SUFFIX)


class WebhookStrategy(ConfigurationStrategy):
    generation_parts = ("webhooks",)
    compares_empty = True

    def __init__(self, *, mutating: bool) -> None:
        self.mutating = mutating

    def default(self, obj: Object) -> None:
        for webhook in elements(obj, "webhooks"):
            defaults: Object = {
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "timeoutSeconds": 10,
            }
            if self.mutating:
                defaults["reinvocationPolicy"] = "Never"
            for field, value in defaults.items():
                webhook.setdefault(field, value)
            default_rules(webhook.get("rules"))
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None and service.get("port") is None:
                service["port"] = 443

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        webhooks = obj.get("webhooks") or []
        before = None if old is None else old.get("webhooks") or []
        allow_values = before is not None and selectors_have_invalid_values(before)
        no_effects = before is None or all(hook.get("sideEffects") in _NO_SIDE_EFFECTS for hook in before)
        known_versions = before is None or all(
            not hook.get("admissionReviewVersions") or set(hook["admissionReviewVersions"]) & set(REVIEW_VERSIONS)
            for hook in elements(before)
        )
        unique = before is None or len({hook.get("name") for hook in elements(before)}) == len(before)
        same_conditions = before is not None and [hook.get("matchConditions") for hook in elements(webhooks)] == [
            hook.get("matchConditions") for hook in before
        ]
        seen: set[str] = set()
        for i, webhook in enumerate(webhooks):
            path = Path("webhooks").index(i)
            self._webhook(webhook, path, errors, allow_values, no_effects, same_conditions)
            validate_review_versions(
                webhook.get("admissionReviewVersions") or [],
                path.child("admissionReviewVersions"),
                errors,
                known_versions=known_versions,
                missing=f"must specify one of {_KNOWN_VERSIONS}",
            )
            name = webhook.get("name") or ""
            if unique and name:
                distinct(name, seen, path, errors, "name")

    def _webhook(
        self, webhook: Object, path: Path, errors: Errors, allow_values: bool, no_effects: bool, same_conditions: bool
    ) -> None:
        _qualified_name(webhook.get("name") or "", path.child("name"), errors)
        for rule, here in each(path.child("rules"), webhook):
            validate_rule(rule, here, errors)
        for field, allowed in (("failurePolicy", FAILURE_POLICIES), ("matchPolicy", MATCH_POLICIES)):
            if webhook.get(field) is not None and webhook[field] not in allowed:
                errors.append(not_supported(path.child(field), webhook[field], allowed))
        effects, allowed_effects = webhook.get("sideEffects"), _NO_SIDE_EFFECTS if no_effects else _SIDE_EFFECTS
        if effects is None:
            errors.append(required(path.child("sideEffects"), f"must specify one of {', '.join(allowed_effects)}"))
        elif effects not in allowed_effects:
            errors.append(not_supported(path.child("sideEffects"), effects, allowed_effects))
        seconds = webhook.get("timeoutSeconds")
        if seconds is not None and not 1 <= seconds <= 30:
            why = "the timeout value must be between 1 and 30 seconds"
            errors.append(invalid(path.child("timeoutSeconds"), seconds, why))
        validate_selectors(webhook, path, errors, allow_values)
        policy = webhook.get("reinvocationPolicy")
        if self.mutating and policy is not None and policy not in REINVOCATION_POLICIES:
            errors.append(not_supported(path.child("reinvocationPolicy"), policy, REINVOCATION_POLICIES))
        _client_config(webhook.get("clientConfig") or {}, path.child("clientConfig"), errors)
        if not same_conditions:
            validate_conditions(webhook.get("matchConditions") or [], path.child("matchConditions"), errors)


def _qualified_name(name: str, path: Path, errors: Errors) -> None:
    if not name:
        errors.append(required(path))
    elif texts := is_dns1123_subdomain(name):
        errors.append(invalid(path, name, ",".join(texts)))
    elif name.count(".") < 2:
        errors.append(invalid(path, name, "should be a domain with at least three segments separated by dots"))


def validate_review_versions(
    versions: list[str], path: Path, errors: Errors, *, known_versions: bool, missing: str = ""
) -> None:
    """The versions of reviews that a webhook understands; ``missing`` is the text of the error when there are none."""
    if not versions:
        errors.append(required(path, missing))
        return
    seen: set[str] = set()
    for i, version in enumerate(versions):
        if version in seen:
            errors.append(invalid(path.index(i), version, "duplicate version"))
            continue
        seen.add(version)
        errors.extend(invalid(path.index(i), version, text) for text in is_dns1035_label(version))
    if known_versions and not seen & set(REVIEW_VERSIONS):
        errors.append(invalid(path, versions, f"must include at least one of {_KNOWN_VERSIONS}"))


def _client_config(client: Object, path: Path, errors: Errors) -> None:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        errors.append(required(path, "exactly one of url or service is required"))
    elif url is not None:
        validate_url(url, path.child("url"), errors)
    else:
        validate_service(service or {}, path.child("service"), errors)


def validate_url(url: str, path: Path, errors: Errors) -> None:
    """A webhook's URL: https, host and path, and nothing else."""
    try:
        parts = parse_url(url)
    except ValueError as error:
        errors.append(required(path, f"url must be a valid URL: {error}{_URL_FORM}"))
        return
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, "'https' is the only allowed URL scheme" + _URL_FORM))
    if not parts.host:
        errors.append(invalid(path, parts.host, "host must be specified" + _URL_FORM))
    if parts.user is not None:
        errors.append(invalid(path, parts.user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.raw_query:
        errors.append(invalid(path, parts.raw_query, "query parameters are not permitted in the URL"))


def validate_service(service: Object, path: Path, errors: Errors) -> None:
    """A webhook's service reference."""
    # upstream's callers swap the two arguments, so that each error has the other's path
    for field, other in (("namespace", "name"), ("name", "namespace")):
        need(service.get(field), path, errors, other)
    port = service.get("port", 443)
    report_once(is_port_number(port), port, path, errors, "port", before="port is not valid: ", between=", ")
    text = service.get("path")
    if not text or text == "/":
        return
    here = path.child("path")
    if text == "//":
        errors.append(invalid(here, text, "segment[0] may not be empty"))
        return
    if not text.startswith("/"):
        errors.append(invalid(here, text, "must start with a '/'"))
    for i, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(here, text, f"segment[{i}] may not be empty"))
            continue
        errors.extend(invalid(here, text, f"segment[{i}]: {problem}") for problem in is_dns1123_subdomain(step))


VALIDATING = Resource(
    *type_meta("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    categories=("api-extensions",),
    strategy=WebhookStrategy(mutating=False),
    table=TABLE,
)

MUTATING = Resource(
    *type_meta("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    categories=("api-extensions",),
    strategy=WebhookStrategy(mutating=True),
    table=TABLE,
)
