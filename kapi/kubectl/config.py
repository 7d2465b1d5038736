"""``kapi config`` (upstream: kubectl ``cmd/config``): shows and changes kubeconfig files.

``set`` and ``unset`` name a value by its path in the file.  Its fields have the names of client-go's internal types, which differ
from the names in files for impersonation.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Coroutine

from kapi.client.clientcmd import Kubeconfig
from kapi.client.kubeconfig_changes import default_file, document
from kapi.client.kubeconfig_entries import LISTS
from kapi.kubectl.command import Command, Help
from kapi.kubectl.config_entries import COMMANDS as SET_ENTRIES
from kapi.kubectl.config_entries import changing, help_text, unexpected
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import PRINT_YAML, Flag, shared
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.machinery.golang import base64_bytes, file_error, parse_bool, quote
from kapi.machinery.tree import Object, Tree

_TEXT, _BOOL, _BYTES, _LIST, _MAP, _POINTER = range(6)
_LISTS = tuple(plural for plural, _ in LISTS)
_ENTRY = {"extensions": _MAP}
_FIELDS: dict[str, dict[str, int]] = {
    "clusters": {
        **dict.fromkeys(("server", "tls-server-name", "certificate-authority", "proxy-url"), _TEXT),
        **dict.fromkeys(("insecure-skip-tls-verify", "disable-compression"), _BOOL),
        "certificate-authority-data": _BYTES,
    }
    | _ENTRY,
    "contexts": dict.fromkeys(("cluster", "user", "namespace"), _TEXT) | _ENTRY,
    "users": {
        **dict.fromkeys(("client-certificate", "client-key", "token", "tokenFile", "username", "password"), _TEXT),
        **dict.fromkeys(("act-as", "act-as-uid"), _TEXT),
        **dict.fromkeys(("client-certificate-data", "client-key-data"), _BYTES),
        **dict.fromkeys(("auth-provider", "exec"), _POINTER),
        "act-as-groups": _LIST,
        "act-as-user-extra": _MAP,
    }
    | _ENTRY,
    "preferences": {"colors": _BOOL} | _ENTRY,
}
_TOP = (*_LISTS, "preferences", "current-context", "extensions", "kind", "apiVersion")


async def _set(factory: Factory, program: str) -> int:
    flags = factory.flags
    if len(flags.arguments) != 2:
        raise unexpected(factory)
    name, value = flags.arguments
    if not value:
        raise CommandError("you cannot use set to unset a property")
    with changing(factory, relative=False) as files:
        _Property(files, _checked(name)).set(value, raw=flags.get_bool("set-raw-bytes"))
    factory.out.write(f"Property {quote(name)} set.\n")
    return 0


async def _unset(factory: Factory, program: str) -> int:
    if len(factory.flags.arguments) != 1:
        raise unexpected(factory)
    name = factory.flags.arguments[0]
    with changing(factory, relative=False) as files:
        _Property(files, _checked(name)).unset()
    factory.out.write(f"Property {quote(name)} unset.\n")
    return 0


def _checked(name: str) -> str:
    if not name:
        raise CommandError("you must specify a property")
    return name


class _Property:
    """A place in the files: ``clusters.NAME.FIELD``, where a name ends before the first field, or a field of the file."""

    def __init__(self, files: Kubeconfig, path: str) -> None:
        """Raises CommandError for an invalid path."""
        self._files, self._path = files, path
        self._top, *rest = path.split(".")
        self._name = self._field = ""
        if self._top not in _TOP:
            raise CommandError(f"unable to parse {path} after [] at api.Config")
        if self._top in _LISTS and rest:
            fields = _FIELDS[self._top]
            end = next((place for place, part in enumerate(rest) if place and part in fields), len(rest))
            self._name, rest = ".".join(rest[:end]), rest[end:]
            self._named = True
        else:
            self._named = False
        if rest and self._top in _FIELDS:
            self._field, *rest = rest
        if rest or self._field and self._field not in _FIELDS[self._top]:
            raise self._unparsed()

    def _unparsed(self) -> CommandError:
        if self._field == "act-as-user-extra":
            return CommandError("string is not of type struct")
        return CommandError(f"unable to parse one or more field values of {self._path}")

    def set(self, value: str, *, raw: bool) -> None:
        """Sets the value.  Raises CommandError for a field without a single value, and for a value of another type."""
        if self._field:
            self._target()[self._field.removeprefix("act-")] = self._parsed(value, raw)
        elif self._top == "current-context":
            self._files.current_context = value
        elif self._top in ("preferences", "extensions") or self._top in _LISTS:
            found = self._files.entries.get(self._top) or {}
            raise CommandError(f"can't set a map to a value: map[{' '.join(sorted(found))}]")

    def _target(self) -> Object:
        """The object with the field, which is made when it is missing."""
        if self._top == "preferences":
            preferences: Object = self._files.more.get("preferences") or {}
            self._files.more["preferences"] = preferences
            return preferences
        return self._files.entries[self._top].setdefault(self._name, {})

    def _parsed(self, value: str, raw: bool) -> Tree:
        kind = _FIELDS[self._top][self._field]
        if kind == _TEXT:
            return value
        if kind == _BOOL:
            try:
                return parse_bool(value)
            except ValueError as error:
                raise CommandError(str(error)) from None
        if kind == _BYTES:
            return base64.b64encode(value.encode()).decode() if raw else _base64(value)
        if kind == _LIST:
            raise CommandError("unrecognized slice type. string")
        if kind == _MAP:
            found = self._target().get(self._field.removeprefix("act-")) or ()
            names = ((one or {}).get("name") or "" for one in found) if self._field == "extensions" else found
            raise CommandError(f"can't set a map to a value: map[{' '.join(sorted(names))}]")
        raise self._unparsed()

    def unset(self) -> None:
        """Removes the value.  Raises CommandError for a field of a missing entry."""
        entries = self._files.entries.get(self._top, {})
        if self._field:
            if self._top in _LISTS and self._name not in entries:
                raise CommandError(f"current map key `{self._name}` is invalid")
            self._target().pop(self._field.removeprefix("act-"), None)
        elif self._named:
            entries.pop(self._name, None)
        elif self._top == "current-context":
            self._files.current_context = ""
        else:
            entries.clear()
            self._files.more.pop(self._top, None)


def _base64(text: str) -> str:
    try:
        return base64.b64encode(base64_bytes(text)).decode()
    except ValueError as error:
        raise CommandError(f"error decoding input value: {error}") from None


_SET_PROPERTIES = (
    Command(
        "set", "Set one value of a file", _set,
        Help(
            "PROPERTY_NAME PROPERTY_VALUE",
            "Sets one value. Its name is the way to it: the name of an entry, for instance, comes after clusters.",
            ("Set the server of a cluster", "config set clusters.test.server https://192.0.2.1:6443"),
            ("Set the current context", "config set current-context test"),
        ),
        Flag("set-raw-bytes", "bool", help="The value of a field of bytes is these bytes, and not base64."),
    ),
    Command(
        "unset", "Remove one value of a file", _unset,
        help=Help(
            "PROPERTY_NAME",
            "Removes one value. Its name is the way to it: the name of an entry, for instance, comes after clusters.",
            ("Have no current context", "config unset current-context"),
            ("Remove the namespace of a context", "config unset contexts.test.namespace"),
        ),
    ),
)  # fmt: skip


_REMOVED = 'warning: this removed your active context, use "{} config use-context" to select a different one\n'
_NO_FILE = "if merge==false a precise file must be specified"
_REDACTED = {
    **dict.fromkeys(("certificate-authority-data", "client-certificate-data", "client-key-data"), "DATA+OMITTED"),
    **dict.fromkeys(("token", "password"), "REDACTED"),
}


async def _current_context(factory: Factory, program: str) -> int:
    current = factory.kubeconfig(must_exist=False).current_context
    if not current:
        raise CommandError("current-context is not set")
    factory.out.write(f"{current}\n")
    return 0


async def _get_contexts(factory: Factory, program: str) -> int:
    from kapi.kubectl.printers.tabwriter import TabWriter

    output, names = factory.flags.get_string("output"), factory.flags.arguments
    if output not in ("", "name"):
        raise CommandError(
            f"--output {output} is not available in {program} config get-contexts; resetting to default output format"
        )
    files = factory.kubeconfig(must_exist=False)
    contexts = files.entries["contexts"]
    writer = TabWriter()
    if output != "name" and not factory.flags.get_bool("no-headers"):
        writer.row(["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"])
    for name in sorted(name for name in names or contexts if name in contexts):
        context = contexts[name]
        mark = "*" if name == files.current_context else ""
        if output == "name":
            writer.row([name])
        else:
            writer.row([mark, name, *(str(context.get(key) or "") for key in ("cluster", "user", "namespace"))])
    factory.out.write(writer.flush())
    raise_errors([CommandError(f"context {name} not found") for name in names if name not in contexts])
    return 0


def _names(plural: str) -> Callable[[Factory, str], Coroutine[object, object, int]]:
    async def run(factory: Factory, program: str) -> int:
        found = sorted(factory.kubeconfig(must_exist=False).entries[plural])
        factory.out.write("NAME\n" + "".join(f"{name}\n" for name in found))
        return 0

    return run


async def _view(factory: Factory, program: str) -> int:
    flags = factory.flags
    if flags.arguments:
        raise CommandError(f"unexpected arguments: [{' '.join(flags.arguments)}]", usage=f"{program} {factory.command}")
    printer = printer_for(flags, typed=True)
    if not flags.get_bool("merge") and not flags.get_string("kubeconfig"):
        raise CommandError(_NO_FILE)
    files = factory.kubeconfig(must_exist=False)
    if flags.get_bool("minify"):
        _minify(files, flags.get_string("context"))
    if flags.get_bool("flatten"):
        _flatten(files)
    elif not flags.get_bool("raw"):
        for entry in (*files.entries["clusters"].values(), *files.entries["users"].values()):
            entry.update({field: text for field, text in _REDACTED.items() if entry.get(field)})
    factory.out.write(printer.print(document(files, known=True)))
    return 0


def _minify(files: Kubeconfig, context: str) -> None:
    """Keeps only the entries that the context, or the current one, uses.  Raises CommandError."""
    current = files.current_context = context or files.current_context
    if not current:
        raise CommandError("current-context must exist in order to minify")
    used = files.entries["contexts"].get(current)
    if used is None:
        raise CommandError(f"cannot locate context {current}")
    kept = {"contexts": current, "clusters": used.get("cluster"), "users": used.get("user")}
    for plural, singular in LISTS:
        name, entries = kept[plural], files.entries[plural]
        if name and name not in entries:
            raise CommandError(f"cannot locate {singular} {name}")
        files.entries[plural] = {name: entries[name]} if name else {}


def _flatten(files: Kubeconfig) -> None:
    """Replaces the names of files by their content.  Raises CommandError."""
    for plural, fields in (("users", ("client-certificate", "client-key")), ("clusters", ("certificate-authority",))):
        for name, entry in files.entries[plural].items():
            base = os.path.dirname(os.path.abspath(files.origin[plural, name]))
            for field in fields:
                if not entry.get(field):
                    continue
                if entry.get(f"{field}-data"):
                    raise CommandError("cannot have values for both path and contents")
                path = os.path.normpath(os.path.join(base, entry.pop(field)))
                try:
                    with open(path, "rb") as file:
                        entry[f"{field}-data"] = base64.b64encode(file.read()).decode()
                except OSError as error:
                    raise CommandError(file_error(error)) from None


async def _use_context(factory: Factory, program: str) -> int:
    if len(factory.flags.arguments) != 1:
        raise unexpected(factory)
    name = factory.flags.arguments[0]
    with changing(factory) as files:
        if not name:
            raise CommandError("empty context names are not allowed")
        if name not in files.entries["contexts"]:
            raise CommandError(f"no context exists with the name: {quote(name)}")
        files.current_context = name
    factory.out.write(f"Switched to context {quote(name)}.\n")
    return 0


async def _rename_context(factory: Factory, program: str) -> int:
    if len(factory.flags.arguments) != 2:
        raise unexpected(factory)
    name, new = factory.flags.arguments
    if not new:
        raise CommandError("You must specify a new non-empty context name")
    with changing(factory) as files:
        contexts, place = files.entries["contexts"], default_file(files)
        if name not in contexts:
            raise CommandError(f"cannot rename the context {quote(name)}, it's not in {place}")
        if new in contexts:
            raise CommandError(
                f"cannot rename the context {quote(name)}, the context {quote(new)} already exists in {place}"
            )
        contexts[new] = contexts.pop(name)
        files.origin["contexts", new] = files.origin["contexts", name]
        if files.current_context == name:
            files.current_context = new
    factory.out.write(f"Context {quote(name)} renamed to {quote(new)}.\n")
    return 0


def _delete(plural: str, singular: str) -> Callable[[Factory, str], Coroutine[object, object, int]]:
    async def run(factory: Factory, program: str) -> int:
        if len(factory.flags.arguments) != 1:
            if singular == "user":
                raise CommandError("user to delete is required", usage=f"{program} {factory.command}")
            factory.out.write(help_text(factory))
            return 0
        name = factory.flags.arguments[0]
        with changing(factory) as files:
            place = default_file(files)
            if name not in files.entries[plural]:
                raise CommandError(f"cannot delete {singular} {name}, not in {place}")
            if singular == "context" and files.current_context == name:
                factory.err.write(_REMOVED.format(program))
            del files.entries[plural][name]
        factory.out.write(f"deleted {singular} {name} from {place}\n")
        return 0

    return run


HELP = Help(
    "SUBCOMMAND",
    "Shows and changes kubeconfig files. The file of --kubeconfig is used alone. Without it, those of $KUBECONFIG are read as\n"
    "one: an entry is changed in the file that has it, and a new one is written to the first file that is there, or else to\n"
    "the last one. Without both, it is ~/.kube/config.",
)
SUBCOMMANDS = (
    Command(
        "current-context", "Show the current context", _current_context,
        help=Help("", "", ("Show it", "config current-context")),
    ),
    *(
        Command(
            f"delete-{singular}", f"Delete a {singular}", _delete(plural, singular),
            help=Help("NAME", "", (f"Delete a {singular}", f"config delete-{singular} test")),
        )
        for plural, singular in LISTS
    ),
    *(
        Command(
            f"get-{plural}", f"List the {plural}", _names(plural),
            help=Help("", "", (f"List the {plural}", f"config get-{plural}")),
        )
        for plural in ("clusters", "users")
    ),
    Command(
        "get-contexts", "List the contexts", _get_contexts,
        Help(
            "[NAME ...] [-o name]", "",
            ("List all contexts", "config get-contexts"), ("Show one", "config get-contexts test"),
        ),
        *shared("no-headers"), Flag("output", short="o", help="name, for names alone."),
    ),
    Command(
        "rename-context", "Rename a context", _rename_context,
        help=Help("CONTEXT_NAME NEW_NAME", "", ("Rename a context", "config rename-context old new")),
    ),
    *SET_ENTRIES,
    *_SET_PROPERTIES,
    Command(
        "use-context", "Set the current context", _use_context,
        help=Help("CONTEXT_NAME", "", ("Use another context from now on", "config use-context test")), aliases=("use",),
    ),
    Command(
        "view", "Show the files as one",
        _view,
        Help(
            "[--flatten] [--minify] [--raw]", "",
            ("Show all of it", "config view"),
            ("Write a file that needs no other files", "config view --flatten --minify > portable.kubeconfig"),
        ),
        *PRINT_YAML,
        Flag("flatten", "bool", help="Put the content of files that the kubeconfig names into it, so that it can be moved."),
        Flag("merge", "bool", default=True, help="Merge all kubeconfig files in use."),
        Flag("minify", "bool", help="Only what the current context uses."),
        Flag("raw", "bool", help="Show certificates, keys, tokens and passwords."),
    ),
)  # fmt: skip
