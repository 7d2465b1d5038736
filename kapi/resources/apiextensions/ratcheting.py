"""Ratcheting: what an update of a definition may keep although it is no longer allowed (upstream: ``validationOptions``)."""

from __future__ import annotations

from dataclasses import replace

from kapi.machinery.each import elements
from kapi.machinery.field import Path
from kapi.machinery.tree import Object, equal
from kapi.resources.admissionregistration.webhooks import REVIEW_VERSIONS
from kapi.resources.apiextensions.internal import is_true, schema_of, version_schemas
from kapi.resources.apiextensions.root_schema import default_errors
from kapi.resources.apiextensions.schema_rules import TYPES, Strictness, map_key_errors, walk_schemas
from kapi.resources.apiextensions.version_rules import MAX_SELECTABLE, bad_bundle
from kapi.schema.structural.pruning import has_defaults
from kapi.schema.structural.structure import conversion_error, structural_errors


class Options(Strictness):
    """The options of validation that depend on the old object."""

    __slots__ = (
        "review_version",
        "immutable_names",
        "schema_required",
        "unchanged",
        "any_ca_bundle",
        "many_selectable",
    )

    def __init__(self) -> None:
        super().__init__()
        self.review_version = True
        self.immutable_names = False
        self.schema_required = True
        self.unchanged: frozenset[str] = frozenset()
        self.any_ca_bundle = True
        self.many_selectable: frozenset[str] = frozenset()

    def strictness(self, version: str) -> Strictness:
        base = Strictness(
            self.valid_types, self.structural, self.pruned_defaults, self.atomic_sets, self.map_keys, self.check_cost
        )
        return replace(base, check_cost=False) if version in self.unchanged else base


def _schemas(spec: Object) -> list[Object]:
    found = [schema_of(spec.get("validation"))]
    found.extend(schema_of(version.get("schema")) for version in elements(spec, "versions"))
    return [schema for schema in found if schema is not None]


def nodes_of(spec: Object) -> list[Object]:
    return [node for schema in _schemas(spec) for node in elements(walk_schemas(schema))]


def update_options(crd: Object, old: Object, before: Object) -> Options:
    options = Options()
    conversion = before.get("conversion")
    reviews = (conversion or {}).get("conversionReviewVersions") or []
    options.review_version = conversion is None or not reviews or any(item in REVIEW_VERSIONS for item in reviews)
    options.immutable_names = is_true(old, "Established")
    schemas, nodes = _schemas(before), nodes_of(before)
    options.schema_required = bool(schema_of(before.get("validation"))) or all(
        schema_of(version.get("schema")) is not None for version in elements(before, "versions")
    )
    options.valid_types = not any(node.get("type") and node["type"] not in TYPES for node in elements(nodes))
    options.structural = not any(conversion_error(item) or structural_errors(Path(""), item) for item in schemas)
    options.map_keys = not any(map_key_errors(Path(""), node) for node in elements(nodes))
    options.atomic_sets = not any(_odd_set(node) for node in elements(nodes))
    options.pruned_defaults = not any(
        has_defaults(item) and any("unknown fields" in error.detail for error in default_errors(Path(""), item, True))
        for item in schemas
        if not conversion_error(item)
    )
    new_spec, old_spec = crd.get("spec") or {}, old.get("spec") or {}
    old_schemas = version_schemas(old_spec)
    unchanged = {
        version.get("name", "")
        for version in elements(new_spec, "versions")
        if equal(old_schemas.get(version.get("name", "")), schema_of(version.get("schema")))
    }
    options.unchanged = frozenset(unchanged)
    options.any_ca_bundle = not options.immutable_names or bad_bundle((conversion or {}).get("webhookClientConfig"))
    options.many_selectable = _many_selectable(new_spec, old_spec)
    return options


def _many_selectable(new: Object, old: Object) -> frozenset[str]:
    versions = elements(old, "versions")
    before = {version.get("name"): version.get("selectableFields") or [] for version in versions}
    found = {
        version.get("name", "")
        for version in elements(new, "versions")
        if len(before.get(version.get("name"), [])) > MAX_SELECTABLE
        and equal(before[version.get("name")], version.get("selectableFields"))
    }
    return frozenset(found | {""} if found else found)


def _odd_set(node: Object) -> bool:
    items = node.get("items")
    if node.get("x-kubernetes-list-type") != "set" or not isinstance(items, dict):
        return False
    if items.get("type") == "array":
        return items.get("x-kubernetes-list-type") not in (None, "atomic")
    return items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic"
