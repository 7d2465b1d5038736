"""Validation of CustomResourceDefinitions, with ratcheting: an update may keep values that are not allowed any more.

Upstream: apiextensions ``apis/apiextensions/validation/validation.go``, with its ``validationOptions``.
"""

from __future__ import annotations

from dataclasses import replace

from kapi.machinery.each import each, each_of, elements
from kapi.machinery.field import FieldError, Path, invalid, required
from kapi.machinery.names import dns_1035_label, dns_subdomain
from kapi.machinery.tree import Object, equal
from kapi.resources.admissionregistration.webhooks import REVIEW_VERSIONS
from kapi.resources.apiextensions.approval import approval_errors
from kapi.resources.apiextensions.internal import internal_spec, is_true, schema_of, version_schemas
from kapi.resources.apiextensions.root_schema import default_errors, validate_schema
from kapi.resources.apiextensions.schema_rules import TYPES, Strictness, map_key_errors, walk_schemas
from kapi.resources.apiextensions.version_rules import (
    MAX_SELECTABLE,
    bad_bundle,
    deprecation_texts,
    validate_column,
    validate_conversion,
    validate_selectable,
    validate_subresources,
)
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import validate_metadata, validate_metadata_update
from kapi.resources.shared.rules import MIXED_CASE, need, report, report_once, supported
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


_EXTENSIONS = (
    "x-kubernetes-embedded-resource",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-validations",
)


def validate(crd: Object) -> list[FieldError]:
    """Validates a new definition."""
    spec = internal_spec(crd.get("spec") or {})
    errors: list[FieldError] = []

    def name_rule(name: str, prefix: bool) -> list[str]:
        texts = list(dns_subdomain(name))
        if name != f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}":
            texts.append('must be spec.names.plural+"."+spec.group')
        return texts

    validate_metadata(crd, errors, namespaced=False, name=name_rule, qualified_finalizers=False)
    errors.extend(_spec(spec, Options(), Path("spec")))
    errors.extend(_rest(crd, spec))
    errors.extend(approval_errors(crd, None))
    errors.extend(_preserve(crd, None))
    return errors


def validate_update(crd: Object, old: Object) -> list[FieldError]:
    """Validates a changed definition."""
    spec, before = internal_spec(crd.get("spec") or {}), internal_spec(old.get("spec") or {})
    errors: list[FieldError] = []
    validate_metadata_update(crd, old, errors, qualified_finalizers=False)
    options = update_options(crd, old, before)
    path = Path("spec")
    errors.extend(_spec(spec, options, path))
    names, old_names = spec.get("names") or {}, before.get("names") or {}
    if options.immutable_names:
        _immutable(errors, path.child("scope"), spec.get("scope", ""), before.get("scope", ""))
        _immutable(errors, path.child("names", "kind"), names.get("kind", ""), old_names.get("kind", ""))
    _immutable(errors, path.child("group"), spec.get("group", ""), before.get("group", ""))
    _immutable(errors, path.child("names", "plural"), names.get("plural", ""), old_names.get("plural", ""))
    errors.extend(_rest(crd, spec))
    errors.extend(approval_errors(crd, old))
    errors.extend(_preserve(crd, old))
    return errors


