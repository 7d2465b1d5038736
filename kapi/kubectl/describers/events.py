"""The table of events below an object."""

from __future__ import annotations

from kapi.kubectl.describers.lines import NONE, Lines, age, at
from kapi.machinery.tree import Object


def interval(event: Object) -> str:
    """The age of an event; for a repeated event also the count and the first time."""
    first = age(event.get("eventTime") or event.get("firstTimestamp"))
    if (series := event.get("series")) is not None:
        return f"{age(series.get('lastObservedTime'))} (x{series.get('count', 0)} over {first})"
    if event.get("count", 0) > 1:
        return f"{age(event.get('lastTimestamp'))} (x{event['count']} over {first})"
    return first


def describe_events(out: Lines, events: list[Object]) -> None:
    if not events:
        out.put(f"Events:\t{NONE}\n")
        return
    out.put("Events:\n")
    rows = []
    for event in sorted(events, key=lambda one: str(one.get("lastTimestamp") or "")):
        message, path = (event.get("message") or "").strip(), at(event, "involvedObject.fieldPath")
        source = at(event, "source.component") or event.get("reportingComponent", "")
        message = f"{path}: {message}" if path else message
        rows.append("\t".join([event.get("type", ""), event.get("reason", ""), interval(event), source, message]))
    out.table(("Type", "Reason", "Age", "From", "Message"), rows, 1)
