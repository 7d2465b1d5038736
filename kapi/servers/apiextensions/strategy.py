"""The strategy of a custom resource's version, made from its structural schema (upstream: apiextensions
``registry/customresource/strategy.go``, ``status_strategy.go``, ``validator.go``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

from kapi.machinery import status, tree
from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.golang import type_name, value_text
from kapi.machinery.gvk import GroupResource
from kapi.machinery.names import qualified_name
from kapi.machinery.tree import Object, Tree
from kapi.resources.apiextensions.embedded import metadata_errors
from kapi.resources.definition import Strategy, StrategyContext
from kapi.resources.shared.metadata import validate_metadata, validate_metadata_update
from kapi.resources.shared.names import subdomain_name
from kapi.schema.custom import same_values, write_numbers
from kapi.schema.structural.coercion import coerce, has_embedded
from kapi.schema.structural.correlation import ABSENT
from kapi.schema.structural.listtypes import list_errors
from kapi.schema.structural.pruning import default, drop_nulls, has_defaults, prune
from kapi.schema.structural.rules import Budget, RuleValidator, validator
from kapi.schema.structural.structure import Schema
from kapi.schema.structural.values import value_errors

_INT32_MAX = 2**31 - 1
_BLOCKING = (
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
)
_BLOCKED = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"  # noqa: E501
_STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
_ROOT = Path("")


class VersionSchema:
    """The schema of one version, loaded and compiled on first use; ``size`` is that of its JSON in bytes.

    Of hundreds of definitions few are in use; the others take only the memory of their bytes.
    """

    def __init__(self, load: Callable[[], Schema | None], size: int = 0) -> None:
        self._load = load
        self.size = size

    @cached_property
    def schema(self) -> Schema | None:
        return self._load()

    def published(self) -> Object:
        """The schema for OpenAPI documents: of a resource that is not in use it is loaded each time, and not kept."""
        found: Schema | None = self.__dict__.get("schema")
        if not found:
            found = self._load() or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            free_in_steps(found, self.size)
        return found

    @cached_property
    def defaults(self) -> bool:
        return has_defaults(self.schema)

    @cached_property
    def embedded(self) -> bool:
        return has_embedded(self.schema)

    @cached_property
    def rules(self) -> RuleValidator | None:
        return validator(self.schema)

    def apply_defaults(self, obj: Object) -> None:
        """Sets defaults, in place."""
        if self.defaults:
            default(obj, self.schema)

    def decoded(self, obj: Object) -> None:
        """Removes nulls of fields that are not nullable, sets defaults, and what metadata of embedded resources does not have."""
        if self.schema is None:
            return
        drop_nulls(obj, self.schema)
        self.apply_defaults(obj)
        if self.embedded:  # after the defaults, which may have unknown fields of metadata, too
            coerce(_ROOT, obj, self.schema, drop=True)

    def release(self) -> None:
        """Frees the compiled schema in steps, as soon as no request uses it."""
        for name in ("rules", "schema"):
            made = self.__dict__.get(name)
            if made is not None:
                free_in_steps(made, self.size)


class CustomResourceStrategy(Strategy):
    """``api_version`` and ``kind`` are those of the served version, in which the strategy gets objects."""

    allow_unconditional_update = False

    def __init__(
        self,
        api_version: str,
        kind: str,
        namespaced: bool,
        schema: VersionSchema,
        has_status: bool,
        scale: Object | None,
    ) -> None:
        self.api_version = api_version
        self.kind = kind
        self.namespaced = namespaced
        self.schema = schema
        self.has_status = has_status
        self.scale = scale
        self.reset_fields = ("status",) if has_status else ()
        self.refuses_new: GroupResource | None = None  # set while the definition is terminating

    def default(self, obj: Object) -> None:
        self.schema.decoded(obj)

    def default_changed(self, obj: Object) -> None:
        self.schema.apply_defaults(obj)  # nulls stay, and validation refuses them

    def prune(self, obj: Object) -> None:
        if self.schema.schema is not None:
            prune(obj, self.schema.schema)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        if self.refuses_new is not None:
            why = "create not allowed while custom resource definition is terminating"
            raise status.forbidden(self.refuses_new, obj["metadata"].get("name", ""), why)
        if self.has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        if self.has_status:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = tree.copy(old["status"])
        if not same_values(_without_metadata(obj), _without_metadata(old)):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = self._type_meta(obj)
        if errors:
            return errors
        validate_metadata(obj, errors, namespaced=self.namespaced, name=subdomain_name, qualified_finalizers=False)
        errors.extend(value_errors(obj, self.schema.schema, seconds=ctx.validation_seconds))
        errors.extend(self._scale_spec(obj))
        errors.extend(self._scale_status(obj))
        if self.schema.embedded:
            errors.extend(metadata_errors(_ROOT, obj, self.schema.schema))
        errors.extend(list_errors(_ROOT, self.schema.schema, obj))
        errors.extend(self._rules(errors, obj, ABSENT, None, ctx))
        return errors

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = self._type_meta(obj)
        if not errors:
            validate_metadata_update(obj, old, errors, qualified_finalizers=False)
            schema, seconds, forget = self.schema.schema, ctx.validation_seconds, partial(_forget_owners, obj)
            errors.extend(value_errors(obj, schema, None, old, seconds, mistyped=forget))
            errors.extend(self._scale_spec(obj))
            errors.extend(self._scale_status(obj))
        if self.schema.embedded:
            errors.extend(metadata_errors(_ROOT, obj, self.schema.schema))
        if not list_errors(_ROOT, self.schema.schema, old):
            errors.extend(list_errors(_ROOT, self.schema.schema, obj))
        errors.extend(self._rules(errors, obj, old, ctx.warnings.append, ctx))
        return errors

    def canonicalize(self, obj: Object) -> None:
        write_numbers(obj)

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return _finalizer_warnings(obj, None)

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return [*ctx.warnings, *_finalizer_warnings(obj, old)]

    def _rules(
        self,
        errors: list[FieldError],
        obj: Object,
        old: Object | None,
        warn: Callable[[str], None] | None,
        ctx: StrategyContext,
    ) -> list[FieldError]:
        rules = self.schema.rules
        if rules is None:
            return []
        if any(error.type.value[0] in _BLOCKING for error in errors):
            return [invalid("<nil>", None, _BLOCKED)]
        return rules.validate(_ROOT, obj, old, Budget(seconds=ctx.validation_seconds), warn)

    def _type_meta(self, obj: Object) -> list[FieldError]:
        errors = []
        if obj.get("kind") != self.kind:
            errors.append(invalid("kind", obj.get("kind", ""), f"must be {self.kind}"))
        if obj.get("apiVersion") != self.api_version:
            errors.append(invalid("apiVersion", obj.get("apiVersion", ""), f"must be {self.api_version}"))
        return errors

    def _scale_spec(self, obj: Object) -> list[FieldError]:
        return [] if self.scale is None else _replicas(obj, self.scale.get("specReplicasPath") or "")

    def _scale_status(self, obj: Object) -> list[FieldError]:
        if self.scale is None:
            return []
        errors = _replicas(obj, self.scale.get("statusReplicasPath") or "")
        path = self.scale.get("labelSelectorPath")
        if path:
            try:
                _nested(obj, path, str, "string")
            except ValueError as error:
                errors.append(invalid(path, "", str(error)))
        return errors


class CustomStatusStrategy(CustomResourceStrategy):
    """The strategy of the status subresource, which changes only the status."""

    def __init__(self, main: CustomResourceStrategy) -> None:
        super().__init__(main.api_version, main.kind, main.namespaced, main.schema, main.has_status, main.scale)
        self.reset_fields = ("metadata", "spec")

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        absent = "status" not in obj
        state, fields = obj.get("status"), obj["metadata"].get("managedFields")
        api_version = obj.get("apiVersion")
        obj.clear()
        obj.update(tree.copy(old))
        obj["apiVersion"] = api_version
        if absent:
            obj.pop("status", None)
        else:
            obj["status"] = state
        if fields is None:
            obj["metadata"].pop("managedFields", None)
        else:
            obj["metadata"]["managedFields"] = fields

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        schema = self.schema.schema
        errors = self._type_meta(obj)
        if not errors:
            validate_metadata_update(obj, old, errors, qualified_finalizers=False)
            status_schema = ((schema or {}).get("properties") or {}).get("status")
            if "status" in obj:
                before = old.get("status", ABSENT)
                seconds, forget = ctx.validation_seconds, partial(_forget_owners, obj)
                path = Path("status")
                errors.extend(value_errors(obj["status"], status_schema, path, before, seconds, mistyped=forget))
            errors.extend(self._scale_status(obj))
        if not list_errors(_ROOT, schema, old):
            errors.extend(list_errors(_ROOT, schema, obj))
        errors.extend(self._rules(errors, obj, old, ctx.warnings.append, ctx))
        return errors


def _forget_owners(obj: Object) -> None:
    """Removes the owners of fields from an object with a value of a wrong type: upstream cannot compute them."""
    obj["metadata"].pop("managedFields", None)


def _without_metadata(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "apiVersion")}


def _nested(obj: Object, path: str, type_: type, expected: str) -> Tree:
    """The value of this type at a path, None when it is absent.  Raises ValueError (upstream: ``unstructured.NestedInt64``)."""
    node: Tree = obj
    parts = path.removeprefix(".").split(".")
    for number, part in enumerate(parts, 1):
        if node is None:
            return None
        if not isinstance(node, dict):
            raise ValueError(_accessor(parts[:number], node, "map[string]interface{}"))
        if part not in node:
            return None
        node = node[part]
    if type(node) is not type_:
        raise ValueError(_accessor(parts, node, expected))
    return node


def _accessor(parts: list[str], value: object, expected: str) -> str:
    found = "<nil>" if value is None else type_name(value)
    return f".{'.'.join(parts)} accessor error: {value_text(value)} is of the type {found}, expected {expected}"


def _replicas(obj: Object, path: str) -> list[FieldError]:
    try:
        value = _nested(obj, path, int, "int64")
    except ValueError as error:
        return [invalid(path, 0, str(error))]
    if value is not None and value < 0:
        return [invalid(path, value, "should be a non-negative integer")]
    if value is not None and value > _INT32_MAX:
        return [invalid(path, value, f"should be less than or equal to {_INT32_MAX}")]
    return []


def _finalizer_warnings(obj: Object, old: Object | None) -> list[str]:
    known = set((old or {}).get("metadata", {}).get("finalizers") or ())
    found: list[str] = []
    for name in sorted(set(obj["metadata"].get("finalizers") or ()) - known):
        found.extend(f'metadata.finalizers: "{name}": {text}' for text in qualified_name(name))
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            how = " including a path (/)" if "." in name else ""
            found.append(
                f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name{how} to avoid accidental conflicts '
                "with other finalizer writers"
            )
    return found
