"""The rows of API groups that a program adds to its server (upstream: apiserver ``server/genericapiserver.go``, InstallAPIGroup).

They are made like the rows of custom resources: types, validation, columns and OpenAPI documents come from the schemas.  The
program's strategies are called in addition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from hashlib import sha256

import orjson

from kapi.machinery import tree
from kapi.machinery.field import ErrorType, FieldError
from kapi.machinery.tree import Object
from kapi.resources.apiextensions.customresourcedefinitions import CustomResourceDefinitionStrategy
from kapi.resources.definition import Resource, Strategy, StrategyContext, Subresource
from kapi.schema.structural.values import value_errors
from kapi.servers.additions import APIGroup, APIGroupResource
from kapi.servers.apiextensions.outline import outline
from kapi.servers.apiextensions.rows import Rows
from kapi.servers.apiextensions.strategy import CustomResourceStrategy, CustomStatusStrategy, VersionSchema

_MISSHAPEN = (ErrorType.TYPE_INVALID, ErrorType.REQUIRED)


def group_rows(groups: Iterable[APIGroup], taken: Collection[str]) -> list[Resource]:
    """The rows, first the row of the stored version; ``taken`` are the groups that exist already.  Raises ValueError."""
    names = set(taken)
    found: list[Resource] = []
    for group in groups:
        if group.name in names:
            raise ValueError(f"the API group {group.name or 'core'} is served already")
        names.add(group.name)
        plurals: set[str] = set()
        kinds: set[str] = set()
        for resource in group.resources:
            for name, known in ((resource.plural, plurals), (resource.kind, kinds)):
                if name in known:
                    raise ValueError(f"{name} is twice in the API group {group.name}")
                known.add(name)
            found.extend(_GroupRows(group.name, resource).rows())
    return found


def _definition(group: str, resource: APIGroupResource) -> Object:
    """The resource as a CustomResourceDefinition."""
    versions: list[Object] = []
    for version in resource.versions:
        subresources: Object = {}
        if resource.status_strategy is not None:
            subresources["status"] = {}
        if version.scale is not None:
            subresources["scale"] = dict(version.scale)
        versions.append(
            {
                "name": version.name,
                "served": True,
                "storage": not versions,
                "schema": {"openAPIV3Schema": tree.copy(version.schema)},
                "subresources": subresources,
                "additionalPrinterColumns": [dict(column) for column in version.columns],
                "selectableFields": [{"jsonPath": f".{path}"} for path in version.selectable_fields],
                "deprecated": bool(version.deprecated),
                **({"deprecationWarning": version.deprecated} if version.deprecated else {}),
            }
        )
    found: Object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # of a later generation: stored objects may come from an earlier release of the program
        "metadata": {"name": f"{resource.plural}.{group}", "generation": 2},
        "spec": {
            "group": group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "plural": resource.plural,
                "singular": resource.singular,
                "shortNames": list(resource.short_names),
                "categories": list(resource.categories),
            },
            "versions": versions,
        },
        "status": {},
    }
    rules = CustomResourceDefinitionStrategy()
    rules.default(found)
    errors = rules.validate(found, StrategyContext("", found["metadata"]["name"]))
    if errors:
        raise ValueError(f"{resource.plural}.{group}: " + "; ".join(str(error) for error in errors))
    return found


class _GroupRows(Rows):
    """The rows of one resource."""

    def __init__(self, group: str, resource: APIGroupResource) -> None:
        definition = orjson.dumps(_definition(group, resource))
        self._digest = sha256(definition).hexdigest()
        self._resource = resource
        super().__init__(outline(definition), convert=resource.convert and self._converted)

    def _converted(self, obj: Object, api_version: str) -> Object:
        """The result of the program's conversion.  An object that it fails for because of a wrong shape is refused later, by
        validation: managed fields are converted first."""
        assert self._resource.convert is not None
        try:
            return {**self._resource.convert(tree.copy(obj), api_version), "apiVersion": api_version}
        except Exception:
            own = self.schemas.get(str(obj.get("apiVersion")).removeprefix(f"{self.group}/"))
            if own is None or not _misshapen(obj, own):
                raise
            return {**obj, "apiVersion": api_version}

    def rows(self) -> Iterator[Resource]:
        own = self._resource
        for row in self.served:
            schema = row.strategy
            assert isinstance(schema, CustomResourceStrategy)
            main = _Main(schema, own.strategy, self)
            subresources = row.subresources
            if own.status_strategy is not None:
                state = Subresource("status", strategy=_Status(schema, own.status_strategy, self))
                subresources = (state, *(sub for sub in subresources if sub.name != "status"))
            yield replace(row, strategy=main, subresources=subresources, schema_digest=self._digest)

    def changed(self, obj: Object, change: Callable[[Object], None]) -> None:
        """Changes an object in place by ``change``, which gets it in the stored version."""
        stored = self.in_stored_version(obj)
        change(stored)
        if stored is not obj:
            result = self.between(obj["apiVersion"])(stored)
            obj.clear()
            obj.update(result)

    def in_stored_version(self, obj: Object) -> Object:
        """The same object if it is in that version."""
        api_version = self.api_version(self.storage)
        return obj if obj["apiVersion"] == api_version else self.between(api_version)(obj)


def _misshapen(obj: Object, schema: VersionSchema) -> bool:
    """Whether a required field is missing, or a field has another type than in the schema."""
    return any(error.type in _MISSHAPEN for error in value_errors(obj, schema.schema))


class _WithStrategy(CustomResourceStrategy):
    """The rules of a schema, and then a program's strategy, which gets objects in the stored version.

    It never gets an object in which a required field is missing, or a field has another type than in the schema.
    """

    own: Strategy
    rows: _GroupRows

    def _begin(self, own: Strategy, rows: _GroupRows) -> None:
        self.own, self.rows = own, rows
        self.allow_create_on_update = own.allow_create_on_update
        self.allow_unconditional_update = own.allow_unconditional_update
        self.reset_fields = (*self.reset_fields, *own.reset_fields)

    def _change(self, obj: Object, change: Callable[[Object], None]) -> None:
        if not _misshapen(obj, self.schema):
            self.rows.changed(obj, change)

    def default(self, obj: Object) -> None:
        super().default(obj)
        self._own_defaults(obj)

    def default_changed(self, obj: Object) -> None:
        super().default_changed(obj)
        self._own_defaults(obj)

    def _own_defaults(self, obj: Object) -> None:
        if (
            obj.get("kind") == self.kind and obj.get("apiVersion") == self.api_version
        ):  # otherwise validation refuses it
            self._change(obj, self.own.default)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        self._change(obj, lambda stored: self.own.prepare_for_create(stored, ctx))

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(obj, old, ctx)
        before = self.rows.in_stored_version(old)
        self._change(obj, lambda stored: self.own.prepare_for_update(stored, before, ctx))

    def canonicalize(self, obj: Object) -> None:
        self.rows.changed(obj, self.own.canonicalize)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return super().validate(obj, ctx) or self.own.validate(self.rows.in_stored_version(obj), ctx)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        stored = self.rows.in_stored_version
        return super().validate_update(obj, old, ctx) or self.own.validate_update(stored(obj), stored(old), ctx)

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        stored = self.rows.in_stored_version(obj)
        return [*super().warnings_on_create(obj, ctx), *self.own.warnings_on_create(stored, ctx)]

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        stored = self.rows.in_stored_version
        own = self.own.warnings_on_update(stored(obj), stored(old), ctx)
        return [*super().warnings_on_update(obj, old, ctx), *own]

    def admit_delete(self, obj: Object, ctx: StrategyContext) -> None:
        self.own.admit_delete(self.rows.in_stored_version(obj), ctx)

    def default_garbage_collection(self, obj: Object, ctx: StrategyContext) -> str:
        return self.own.default_garbage_collection(obj, ctx)

    def warnings_on_delete(self, options: Object) -> list[str]:
        return self.own.warnings_on_delete(options)


class _Main(_WithStrategy):
    def __init__(self, schema: CustomResourceStrategy, own: Strategy, rows: _GroupRows) -> None:
        super().__init__(
            schema.api_version, schema.kind, schema.namespaced, schema.schema, schema.has_status, schema.scale
        )
        self._begin(own, rows)


class _Status(_WithStrategy, CustomStatusStrategy):
    """The strategy of the status subresource."""

    def __init__(self, schema: CustomResourceStrategy, own: Strategy, rows: _GroupRows) -> None:
        CustomStatusStrategy.__init__(self, schema)
        self._begin(own, rows)
