"""Entries of ``metadata.managedFields`` as sets of fields, and back (upstream: ``managedfields/internal``)."""

from __future__ import annotations

from kapi.codecs import json_pieces
from kapi.machinery.each import elements, entries
from kapi.machinery.memo import BoundedCache
from kapi.machinery.tree import Object, Tree
from kapi.schema.apply import fieldset
from kapi.schema.apply.conflict import Manager
from kapi.schema.apply.fieldset import BadSet, Set
from kapi.schema.apply.updater import Managers, Owned

Times = dict[Manager, str]

MAX_UPDATE_MANAGERS = 10  # with operation Update; the oldest others are merged
MAX_CACHED_BYTES = 4096  # of JSON: larger sets are not cached
MAX_CACHED_SETS = 4000
ANCIENT = "ancient-changes"

_decoded: BoundedCache[bytes, Set] = BoundedCache(MAX_CACHED_SETS)


class InvalidManagedFields(ValueError):
    """Entries that cannot be decoded."""


def _decode_fields(stored: object) -> Set:
    """A stored ``fieldsV1`` as a set, cached by its text."""
    text = json_pieces.dumps(stored)
    found = _decoded.get(text)
    if found is None:
        found = fieldset.decode(stored)
        if len(text) <= MAX_CACHED_BYTES:
            _decoded.add(text, found)
    return found


def decode(stored: Tree) -> tuple[Managers, Times]:
    """Reads ``managedFields``.  Raises InvalidManagedFields as upstream's decoder fails."""
    managers: Managers = {}
    times: Times = {}
    for i, entry in enumerate(elements(stored)):
        operation = entry.get("operation")
        if operation not in ("Apply", "Update"):
            raise InvalidManagedFields("operation must be `Apply` or `Update`")
        api_version = entry.get("apiVersion")
        if not api_version:
            raise InvalidManagedFields("apiVersion must not be empty")
        fields_type = entry.get("fieldsType") or ""
        if fields_type != "FieldsV1":
            if not fields_type:
                raise InvalidManagedFields(f"missing fieldsType in managed fields entry {i}")
            raise InvalidManagedFields(f'invalid fieldsType "{fields_type}" in managed fields entry {i}')
        applied = operation == "Apply"
        manager = Manager(
            entry.get("manager") or "", operation, "" if applied else api_version, entry.get("subresource") or ""
        )
        try:
            fields = _decode_fields(entry.get("fieldsV1"))
        except BadSet as error:
            raise InvalidManagedFields(f"error decoding versioned set: {error}") from None
        managers[manager] = Owned(fields, api_version, applied)
        time = entry.get("time")
        if time:
            times[manager] = time
    return managers, times


def encode(managers: Managers, times: Times, *, canonical: bool = False) -> list[Object]:
    """``managedFields`` in upstream's order: operation, time, manager, version, subresource.

    ``canonical``: all sets are as ``decode`` gave them.
    """
    found = []
    for manager, owned in entries(managers):
        time = times.get(manager, "")
        entry = entry_of(manager, owned, time, owned.fields if canonical else fieldset.canonical(owned.fields))
        found.append(((entry["operation"], time, manager.name, owned.api_version, manager.subresource), entry))
    if len(found) > 1:
        found.sort(key=lambda pair: pair[0])
    return [entry for _, entry in elements(found)]


def entry_of(manager: Manager, owned: Owned, time: str, canonical: Set) -> Object:
    entry: Object = {}
    if manager.name:
        entry["manager"] = manager.name
    entry["operation"] = "Apply" if owned.applied else manager.operation
    entry["apiVersion"] = owned.api_version
    if time:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = canonical
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def capped(managers: Managers, times: Times) -> tuple[Managers, Times]:
    """Merges the oldest update entries of a version into one while there are more than ``MAX_UPDATE_MANAGERS``."""
    updaters = [manager for manager, owned in entries(managers) if not owned.applied]
    if len(updaters) <= MAX_UPDATE_MANAGERS:
        return managers, times
    managers, times = dict(managers), dict(times)
    updaters.sort(key=lambda manager: (times.get(manager, ""), manager.identifier))
    first_of: dict[str, Manager] = {}
    merged: dict[Manager, list[Set]] = {}  # the sets of each bucket
    count = len(updaters)
    for manager in elements(updaters):
        if count <= MAX_UPDATE_MANAGERS:
            break
        owned = managers[manager]
        version = owned.api_version
        first = first_of.get(version)
        if first is None:
            first_of[version] = manager
            continue
        bucket = Manager(ANCIENT, "Update", version)
        if bucket not in managers:
            managers[bucket] = managers.pop(first)
        merged.setdefault(bucket, [managers[bucket].fields]).append(owned.fields)
        del managers[manager]
        if manager == bucket:
            del merged[bucket]
        count -= 1
        times[bucket] = times.get(manager, "")
    for bucket, sets in merged.items():
        managers[bucket] = Owned(fieldset.union_all(sets), bucket.api_version, False)
    return managers, times