def validate_status_update(crd: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    validate_metadata_update(crd, old, errors, qualified_finalizers=False)
    errors.extend(_names((crd.get("status") or {}).get("acceptedNames") or {}, Path("status").child("acceptedNames")))
    return errors


def _immutable(errors: list[FieldError], path: Path, new: object, old: object) -> None:
    if not equal(new, old):
        errors.append(invalid(path, new, "field is immutable"))


def _spec(spec: Object, options: Options, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    _group(spec, path, errors)
    if not spec.get("preserveUnknownFields"):
        options.structural = True
    _schema_presence(spec, spec.get("versions") or [], options, path, errors)
    _needs_structural(spec, options, path, errors)
    _versions(spec, options, path, errors)
    given = spec.get("names") or {}
    for name in ("plural", "singular", "kind", "listKind"):
        need(given.get(name), path, errors, "names", name)
    errors.extend(_names(given, path.child("names")))
    _of_all_versions(spec, options, path, errors)
    _conversion(spec, options, path.child("conversion"), errors)
    return errors


def _needs_structural(spec: Object, options: Options, path: Path, errors: list[FieldError]) -> None:
    """Whether the schemas must be structural, because a schema has defaults or extensions."""
    nodes = nodes_of(spec)
    if any(node.get("default") is not None for node in elements(nodes)):
        options.structural = True
        if spec.get("preserveUnknownFields"):
            text = "must be false in order to use defaults in the schema"
            errors.append(invalid(path.child("preserveUnknownFields"), True, text))
    if any(node.get(name) for node in elements(nodes) for name in _EXTENSIONS):
        options.structural = True


def _versions(spec: Object, options: Options, path: Path, errors: list[FieldError]) -> None:
    versions, here = spec.get("versions") or [], path.child("versions")
    for version, at in each_of(here, versions):
        report_once(dns_1035_label(version.get("name", "")), version.get("name", ""), at, errors, "name")
        _version(spec, version, at, options, errors)
    names = [version.get("name", "") for version in elements(versions)]
    shown = internal("CustomResourceDefinitionVersion", spec.get("versions"))
    if len(set(names)) != len(names):
        errors.append(invalid(here, shown, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in elements(versions)) != 1:
        errors.append(invalid(here, shown, "must have exactly one version marked as storage version"))
    if spec["version"]:
        report_once(dns_1035_label(spec["version"]), spec["version"], path, errors, "version")


def _of_all_versions(spec: Object, options: Options, path: Path, errors: list[FieldError]) -> None:
    """The fields of the spec that all versions share: schema, subresources, columns, selectable fields."""
    strictness = options.strictness(spec["version"])
    validate_schema(spec.get("validation"), _any_status(spec), strictness, path.child("validation"), errors)
    validate_subresources(spec.get("subresources"), path.child("subresources"), errors)
    for column, place in each(path.child("additionalPrinterColumns"), spec):
        validate_column(column, place, errors)
    if spec.get("selectableFields"):
        schema, here = schema_of(spec.get("validation")), path.child("selectableFields")
        if schema is None:
            errors.append(invalid(here, "", "may only be set when validations.schema is included"))
        else:
            validate_selectable(spec["selectableFields"], schema, here, "" in options.many_selectable, errors)


def _conversion(spec: Object, options: Options, path: Path, errors: list[FieldError]) -> None:
    conversion = spec.get("conversion")
    if conversion is None:
        return
    strategy = conversion.get("strategy")
    if strategy != "None" and spec.get("preserveUnknownFields"):
        errors.append(invalid(path.child("strategy"), strategy, "must be None if spec.preserveUnknownFields is true"))
    validate_conversion(conversion, path, errors, any_bundle=options.any_ca_bundle, known_review=options.review_version)


def _group(spec: Object, path: Path, errors: list[FieldError]) -> None:
    group, scope = spec.get("group") or "", spec.get("scope") or ""
    if need(group, path, errors, "group"):
        texts = dns_subdomain(group)
        if texts:
            errors.append(invalid(path.child("group"), group, ",".join(texts)))
        elif "." not in group:
            errors.append(invalid(path.child("group"), group, "should be a domain with at least one dot"))
    if need(scope, path, errors, "scope"):
        supported(scope, ("Cluster", "Namespaced"), path, errors, "scope")


def _schema_presence(
    spec: Object, versions: list[Object], options: Options, path: Path, errors: list[FieldError]
) -> None:
    if schema_of(spec.get("validation")) is not None:
        return
    for version, here in each_of(path.child("versions"), versions):
        if schema_of(version.get("schema")) is not None:
            continue
        at = here.child("schema", "openAPIV3Schema")
        if options.schema_required:
            errors.append(required(at))
        elif not spec.get("preserveUnknownFields") and version.get("served"):
            errors.append(required(at, "because otherwise all fields are pruned"))


def _version(spec: Object, version: Object, path: Path, options: Options, errors: list[FieldError]) -> None:
    warning = version.get("deprecationWarning")
    report(deprecation_texts(bool(version.get("deprecated")), warning), warning, path, errors, "deprecationWarning")
    subresources = version.get("subresources") or spec.get("subresources") or {}
    name = version.get("name", "")
    validate_schema(
        version.get("schema"),
        subresources.get("status") is not None,
        options.strictness(name),
        path.child("schema"),
        errors,
    )
    validate_subresources(version.get("subresources"), path.child("subresources"), errors)
    for column, here in each(path.child("additionalPrinterColumns"), version):
        validate_column(column, here, errors)
    if version.get("selectableFields"):
        schema = schema_of(version.get("schema"))
        at = path.child("selectableFields")
        if schema is None:
            errors.append(invalid(at, "", "may only be set when `version.schema.openAPIV3Schema` is not included"))
        else:
            validate_selectable(version["selectableFields"], schema, at, name in options.many_selectable, errors)


def _any_status(spec: Object) -> bool:
    holders = [spec.get("subresources"), *(version.get("subresources") for version in elements(spec, "versions"))]
    return any((holder or {}).get("status") is not None for holder in holders)


def _names(names: Object, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("plural", "singular"):
        if value := names.get(name):
            report_once(dns_1035_label(value), value, path, errors, name)
    for name in ("kind", "listKind"):
        if value := names.get(name):
            report_once(dns_1035_label(value.lower()), value, path, errors, name, before=MIXED_CASE)
    for value, here in each(path.child("shortNames"), names):
        report_once(dns_1035_label(value), value, here, errors)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        errors.append(invalid(path.child("listKind"), names["listKind"], "kind and listKind may not be the same"))
    for value, here in each(path.child("categories"), names):
        report_once(dns_1035_label(value), value, here, errors)
    return errors


def _rest(crd: Object, spec: Object) -> list[FieldError]:
    state = crd.get("status") or {}
    errors = _names(state.get("acceptedNames") or {}, Path("status").child("acceptedNames"))
    stored, path = state.get("storedVersions"), Path("status").child("storedVersions")
    if not stored:
        errors.append(invalid(path, stored, "must have at least one stored version"))
        return errors
    left = {name: index for index, name in enumerate(stored)}
    for version in elements(spec, "versions"):
        name = version.get("name", "")
        if version.get("storage") and name not in left:
            errors.append(invalid(path, stored, f"must have the storage version {name}"))
        left.pop(name, None)
    for name, index in left.items():
        errors.append(
            invalid(
                path.index(index),
                name,
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until "
                f"a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions",
            )
        )
    return errors


def _preserve(crd: Object, old: Object | None) -> list[FieldError]:
    if old is not None and (old.get("spec") or {}).get("preserveUnknownFields"):
        return []
    if (crd.get("spec") or {}).get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        return [invalid(Path("spec").child("preserveUnknownFields"), True, text)]
    return []
