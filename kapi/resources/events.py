"""Event (events.k8s.io/v1): the new view of core events (KEP-383).

Upstream: ``pkg/apis/events/v1/conversion.go``, ``pkg/apis/core/validation/events.go``."""

from __future__ import annotations

from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.tree import Object
from kapi.resources.core.events import RESOURCE as CORE
from kapi.resources.core.events import TABLE, EventStrategy, validate_event
from kapi.resources.definition import Resource, StrategyContext, TableColumns, type_meta
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import IMMUTABLE, validate_metadata, validate_metadata_update
from kapi.resources.shared.rules import Errors, need, same

#: name in this API -> name in the core API
_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_CORE_NAMES = {core: name for name, core in _NAMES.items()}
#: fields that the core API always writes, and this one may leave out
_CORE_ALWAYS: Object = {
    "involvedObject": {}, "source": {}, "firstTimestamp": None, "lastTimestamp": None, "eventTime": None,
    "reportingComponent": "", "reportingInstance": "",
}  # fmt: skip
_ALWAYS: Object = {
    "regarding": {}, "deprecatedSource": {}, "deprecatedFirstTimestamp": None, "deprecatedLastTimestamp": None,
    "eventTime": None,
}  # fmt: skip


def to_storage(event: Object) -> Object:
    """The core form of an event."""
    stored = {_NAMES.get(name, name): value for name, value in event.items()}
    stored["apiVersion"] = "v1"
    for name, empty in _CORE_ALWAYS.items():
        stored.setdefault(name, {} if empty == {} else empty)
    return stored


def from_storage(event: Object) -> Object:
    """The form of an event in this API."""
    view = {_CORE_NAMES.get(name, name): value for name, value in event.items()}
    view["apiVersion"] = "events.k8s.io/v1"
    for name in ("reportingController", "reportingInstance"):
        if not view.get(name):
            view.pop(name, None)
    for name, empty in _ALWAYS.items():
        view.setdefault(name, {} if empty == {} else empty)
    return view


def _series(event: Object, errors: Errors) -> None:
    series = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        errors.append(invalid(Path("series.count"), "", "should be at least 2"))
    need(series.get("lastObservedTime"), Path("series.lastObservedTime"), errors)


#: the paths of the fields that may not change, in upstream's order, with the reason twice
_FIXED = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason", "type",
    "eventTime", "action", "related", "reportingController", "reportingInstance",
)  # fmt: skip


class NewEventStrategy(EventStrategy):
    """The strategy of this API, which checks more than the core API; objects are in the core form."""

    def default(self, obj: Object) -> None:
        """No defaults: ``to_storage`` has set the fields that are never absent."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: Errors = []
        validate_event(obj, "reportingController", errors)
        validate_metadata(obj, errors)
        _series(obj, errors)
        need(obj.get("eventTime"), Path("eventTime"), errors)
        if obj.get("type") not in ("Normal", "Warning"):
            errors.append(invalid(Path("type"), "", f"has invalid value: {obj.get('type') or ''}"))
        for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
            if obj.get(name):
                errors.append(invalid(Path(name), "", "needs to be unset"))
        return errors

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: Errors = []
        validate_event(obj, "reportingController", errors)
        validate_metadata_update(obj, old, errors)
        if not same(obj.get("series"), old.get("series")):
            _series(obj, errors)
        for path in _FIXED:
            name = "reportingComponent" if path == "reportingController" else path
            after, before = obj.get(name), old.get(name)
            if name != "related":  # a pointer upstream, so an empty one differs from none
                after, before = after or None, before or None
            if after != before:
                shown = internal("Event", obj)[path[0].upper() + path[1:]]
                errors.append(invalid(Path(path), shown, IMMUTABLE))
        return errors


_FIELDS = {
    "reason": "reason",
    "type": "type",
    "reportingController": "reportingComponent",
    **{name.replace("involvedObject", "regarding"): name for name in CORE.selectable_fields if "." in name},
}

RESOURCE = Resource(
    *type_meta("events.k8s.io/v1", "Event"),
    short_names=("ev",),
    strategy=NewEventStrategy(),
    table=TableColumns(TABLE.columns, lambda event, now: TABLE.cells(to_storage(event), now)),
    selectable_fields={name: CORE.selectable_fields[core] for name, core in _FIELDS.items()},
    field_aliases=_FIELDS,
    storage_group="core",
    storage_version="v1",
    to_storage=to_storage,
    from_storage=from_storage,
    ttl=True,
)
