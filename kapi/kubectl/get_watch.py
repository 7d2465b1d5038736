"""``kapi get --watch``: prints the objects that exist, then their changes (upstream: kubectl ``cmd/get/get.go``, watch)."""

from __future__ import annotations

from typing import Protocol

from kapi.client.rest import Request
from kapi.kubectl.builder import Builder
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flags
from kapi.kubectl.info import Info, items_of
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.printers.interface import Printer
from kapi.kubectl.printers.table import PrintOptions, TablePrinter
from kapi.kubectl.printers.tabwriter import TabWriter
from kapi.kubectl.waiting import watched
from kapi.machinery.tree import Object

_EVENT_WIDTH = len("MODIFIED")


class WatchOptions(Protocol):
    """The part of GetOptions that a watch needs."""

    factory: Factory
    flags: Flags
    human: bool

    def builder(self) -> Builder: ...

    def transform(self, request: Request) -> Request: ...

    def options(self, info: Info, with_kind: bool) -> PrintOptions: ...


async def watch(options: WatchOptions) -> int:
    """Runs until the server or the user ends it.  Returns the exit code."""
    begun = options.factory.reactor.seconds()
    result = await options.builder().single_resource_type().do()
    result.ignore_not_found = options.flags.get_bool("ignore-not-found")
    infos = await result.all_or_first_error()
    if not infos:
        return 0
    show = _Shown(options, infos[0])
    info, obj = infos[-1], infos[-1].object or {}
    version = (obj.get("metadata") or {}).get("resourceVersion") or "0"
    known = ""  # of a single object: a watch from version "0" begins with it, and it was printed already
    if not options.flags.get_bool("watch-only"):
        pages = len(infos) > 1 and not info.name
        show([each.object or {} for each in infos], "ADDED", whole=pages)
    if result.sources != 1:
        raise CommandError("you may only watch a single resource or type of resource at a time")
    if len(infos) > 1 and info.name:
        raise CommandError(
            f"watch is only supported on individual resources and resource collections - {len(infos)} resources were found"
        )
    request = info.client.get().namespace(info.namespace).resource(info.mapping.name).timeout(0)
    fields = options.flags.get_string("field-selector")
    if info.name:
        fields = f"metadata.name={info.name}"
        known, version = _version(obj), "0"
    request = options.transform(request).params(
        {"resourceVersion": version, "labelSelector": options.flags.get_string("selector"), "fieldSelector": fields}
    )
    async for event in watched(options.factory, request, begun):
        if event.type != "BOOKMARK" and not (known and _version(event.object) == known):
            show([event.object], event.type)
        known = ""
    return 0


def _version(obj: Object) -> str:
    return _row_version(obj) or str((obj.get("metadata") or {}).get("resourceVersion") or "")


def _row_version(obj: Object) -> str:
    rows = obj.get("rows") or []
    return str(((rows[0].get("object") or {}).get("metadata") or {}).get("resourceVersion") or "") if rows else ""


class _Shown:
    """Prints objects or tables; ``whole``: lists as they are, not their items."""

    def __init__(self, options: WatchOptions, info: Info) -> None:
        self._out, self._events = options.factory.out, options.flags.get_bool("output-watch-events")
        self._printer: Printer | None = None
        self._writer = TabWriter()
        if options.human:
            with_kind = options.flags.get_bool("show-kind")
            self._table = TablePrinter(options.options(info, with_kind), info.mapping, self._writer)
        else:
            self._printer = printer_for(options.flags, columns=True)

    def __call__(self, objects: list[Object], event: str, *, whole: bool = False) -> None:
        for obj in objects:
            if self._printer is None:
                self._table.print(obj, event.ljust(_EVENT_WIDTH) if self._events else "")
                continue
            items = items_of(obj) if isinstance(obj.get("items"), list) else [obj]
            for item in [{**obj, "items": items}] if whole else items:
                self._out.write(
                    self._printer.print(item) if not self._events else self._printer.print_event(event, item)
                )
        self._out.write(self._writer.flush())
        self._out.flush()
