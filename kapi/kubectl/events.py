"""``kapi events`` (upstream: kubectl ``cmd/events``)."""

from __future__ import annotations

from kapi.client.errors import NoMatch
from kapi.kubectl.command import Help
from kapi.kubectl.describers.events import interval
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import PRINT, Flag, shared
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.printers.tabwriter import ESCAPES, TabWriter
from kapi.kubectl.waiting import watched
from kapi.machinery.tree import Object, dig

FLAGS = (
    *PRINT,
    *shared("watch all-namespaces no-headers chunk-size"),
    Flag("for", help="The condition: create, delete, condition=NAME[=VALUE] or jsonpath='{PATH}'[=VALUE]."),
    Flag("types", "list", help="Only events of these types: Normal, Warning."),
)
#: the fields of an event in the order of its type
_FIELDS = (
    "kind", "apiVersion", "metadata", "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp",
    "count", "type", "eventTime", "series", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
_FIELDS_WITHIN = {
    "metadata": (
        "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
        "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
        "managedFields",
    ),
    "involvedObject": ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"),
}  # fmt: skip
_FIELDS_WITHIN["related"] = _FIELDS_WITHIN["involvedObject"]
HELP = Help(
    "[--for TYPE/NAME]",
    "Lists events by time, the newest last.",
    ("Show the events of a namespace", "events"),
    ("Follow the warnings about a pod", "events --for pod/web-0 --types=Warning --watch"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    everywhere = flags.get_bool("all-namespaces")
    factory.check_namespace()
    fields = await _about(factory, flags.get_string("for")) if flags.get_string("for") else ""
    printer = printer_for(flags, typed=True) if flags.get_string("output") else None
    types = [one.lower() for one in flags.get_list("types")]
    if any(one not in ("normal", "warning") for one in types):
        raise CommandError("valid --types are Normal or Warning")

    def wanted(event: Object) -> bool:
        return not types or str(event.get("type", "")).lower() in types

    namespace = "" if everywhere else factory.namespace
    table = _Table(everywhere, headers=not flags.get_bool("no-headers"))
    request = factory.client("v1").get().namespace(namespace).resource("events").param("fieldSelector", fields)
    if flags.get_bool("watch"):
        async for change in watched(factory, request.timeout(0)):
            if change.type in ("ADDED", "MODIFIED") and wanted(change.object):
                event = _in_order(change.object)
                factory.out.write(printer.print(event) if printer is not None else table.text([event]))
                factory.out.flush()
        return 0
    events: list[Object] = []
    token = ""
    while True:
        page = await _page(factory, namespace, fields, token)
        events += [event for event in page.get("items") or () if wanted(event)]
        token = dig(page, "metadata", "continue") or ""
        if not token:
            break
    if not events:
        factory.err.write("No events found.\n" if everywhere else f"No events found in {namespace} namespace.\n")
        return 0
    events = [_in_order(event) for event in sorted(events, key=_time)]
    if printer is None:
        factory.out.write(table.text(events))
    elif flags.get_string("output") != "name":  # the NamePrinter of kubectl prints no typed lists, and nothing of that
        listed: Object = {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": events}
        factory.out.write(printer.print(listed))
    return 0


def _in_order(event: Object) -> Object:
    """The event with its fields in the order of its type, as kubectl prints it in JSON."""
    given = {"kind": "Event", "apiVersion": "v1", "source": {}, **event}
    found = {name: given[name] for name in _FIELDS if name in given}
    for name, fields in _FIELDS_WITHIN.items():
        if isinstance(found.get(name), dict):
            found[name] = {field: found[name][field] for field in fields if field in found[name]}
    return found


async def _page(factory: Factory, namespace: str, fields: str, token: str) -> Object:
    request = factory.client("v1").get().namespace(namespace).resource("events")
    page: Object = await request.params(
        {"fieldSelector": fields, "limit": factory.flags.get_int("chunk-size"), "continue": token}
    ).do()
    return page


async def _about(factory: Factory, text: str) -> str:
    """The field selector for ``TYPE/NAME``.  Raises CommandError."""
    resource, slash, name = text.partition("/")
    if not slash:
        raise CommandError("--for must be in resource/name form")
    if "/" in name:
        raise CommandError("arguments in resource/name form may not have more than one slash")
    if not resource:
        raise CommandError("a resource must be present, got: /, Resource=")
    try:
        mapping = await factory.mapper.resource_for(resource.lower())
    except NoMatch as error:
        raise CommandError(str(error), plain=True) from None
    if not name:
        return ""  # all events, as kubectl
    kind, version = mapping.kind, mapping.group_version
    return f"involvedObject.kind={kind},involvedObject.apiVersion={version},involvedObject.name={name}"


def _time(event: Object) -> str:
    series = event.get("series")
    found = (
        series.get("lastObservedTime") if series is not None else event.get("lastTimestamp") or event.get("eventTime")
    )
    text = str(found or "").rstrip("Z")
    return text.rstrip("0").rstrip(".") if "." in text else text


class _Table:
    """Rows of events; the headers come with the first ones."""

    def __init__(self, with_namespace: bool, *, headers: bool) -> None:
        self._with_namespace, self._headers = with_namespace, headers
        self._writer = TabWriter()

    def text(self, events: list[Object]) -> str:
        if self._headers:
            self._row("NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
            self._headers = False
        for event in events:
            about = event.get("involvedObject") or {}
            cells = [event.get("type", ""), event.get("reason", ""), f"{about.get('kind', '')}/{about.get('name', '')}"]
            cells.append((event.get("message") or "").strip())
            namespace = dig(event, "metadata", "namespace") or ""
            self._row(namespace, interval(event), *(cell.translate(ESCAPES) for cell in cells))
        return self._writer.flush()

    def _row(self, namespace: str, *cells: str) -> None:
        self._writer.row((namespace, *cells) if self._with_namespace else cells)
