"""Event (v1).  The same objects are served as events.k8s.io/v1; they are stored as core events.

Upstream: ``pkg/apis/core/validation/events.go``, ``pkg/registry/core/event``."""

from __future__ import annotations

from kapi.machinery.ages import since
from kapi.machinery.field import FieldError, Path, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, Strategy, StrategyContext, selectable, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.names import is_dns1123_subdomain, is_label_key
from kapi.resources.shared.rules import Errors, need, report

_INVOLVED_NAMESPACE = Path("involvedObject").child("namespace")
_LIMITS = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}  # bytes


def validate_event(event: Object, controller: str, errors: Errors) -> None:
    """The rules of both APIs; ``controller`` is the name of the reporting controller's field in the request's version."""
    namespace = event["metadata"].get("namespace") or ""
    involved = (event.get("involvedObject") or {}).get("namespace") or ""
    if not event.get("eventTime"):
        fits = namespace in ("", "default") if not involved else namespace == involved
    else:
        fits = bool(involved) or namespace in ("default", "kube-system")
    if not fits:
        errors.append(invalid(_INVOLVED_NAMESPACE, involved, "does not match event.namespace"))
    if event.get("eventTime"):
        name, path = event.get("reportingComponent") or "", Path(controller)
        need(name, path, errors)
        report(is_label_key(name), name, path, errors)
        for field, limit in _LIMITS.items():
            text = event.get(field) or ""
            if not text and field != "message":
                errors.append(required(Path(field)))
            if len(text.encode()) > limit:
                errors.append(invalid(Path(field), "", f"can have at most {limit} characters"))
    errors += [invalid(Path("namespace"), namespace, problem) for problem in is_dns1123_subdomain(namespace)]


class EventStrategy(Strategy):
    """The core API checks little; ``kapi/resources/events.py`` has the strategy of the newer API."""

    allow_create_on_update = True

    def default(self, obj: Object) -> None:
        for name in ("involvedObject", "source"):
            obj.setdefault(name, {})

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: Errors = []
        validate_event(obj, "reportingComponent", errors)
        return errors

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self.validate(obj, ctx)

    def default_garbage_collection(self, obj: Object, ctx: StrategyContext) -> str:
        return "unsupported"


def _first_seen(event: Object, now: float) -> str:
    return since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: Object, now: float) -> str:
    if event.get("series") is not None:
        return since(event["series"].get("lastObservedTime"), now)
    return since(event["lastTimestamp"], now) if event.get("lastTimestamp") else _first_seen(event, now)


def _count(event: Object, now: float) -> int:
    if event.get("series") is not None:
        return int(event["series"].get("count", 0))
    return event.get("count") or 1


def _target(event: Object, now: float) -> str:
    involved = event.get("involvedObject") or {}
    kind = involved.get("kind", "").lower()
    return f"{kind}/{involved['name']}" if involved.get("name") else kind


def _source(event: Object, now: float) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


TABLE = printing.table(
    printing.column("Last Seen", _last_seen, ".lastTimestamp"),
    printing.column("Type", lambda event, now: event.get("type", ""), ".type"),
    printing.field_column("Reason", ".reason"),
    printing.column("Object", _target, ".involvedObject"),
    printing.field_column("Subobject", ".involvedObject.fieldPath", of="api.core.v1.ObjectReference", priority=1),
    printing.column("Source", _source, ".source", priority=1),
    printing.column("Message", lambda event, now: (event.get("message") or "").strip(), ".message"),
    printing.column("First Seen", _first_seen, ".firstTimestamp", priority=1),
    printing.column("Count", _count, ".count", priority=1),
    printing.column("Name", printing.name, printing.NAME_TEXT, priority=1, format="name"),
    of="api.core.v1.Event",
)

_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_SELECTABLE = {
    **{f"involvedObject.{name}": selectable(f"involvedObject.{name}") for name in _INVOLVED},
    **{name: selectable(name) for name in ("reason", "reportingComponent", "type")},
    "source": lambda event: (event.get("source") or {}).get("component") or event.get("reportingComponent") or "",
}

RESOURCE = Resource(
    *type_meta("v1", "Event"),
    short_names=("ev",),
    strategy=EventStrategy(),
    table=TABLE,
    selectable_fields=_SELECTABLE,
    ttl=True,
)
