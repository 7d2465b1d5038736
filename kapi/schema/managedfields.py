"""``metadata.managedFields``: the owners of fields after each kind of write (KEP-555; apimachinery ``managedfields``).

There is one FieldManager for each endpoint (resource, version, subresource).  It works on plain JSON trees.  Decoded field sets
are cached by their text, since the same few sets come with every write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from kapi.codecs import json_pieces
from kapi.machinery import tree
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.memo import BoundedCache
from kapi.machinery.meters import histogram
from kapi.machinery.status import BadRequest, StatusError
from kapi.machinery.tree import Object
from kapi.schema.apply import comparing, fieldset, lastapplied, typed
from kapi.schema.apply.conflict import Conflicts, Manager
from kapi.schema.apply.fieldset import Set
from kapi.schema.apply.shape import DEDUCED, Shapes, shape_of, zero_value
from kapi.schema.apply.structure import holds_nothing, structure
from kapi.schema.apply.updater import Managers, Owned, Updater, Version, reconcile
from kapi.schema.managedfields_entries import (
    MAX_CACHED_BYTES,
    MAX_CACHED_SETS,
    MAX_UPDATE_MANAGERS,
    InvalidManagedFields,
    Times,
    capped,
    decode,
    encode,
    entry_of,
)
from kapi.schema.types import Type

TIMESTAMP_COMPARISON = histogram(
    "apiserver_request_timestamp_comparison_time", (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0)
)

BEFORE_FIRST_APPLY = "before-first-apply"

#: fields that no manager owns
_STRIPPED: Set = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        "f:name": {},
        "f:namespace": {},
        "f:creationTimestamp": {},
        "f:selfLink": {},
        "f:uid": {},
        "f:clusterName": {},
        "f:generation": {},
        "f:managedFields": {},
        "f:resourceVersion": {},
    },
}


def reset_set(fields: Iterable[str]) -> Set:
    """The field set of a strategy's reset fields, which are dotted paths."""
    return fieldset.from_paths(tuple("f:" + part for part in path.split(".")) for path in fields)


#: (field manager, structure) -> field set of a new object
_created: BoundedCache[object, Set] = BoundedCache(MAX_CACHED_SETS)


def is_reset(entries: object) -> bool:
    """Whether a client resets ownership: by an empty list, or a list with one empty entry."""
    if not isinstance(entries, list):
        return False
    return not entries or len(entries) == 1 and isinstance(entries[0], dict) and not any(entries[0].values())


def only_timestamps_differ(new: Object, old: Object) -> bool:
    """Whether only times in ``managedFields`` and the resourceVersion differ from the stored object.

    Such a write keeps the stored entries, so that it changes nothing.
    """
    began = time.monotonic()
    metadata, before = new.get("metadata") or {}, old.get("metadata") or {}
    entries, stored = metadata.get("managedFields"), before.get("managedFields")
    if not entries or not stored or len(entries) != len(stored) or tree.equal(entries, stored):
        TIMESTAMP_COMPARISON.observe(time.monotonic() - began, "unequalObjectsFast")
        return False
    equal = _equal_but_for_times(entries, stored) and _equal_but_for_metadata(new, old)
    if equal:
        ignored = {"managedFields": None, "resourceVersion": None}
        equal = tree.equal({**metadata, **ignored}, {**before, **ignored})
    TIMESTAMP_COMPARISON.observe(time.monotonic() - began, "equalObjectsSlow" if equal else "unequalObjectsSlow")
    return equal


def _equal_but_for_times(entries: list[Object], stored: list[Object]) -> bool:
    for entry, known in zip(elements(entries), stored, strict=True):
        if not tree.equal(entry, known) and not tree.equal({**entry, "time": None}, {**known, "time": None}):
            return False
    return True


def _equal_but_for_metadata(new: Object, old: Object) -> bool:
    for key in {*new, *old}:  # each write comes this way
        if key != "metadata" and not tree.equal(new.get(key), old.get(key)):
            return False
    return True


#: apiVersion -> (type, conversion from the written version, conversion to it)
Versions = Mapping[str, tuple[Type, Callable[[Object], Object], Callable[[Object], Object]]]


class _OtherVersions:
    """The other versions of a kind, each made when a manager has fields in it."""

    def __init__(self, versions: Versions, shapes: Shapes) -> None:
        self._versions = versions
        self._shapes = shapes
        self._made: dict[str, Version] = {}

    def find(self, api_version: str) -> Version | None:
        """A version, or None if it does not exist."""
        found = self._made.get(api_version)
        if found is None:
            given = self._versions.get(api_version)
            if given is not None:
                type_, from_hub, to_hub = given
                found = self._made[api_version] = Version(shape_of(type_, self._shapes), from_hub, to_hub)
        return found


