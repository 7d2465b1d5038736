"""Chooses the printer for ``-o`` and its related flags (upstream: cli-runtime ``genericclioptions``)."""

from __future__ import annotations

from kapi.kubectl.flags import Flags
from kapi.kubectl.messages import CommandError
from kapi.kubectl.printers.interface import Printer
from kapi.machinery.golang import quote

_TEMPLATES = ("go-template", "go-template-file", "template", "templatefile")
FORMATS = (*_TEMPLATES, "json", "jsonpath", "jsonpath-as-json", "jsonpath-file", "kyaml", "name", "yaml")
_ANY_CASE = ("json", "kyaml", "name", "yaml")
_COLUMNS = ("custom-columns", "custom-columns-file")


def no_printer(output: str, allowed: tuple[str, ...]) -> CommandError:
    formats = ",".join(sorted(allowed))
    return CommandError(
        f"unable to match a printer suitable for the output format {quote(output)}, allowed formats are: {formats}"
    )


def printer_for(flags: Flags, operation: str = "", *, columns: bool = False, typed: bool = False) -> Printer:
    """The printer of ``-o``; without ``-o`` the NamePrinter with ``operation``.  Raises CommandError.

    ``typed``: JSON and KYAML have their fields in the order of Go's types, not sorted.
    """
    output = flags.get_string("output")
    if flags.get_string("template") and not (output and flags.given("output")):
        output = "go-template"
    allowed = (*FORMATS, *_COLUMNS, "wide") if columns else FORMATS
    kind, equals, rest = output.partition("=")
    kind = kind.lower() if kind.lower() in _ANY_CASE else kind
    if equals and flags.get_string("template"):  # two templates
        raise no_printer(output, allowed)
    managed = flags.get_bool("show-managed-fields")
    match kind:
        case "json" if not equals:
            from kapi.kubectl.printers.documents import JSONPrinter

            return JSONPrinter(managed, ordered=not typed)
        case "yaml" if not equals:
            from kapi.kubectl.printers.documents import YAMLPrinter

            return YAMLPrinter(managed)
        case "kyaml" if not equals:
            from kapi.kubectl.printers.kyaml import KYAMLPrinter

            return KYAMLPrinter(managed, ordered=not typed)
        case "name" | "" if not equals:
            from kapi.kubectl.printers.name import NamePrinter

            return NamePrinter(operation, short=kind == "name")
        case "jsonpath" | "jsonpath-as-json" | "jsonpath-file":
            return _jsonpath(flags, kind, equals, rest)
        case _ if kind in _TEMPLATES:
            from kapi.kubectl.printers.template import TemplatePrinter

            text = _template(flags, equals, rest, is_file=kind.endswith("file"))
            allow = flags.get_bool("allow-missing-template-keys")
            return TemplatePrinter(text, allow_missing=allow, ordered=not typed)
        case "custom-columns" | "custom-columns-file" if columns:
            from kapi.kubectl.printers.custom_columns import CustomColumnsPrinter

            if kind == "custom-columns":
                return CustomColumnsPrinter.from_spec(
                    rest or flags.get_string("template"), flags.get_bool("no-headers")
                )
            return CustomColumnsPrinter.from_file(rest or flags.get_string("template"))
    raise no_printer(output, allowed)


def _jsonpath(flags: Flags, kind: str, equals: str, rest: str) -> Printer:
    from kapi.kubectl.printers.jsonpath import JSONPathPrinter

    text = _template(flags, equals, rest, is_file=kind == "jsonpath-file")
    return JSONPathPrinter(
        text, as_json=kind == "jsonpath-as-json", allow_missing=flags.get_bool("allow-missing-template-keys")
    )


def _template(flags: Flags, equals: str, rest: str, *, is_file: bool) -> str:
    """The template in the flags, or in the file that they name.  Raises CommandError."""
    text: str = rest if equals else flags.get_string("template")
    if not text:
        raise CommandError("template format specified but no template given")
    if not is_file:
        return text
    try:
        with open(text) as file:
            return file.read()
    except OSError as error:
        verb = "read" if isinstance(error, IsADirectoryError) else "open"
        raise CommandError(f"error reading --template {text}, {verb} {text}: {str(error.strerror).lower()}\n") from None
