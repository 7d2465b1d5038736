"""``kapi get`` (upstream: kubectl ``cmd/get/get.go``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.client.rest import Request
from kapi.kubectl.builder import Builder
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.raw import raw_path
from kapi.kubectl.visitor import Result
from kapi.machinery.tree import Object

if TYPE_CHECKING:  # imported only by commands that print tables
    from kapi.kubectl.printers.table import PrintOptions
    from kapi.kubectl.printers.tabwriter import TabWriter

FLAGS = (
    *FILENAME,
    *PRINT,
    *shared(
        "selector field-selector all-namespaces no-headers sort-by chunk-size ignore-not-found raw subresource watch"
    ),
    Flag("show-kind", "bool", help="Show the kind before each name."),
    Flag("show-labels", "bool", help="Show all labels as the last column."),
    Flag("label-columns", "list", short="L", help="Labels to show as columns, separated by commas; may be repeated."),
    Flag("watch-only", "bool", help="Show each change, without the objects that are there."),
    Flag("output-watch-events", "bool", help="Show with each object what happened: ADDED, MODIFIED or DELETED."),
    Flag("server-print", "bool", default=True, help="Let the server choose and fill the columns."),
)
_TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
HELP = Help(
    "(TYPE[.VERSION][.GROUP] [NAME | -l LABEL] | TYPE/NAME ...) [-o FORMAT]",
    "Lists the objects of a type, or shows those that are named. Of several types at once, such as pods,services,\n"
    "and of files with -f. Without -o it prints the table that the server makes.",
    ("Show all pods of the namespace", "get pods"),
    ("Show the pods of all namespaces, with their nodes", "get pods -A -o wide"),
    ("Show one deployment as YAML", "get deployment web -o yaml"),
    ("Show the names of the pods with a label", "get pods -l app=web -o name"),
    ("Print one field", "get pod web-0 -o jsonpath='{.status.phase}'"),
    ("Show services now, and each change of one", "get services -w"),
)


class GetOptions:
    """The flags of the command; ``validate`` checks them, ``run`` reads and prints the objects."""

    def __init__(self, factory: Factory, program: str) -> None:
        flags = factory.flags
        self.factory, self.flags, self.program = factory, flags, program
        self.everywhere: bool = flags.get_bool("all-namespaces")
        self.output: str = flags.get_string("output")
        if not self.output and flags.get_string("template"):
            self.output = "go-template"
        self.human = self.output in ("", "wide")
        self.watching = flags.get_bool("watch") or flags.get_bool("watch-only")
        self.sort_by = flags.get_string("sort-by")

    def validate(self) -> None:
        """Raises CommandError."""
        flags = self.flags
        if flags.get_string("raw"):
            if flags.arguments:
                raise CommandError("arguments may not be passed when --raw is specified")
            if self.watching or flags.get_string("selector"):
                raise CommandError(
                    "--raw may not be specified with other flags that filter the server request or alter the output"
                )
            if flags.get_string("output"):
                raise CommandError("--raw and --output are mutually exclusive")
            raw_path(flags.get_string("raw"))
        else:
            self._complete()
        if flags.get_bool("show-labels") and flags.get_string("output") not in ("", "wide"):
            raise CommandError(f"--show-labels option cannot be used with {self.output} printer")
        if flags.get_list("label-columns") and self.output.startswith("custom-columns"):
            raise CommandError(f"--label-columns option cannot be used with {self.output} printer")
        if flags.get_bool("output-watch-events") and not self.watching:
            raise CommandError("--output-watch-events option can only be used with --watch or --watch-only")

    def _complete(self) -> None:
        """Raises CommandError."""
        flags = self.flags
        assert self.factory.namespace
        if self.watching and self.sort_by:
            self.factory.err.write(
                "warning: --watch requested, --sort-by will be ignored for watch events received\n"
                if flags.get_bool("watch")
                else "warning: --watch-only requested, --sort-by will be ignored\n"
            )
        if not self.watching and not flags.arguments and not flags.get_list("filename"):
            self.factory.err.write(
                f'You must specify the type of resource to get. Use "{self.program} api-resources" for a complete list of '
                "supported resources.\n\n"
            )
            raise CommandError(
                f'Required resource not specified.\nUse "{self.program} explain <resource>" for a detailed description of '
                f"that resource (e.g. {self.program} explain pods).",
                usage=f"{self.program} get",
            )

    async def run(self) -> int:
        if self.flags.get_string("raw"):
            path = raw_path(self.flags.get_string("raw"))
            self.factory.out.write((await self.factory.client().get().abs_path(path).raw()).decode())
            return 0
        if self.watching:
            from kapi.kubectl.get_watch import watch

            return await watch(self)
        result = await self.builder().flatten().do()
        result.ignore_not_found = self.flags.get_bool("ignore-not-found")
        if not self.human:
            return await self._print_generic(result)
        return await self._print_tables(result)

    def builder(self) -> Builder:
        flags = self.flags
        namespace = self.factory.namespace
        return (
            Builder(self.factory, self.program)
            .namespace(
                namespace,
                enforce=bool(flags.get_string("namespace")) and not self.everywhere,
                everywhere=self.everywhere,
            )
            .filenames(flags.get_list("filename"), flags.get_bool("recursive"))
            .labels(flags.get_string("selector"))
            .fields(flags.get_string("field-selector"))
            .subresource(flags.get_string("subresource"))
            .chunks_of(0 if self.sort_by else flags.get_int("chunk-size"))
            .resource_type_or_name(flags.arguments)
            .latest()
            .transform_requests(self.transform)
        )

    def transform(self, request: Request) -> Request:
        """Makes a request ask for a Table, if a table will be printed."""
        if not (self.human and self.flags.get_bool("server-print")):
            return request
        request.header("Accept", _TABLE)
        return request.param("includeObject", "Object") if self.sort_by else request

    async def _print_generic(self, result: Result) -> int:
        infos = await result.infos()
        if result.single:
            raise_errors(result.errors)
        if not infos and result.ignore_not_found:
            raise_errors(result.errors)
            return 0
        printer = printer_for(self.flags, columns=True)
        if result.single and len(infos) == 1:
            obj: Object = infos[0].object or {}
        else:
            items = [info.object for info in infos]
            obj = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}
        with result.caught():
            if self.sort_by and isinstance(obj.get("items"), list) and obj["items"]:
                from kapi.kubectl.sorting import sort_by

                obj = {**obj, "items": sort_by(obj["items"], self.sort_by, lambda item: item)}
            self.factory.out.write(printer.print(obj))
        result.finish()
        return 0

    async def _print_tables(self, result: Result) -> int:
        from kapi.kubectl.printers.table import TablePrinter
        from kapi.kubectl.printers.tabwriter import TabWriter

        infos = await result.infos()
        tables: list[tuple[Info, Object]] = [(info, info.object or {}) for info in infos]
        if self.sort_by and len(tables) > 1:
            from kapi.kubectl.sorting import sort_by

            tables = sort_by(tables, self.sort_by, lambda pair: pair[1])
        kinds = {(info.mapping.group, info.mapping.version, info.mapping.kind) for info in infos}
        with_kind = self.flags.get_bool("show-kind") or len(kinds) > 1
        writer, printer, last = TabWriter(), None, None
        written = False
        namespaced = not self.everywhere
        for info, table in tables:
            namespaced = namespaced and info.mapping.namespaced
            if printer is None or info.mapping != last:
                written |= self._flush(writer, written and last is not None)
                writer.forget_widths()
                last = info.mapping
                printer = TablePrinter(self.options(info, with_kind), info.mapping, writer)
            if rows := self._sorted(table):
                printer.print(rows)
        separate = written
        written |= self._flush(writer, separate)
        if not written and not result.ignore_not_found and not result.errors:
            where = f" in {self.factory.namespace} namespace." if namespaced else ""
            self.factory.err.write(f"No resources found{where}\n")
        result.raise_errors()
        return 0

    def _flush(self, writer: TabWriter, separate: bool) -> bool:
        """Writes the rows so far, after a blank line when ``separate``.  Returns whether there were any."""
        text = writer.flush()
        if text:
            self.factory.out.write(("\n" if separate and not self.flags.get_bool("no-headers") else "") + text)
        return bool(text)

    def options(self, info: Info, with_kind: bool) -> PrintOptions:
        from kapi.kubectl.printers.table import PrintOptions

        return PrintOptions(
            no_headers=self.flags.get_bool("no-headers"),
            with_namespace=self.everywhere and info.mapping.namespaced,
            with_kind=with_kind,
            wide=self.output == "wide",
            show_labels=self.flags.get_bool("show-labels"),
            column_labels=tuple(self.flags.get_list("label-columns")),
        )

    def _sorted(self, table: Object) -> Object | None:
        """The table with its rows in order; None, as by kubectl, when no row of several has the field, or the path is wrong."""
        rows = table.get("rows") or []
        if not self.sort_by or len(rows) < 2:
            return table
        from kapi.kubectl.sorting import Unsortable, sort_by

        try:
            rows = sort_by(rows, self.sort_by, lambda row: row.get("object") or {}, templates=True)
        except Unsortable:
            raise
        except CommandError:
            return None
        return {**table, "rows": rows}


async def run(factory: Factory, program: str) -> int:
    options = GetOptions(factory, program)
    options.validate()
    return await options.run()