class FieldManager:
    """Maintains ``managedFields`` for one kind and endpoint.

    ``type_`` None means a custom resource without a schema.  ``reset_fields`` are dotted paths.  ``versions`` gives other
    versions of the kind by their apiVersion; ``strict`` (custom resources): a write fails when the object does not fit a version
    in which a manager has fields.
    """

    def __init__(
        self,
        type_: Type | None,
        gvk: GroupVersionKind,
        reset_fields: Iterable[str] = (),
        subresource: str = "",
        *,
        versions: Versions | None = None,
        strict: bool = False,
    ) -> None:
        self.gvk = gvk
        self._token = object()  # identifies this manager in a cache that may outlive it
        self.api_version = str(gvk.group_version)
        self.subresource = subresource
        shapes = Shapes()
        self.shape = DEDUCED if type_ is None else shape_of(type_, shapes)
        others = _OtherVersions(versions or {}, shapes)
        self.updater = Updater(self.shape, self.api_version, reset_set(reset_fields), others.find, strict)
        zero = zero_value(type_) if type_ is not None else {}
        self.empty: Object = {**zero, "apiVersion": self.api_version, "kind": gvk.kind}
        #: whether all values of an empty object are empty, so that a field set depends on the structure alone
        self._empty_holds_nothing = holds_nothing(zero)

    # -- create, update, patch ------------------------------------------------------------------------------------

    def update(self, live: Object | None, new: Object, manager: str, now: str) -> None:
        """Sets ``metadata.managedFields`` of an object about to be written (``live`` None: about to be created).

        ``now`` is RFC 3339, whole seconds.  It never fails: an object that does not fit its type gets no entries.
        """
        metadata = new.setdefault("metadata", {})
        given = metadata.pop("managedFields", None)
        if live is None and not given:
            self._first_entry(new, manager, now)
            return
        stored = ((live or {}).get("metadata") or {}).get("managedFields")
        managers, times = self._ownership(given, stored)
        old = self.empty if live is None else _without_managed_fields(live)
        if not managers and live is not None and (live.get("metadata") or {}).get("uid"):
            return  # ownership was never tracked, or reset: tracking starts with the first apply
        me = Manager(manager or "unknown", "Update", self.api_version, self.subresource)
        try:
            difference = self.updater.compare(old, new)
            if self._only_own_fields(me, managers, difference):
                metadata["managedFields"] = encode(managers, {**times, me: now}, canonical=True)
                return
            managers, times = self._updated(old, new, managers, times, me, now, difference)
        except ValueError:
            return
        entries = encode(managers, times)
        if entries:
            metadata["managedFields"] = entries

    def _only_own_fields(self, me: Manager, managers: Managers, difference: comparing.Comparison) -> bool:
        """Whether a write changes only fields that ``me`` owns alone, so that only the time of its entry changes.

        That is so for most updates: by controllers that write the same fields again and again.
        """
        mine, changed, removed = managers.get(me), difference.changed, difference.removed
        if mine is None or not fieldset.contains(mine.fields, changed) or len(managers) > MAX_UPDATE_MANAGERS:
            return False
        if not changed or fieldset.intersection(changed, _STRIPPED):
            return False
        for owned in managers.values():
            fields = owned.fields
            if owned.api_version != self.api_version or fieldset.intersection(fields, removed):
                return False
            if owned is not mine and fieldset.intersection(fields, changed):
                return False
            if reconcile(self.shape, fields) is not fields:
                return False
        return True

    def _first_entry(self, new: Object, manager: str, now: str) -> None:
        """Sets ``metadata.managedFields`` of an object about to be created without any."""
        try:
            fields = self._fields_of_new(new)
        except ValueError:
            return
        if fields:
            me = Manager(manager or "unknown", "Update", self.api_version, self.subresource)
            new["metadata"]["managedFields"] = [entry_of(me, Owned(fields, self.api_version, False), now, fields)]

    def _fields_of_new(self, new: Object) -> Set:
        """The canonical set of all fields of a new object, cached by its structure.  Raises ValueError."""
        key: object = None
        if self._empty_holds_nothing:
            try:
                key = (self._token, structure(self.shape, new))
                known = _created.get(key)
            except TypeError:
                key = known = None
            if known is not None:
                return known
        fields, _ = self.updater.update(self.empty, new, {})
        fields = fieldset.canonical(fieldset.difference(fields, _STRIPPED))
        if key is not None and len(json_pieces.dumps(fields)) <= MAX_CACHED_BYTES:
            _created.add(key, fields)
        return fields

    def _ownership(self, given: object, stored: object) -> tuple[Managers, Times]:
        """Ownership before the write: from the client's object if it is valid there, otherwise from the stored object."""
        if not self.subresource:
            if is_reset(given):
                return {}, {}
            if given:
                try:
                    managers, times = decode(given)
                    if managers:
                        return managers, times
                except (InvalidManagedFields, AttributeError, TypeError):
                    pass
        try:
            return decode(stored)
        except (InvalidManagedFields, AttributeError, TypeError):
            return {}, {}

    def _updated(
        self,
        old: Object,
        new: Object,
        managers: Managers,
        times: Times,
        me: Manager,
        now: str,
        difference: comparing.Comparison | None = None,
    ) -> tuple[Managers, Times]:
        fields, managers = self.updater.update(old, new, managers, difference)
        fields = fieldset.difference(fields, _STRIPPED)
        if fields:
            previous = managers.get(me)
            if previous is not None:
                fields = fieldset.union(fields, previous.fields)
            managers = {**managers, me: Owned(fields, self.api_version, False)}
            times = {**times, me: now}
        return capped(managers, times)

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply(self, live: Object | None, applied: Object, manager: str, force: bool, now: str) -> Object:
        """The object with a configuration applied and its ``managedFields``; neither argument is changed.

        The result still has to be decoded and given defaults like any written object (removed containers are null).
        When the configuration changes nothing the live values come back.  Raises StatusError: conflicts (409), a
        wrong kind or version (400), values that do not fit the type (500, as upstream).
        """
        live = self.empty if live is None else live
        try:
            managers, times = decode((live.get("metadata") or {}).get("managedFields"))
        except InvalidManagedFields as error:
            raise StatusError(f"failed to decode managed fields: {error}") from None
        self.check_kind(applied)
        old = _without_managed_fields(live)
        try:
            try:
                result, managers, times = self._applied(old, applied, managers, times, manager, force, now)
            except Conflicts as conflicts:
                if manager != "kubectl":
                    raise
                allowed = lastapplied.owned_fields(self.shape, old, self.api_version)
                if allowed is None:
                    raise
                refused = [c for c in conflicts.conflicts if not fieldset.has(allowed, c.path)]
                if refused:
                    raise Conflicts(refused) from None
                result, managers, times = self._applied(old, applied, managers, times, manager, True, now)
        except Conflicts as conflicts:
            raise conflicts.status() from None
        if manager == "kubectl":
            result = lastapplied.refreshed(result, applied)
        metadata = {key: value for key, value in (result.get("metadata") or {}).items() if key != "managedFields"}
        entries = encode(managers, times)
        if entries:
            metadata["managedFields"] = entries
        return {**result, "metadata": metadata}

    def _applied(
        self, old: Object, applied: Object, managers: Managers, times: Times, manager: str, force: bool, now: str
    ) -> tuple[Object, Managers, Times]:
        tracked = bool(managers)
        if not tracked:
            # existing fields belong to an artificial manager "before-first-apply"
            text = "failed to create manager for existing fields: failed to convert new object ({}) to smd typed: {}"
            self._check_type(old, text, allow_duplicates=True)
            before = Manager(BEFORE_FIRST_APPLY, "Update", self.api_version, self.subresource)
            managers, times = self._updated(self.empty, old, managers, times, before, now)
        self._check_applied(applied)
        self._check_type(applied, "failed to create typed patch object ({}): {}")
        if tracked:
            self._check_type(old, "failed to create typed live object ({}): {}", allow_duplicates=True)
        me = Manager(manager or "unknown", "Apply", "", self.subresource)
        try:
            result, managers = self.updater.apply(old, applied, managers, me, force)
        except typed.SchemaError as error:
            raise StatusError(str(error)) from None
        except ValueError as error:  # of the conversion to another manager's version
            raise StatusError(f"failed to convert new object: {self._unreadable(str(error))}") from None
        mine = managers.get(me)
        if mine is not None:
            fields = fieldset.difference(mine.fields, _STRIPPED)
            managers = {key: owned for key, owned in managers.items() if key != me}
            if fields:
                managers[me] = Owned(fields, mine.api_version, True)
        if result is None:
            return old, managers, times
        return result, managers, {**times, me: now}

    def _check_type(self, obj: Object, text: str, *, allow_duplicates: bool = False) -> None:
        """Raises StatusError with ``text``, of the object's name and why it does not fit."""
        try:
            typed.validate(self.shape, obj, allow_duplicates=allow_duplicates)
        except typed.SchemaError as error:
            raise StatusError(text.format(self._names(obj), error)) from None

    def conversion_error(self, applied: Object, why: str) -> StatusError:
        """The error when the result of an apply cannot be decoded."""
        names = self._names(applied)
        return StatusError(f"failed to convert new object ({names}) to proper version: {self._unreadable(why)}")

    def _unreadable(self, why: str) -> str:
        return f"unable to convert unstructured object to {_gvk_text(self.api_version, self.gvk.kind)}: {why}"

    def check_kind(self, applied: Object) -> None:
        """Raises BadRequest for a configuration of another kind or version."""
        given, kind = _text(applied, "apiVersion"), _text(applied, "kind")
        if given != self.api_version or kind != self.gvk.kind:
            raise BadRequest(f"invalid object type: {_gvk_text(given, kind)}")

    def _check_applied(self, applied: Object) -> None:
        metadata = applied.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
            raise BadRequest("metadata.managedFields must be nil")

    def _names(self, obj: Object) -> str:
        metadata = obj.get("metadata")
        kind = _gvk_text(_text(obj, "apiVersion"), _text(obj, "kind"))
        if not isinstance(metadata, dict):
            return f"/; {kind}"
        return f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}; {kind}"


def _text(obj: Object, name: str) -> str:
    """A string field of an object of unknown type; "" for any other value, as upstream."""
    value = obj.get(name)
    return value if isinstance(value, str) else ""


def _gvk_text(api_version: str, kind: str) -> str:
    if api_version.count("/") > 1:
        return "/, Kind="
    group, slash, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def _without_managed_fields(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
