"""Makes the predicate over cache entries from a request's selectors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kapi.endpoints.options import ListOptions, check_selectors
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.importing import import_in_thread
from kapi.machinery.selectors import FieldRequirement, FieldSelector, Predicate, parse_fields
from kapi.machinery.sharding import Shards
from kapi.resources.shared.features import enabled
from kapi.watchcache.entry import Entry

_SHARDING = "kapi.endpoints.sharding"


def predicate_of(scope: RequestScope, options: ListOptions, name: str = "") -> Predicate | None:
    """The predicate; None when everything is selected.

    Raises BadRequest for invalid or unsupported selectors, and the error for an invalid shard selector.
    """
    if not options.label_selector and not options.field_selector and not name:
        shards = _shards(scope, options.shard_selector) if options.shard_selector else None
        return None if shards is None else Predicate(shards=shards)
    labels, fields = check_selectors(options)
    known = scope.resource.selectable_fields
    for requirement in fields.requirements:
        field = requirement.key
        if field == "metadata.name" or (field == "metadata.namespace" and scope.resource.selects_namespaces):
            continue
        if field not in known:
            raise status.bad_request(scope.resource.field_label_error(field))
    aliases = scope.resource.field_aliases
    if aliases:
        fields = FieldSelector(
            tuple(term._replace(key=aliases.get(term.key, term.key)) for term in fields.requirements)
        )
    if name:
        given = fields.exact("metadata.name")
        if not fields.empty and given != name:
            raise status.bad_request("fieldSelector metadata.name doesn't match requested name")
        if fields.empty:
            fields = parse_fields(f"metadata.name={name}")
    resource = scope.resource
    converted = resource.converter is not None and resource.storage_version and bool(_of_objects(fields))
    read = partial(_fields_in_version, scope) if converted else None
    predicate = Predicate(labels, fields, read, _shards(scope, options.shard_selector))
    return None if predicate.empty else predicate


def without_conversion(predicate: Predicate) -> Predicate:
    """The part of a predicate that needs no conversion of the objects."""
    others = _of_objects(predicate.fields)
    fields = FieldSelector(tuple(term for term in predicate.fields.requirements if term not in others))
    return Predicate(predicate.labels, fields, shards=predicate.shards)


def _shards(scope: RequestScope, selector: str) -> Shards | None:
    """The shard that a request asks for.  Raises the error that upstream does not give a kind for an invalid selector."""
    if not selector or not enabled(scope.store.environment.features, "ShardedListAndWatch"):
        return None
    import_in_thread(_SHARDING)
    from kapi.endpoints import sharding  # imported only when it is used

    try:
        return sharding.parse_shards(selector)
    except sharding.ShardSelectorError as error:
        raise status.generic(f"invalid shard selector: {error}") from None


def _of_objects(fields: FieldSelector) -> list[FieldRequirement]:
    return [term for term in fields.requirements if term.key not in ("metadata.name", "metadata.namespace")]


def _fields_in_version(scope: RequestScope, entry: Entry) -> Mapping[str, str]:
    """The selectable fields of an object in the version of the request.

    Raises Unconverted when the conversion webhook must convert it first.
    """
    obj = scope.from_storage(entry.object)
    fields = {name: read(obj) for name, read in scope.resource.selectable_fields.items()}
    return {**fields, "metadata.name": entry.name, "metadata.namespace": entry.namespace}
