"""``kapi get --watch``: what there is, then what changes (upstream: kubectl ``cmd/get/get.go``, watch)."""

from __future__ import annotations

from typing import Any

from kapi.cli.info import Info
from kapi.cli.messages import CommandError
from kapi.cli.print_flags import printer_for
from kapi.cli.printers.table import TablePrinter
from kapi.cli.printers.tabwriter import TabWriter
from kapi.machinery.tree import Object


async def watch(options: Any) -> int:
    """Until the server ends it, or the user does.  ``options`` are GetOptions."""
    result = await options.builder().do()
    infos = await result.infos()
    result.raise_errors()
    kinds = {info.mapping for info in infos}
    if len(kinds) > 1:
        raise CommandError(
            f"watch is only supported on individual resources and resource collections - {len(infos)} resources were found"
        )
    if not infos:
        return 0
    show = _Shown(options, infos[0])
    info, obj = infos[-1], infos[-1].object or {}
    version = (obj.get("metadata") or {}).get("resourceVersion") or "0"
    if not options.flags["watch-only"]:
        for each in infos:
            show(each.object or {}, "ADDED")
    request = info.client.get().namespace(info.namespace).resource(info.mapping.name).timeout(0)
    fields = options.flags["field-selector"]
    if info.name:
        fields = f"metadata.name={info.name}"
        version = _row_version(obj) or version
    request = options.transform(request).params(
        {"resourceVersion": version, "labelSelector": options.flags["selector"], "fieldSelector": fields}
    )
    events = await request.watch()
    try:
        async for event in events:
            if event.type != "BOOKMARK":
                show(event.object, event.type)
    finally:
        events.close()
    return 0


def _row_version(obj: Object) -> str:
    rows = obj.get("rows") or []
    return str(((rows[0].get("object") or {}).get("metadata") or {}).get("resourceVersion") or "") if rows else ""


class _Shown:
    """Prints one object or table after the other."""

    def __init__(self, options: Any, info: Info) -> None:
        self._out, self._events = options.factory.out, options.flags["output-watch-events"]
        self._printer: Any = None
        self._writer = TabWriter()
        if options.human:
            with_kind = options.flags["show-kind"]
            self._table = TablePrinter(options.options(info, with_kind), info.mapping, self._writer)
        else:
            self._printer = printer_for(options.flags, columns=True)

    def __call__(self, obj: Object, event: str) -> None:
        if self._printer is None:
            self._table.print(obj, event if self._events else "")
            self._out.write(self._writer.flush())
        else:
            for item in obj["items"] if isinstance(obj.get("items"), list) else [obj]:
                shown = {"type": event, "object": item} if self._events else item
                self._out.write(self._printer.print(shown))
        self._out.flush()
