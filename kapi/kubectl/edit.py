"""``kapi edit`` (upstream: kubectl ``cmd/util/editor``): objects in an editor, until what it saves is valid or unchanged."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from twisted.internet.threads import deferToThreadPool

from kapi.client.errors import StatusError
from kapi.kubectl.builder import Builder, builder_of
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError, ListErrors, OtherNamespace
from kapi.kubectl.print_flags import no_printer, printer_for
from kapi.kubectl.schema_validation import Validator
from kapi.kubectl.updates import Updates
from kapi.kubectl.visitor import parts, read_documents
from kapi.kubectl.writing import field_manager, recorded, validation, with_last_applied
from kapi.machinery.golang import file_error, quote, syntax
from kapi.machinery.status import Invalid, NotFound
from kapi.machinery.tree import Object, Tree, dig

_FORMATS = ("json", "kyaml", "yaml")  # of the file
_HEADER = """\
# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
"""
_EDITED = "edited-file"  # in messages
FLAGS = (
    *FILENAME,
    *PRINT,
    *shared("validate save-config field-manager subresource record"),
    Flag("output-patch", "bool", help="Print the patch of each object."),
    Flag("windows-line-endings", "bool", help="Lines of the file end as on Windows."),
)
HELP = Help(
    "(RESOURCE NAME | -f FILENAME)",
    "Opens objects in the editor of $KUBE_EDITOR, of $EDITOR, or vi. What is saved is sent as a patch; what the server refuses\n"
    "can be edited again.",
    ("Edit a service", "edit service web"),
    ("Use another editor", "edit deployment web -o json"),
    ("Edit the status", "edit deployment web --subresource=status"),
)


@dataclass(slots=True)
class Results:
    """Results of one round: the next round shows ``reasons``; ``again``, ``missing`` and ``refused`` count objects."""

    reasons: list[tuple[str, list[str]]] = field(default_factory=list)
    again: int = 0
    missing: int = 0
    refused: int = 0


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    builder = builder_of(factory, program).latest().subresource(flags.get_string("subresource"))
    result = await builder.resource_type_or_name(flags.arguments).do()
    infos = await result.all()
    return await Editing(factory, program, infos, validation(flags.get_string("validate"))).run()


class Editing:
    """Edits the objects of ``infos``.  ``fields`` is the value of ``fieldValidation``.  Raises CommandError."""

    header = _HEADER  # of the file

    def __init__(self, factory: Factory, program: str, infos: list[Info], fields: str) -> None:
        output = factory.flags.get_string("output")
        if output not in ("", *_FORMATS):
            raise no_printer(output, _FORMATS)
        if not infos:
            raise CommandError("edit cancelled, no objects found")
        self._factory, self._program, self._infos, self._fields = factory, program, infos, fields
        self._json = output == "json"
        self._updates = Updates(factory, field_manager(factory.flags, "edit"))
        self._file = ""  # of the last round

    async def run(self) -> int:
        """Rounds of editing.  Returns the exit code.  Raises CommandError."""
        original = self._text()
        edited, results = b"", Results()
        while True:
            failed, before = bool(results.reasons), edited
            try:
                edited, file = await self._edit(results, _stripped(edited) if failed else original)
                if failed and _content(before) == _content(edited):
                    self._file, old = file, self._file
                    os.remove(old)
                    raise CommandError("Edit cancelled, no valid changes were saved.")
            except CommandError:
                self._tell_file()
                raise
            if self._file:
                os.remove(self._file)
            self._file, results = file, Results()
            if problem := await self._problem(edited):
                self._refuse(problem, results)
                continue
            for unchanged, why in (
                (_content(original) == _content(edited), "no changes made"),
                (not _has_lines(edited), "saved file was empty"),
            ):
                if unchanged:
                    os.remove(file)
                    self._factory.err.write(f"Edit cancelled, {why}.\n")
                    return 0
            try:
                infos = await self._read(edited)
            except (CommandError, ListErrors) as error:
                results.reasons.append((f"The edited file had a syntax error: {error}", []))
                continue
            try:
                for info in infos:
                    self._check_namespace(info)
                await self.send(infos, results)
            except (CommandError, StatusError):
                self._tell_file()
                raise
            if results.again:
                self._factory.err.write(f"You can run `{self._program} replace -f {file}` to try this update again.\n")
                return 1
            if results.missing:
                self._factory.err.write(f"The edits you made on deleted resources have been saved to {quote(file)}\n")
                return 1
            if not results.refused:
                os.remove(file)
                return 0

    async def _problem(self, edited: bytes) -> str:
        """Why the file is not valid, or "".  As in kubectl, this is only about its first document."""
        if self._fields == "Ignore":
            return ""
        try:
            tree = _first(_stripped(edited))
        except CommandError as error:
            return str(error).removeprefix("error parsing : error converting YAML to JSON: ")
        return await Validator(self._factory, self._fields).problem(tree)

    async def _read(self, edited: bytes) -> list[Info]:
        """The objects in the file.  Raises CommandError and ListErrors."""
        builder = Builder(self._factory, self._program).flatten().stream(edited, _EDITED)
        return await (await builder.subresource(self._infos[0].subresource).do()).all()

    def _check_namespace(self, info: Info) -> None:
        """Sets the namespace of an object that has none.  Raises CommandError for that of another namespace."""
        namespace = self._factory.namespace
        if not info.mapping.namespaced:
            return
        if info.namespace and info.namespace != namespace:
            raise OtherNamespace(info.namespace, namespace)
        obj = info.object or {}
        info.namespace = namespace
        info.object = {**obj, "metadata": {**(obj.get("metadata") or {}), "namespace": namespace}}

    def _refuse(self, problem: str, results: Results) -> None:
        """A file that is not valid is an error of the first object."""
        what = f"{_resource(self._infos[0])} {quote(self._infos[0].name)}"
        other = f'<nil>: Invalid value: "The edited file failed validation": {problem}'
        results.reasons.append((f"{what} was not valid", [other]))
        self._factory.err.write(f"error: {what} is invalid\n")

    def _tell_file(self) -> None:
        if self._file and os.path.exists(self._file):
            self._factory.err.write(f"A copy of your changes has been stored to {quote(self._file)}\n")

    def _text(self) -> bytes:
        """The text of the objects, without fields that the server manages."""
        objects = [_without_managers(info.object or {}) for info in self._infos]
        whole: Object = {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {}}
        if len(objects) == 1:
            whole = objects[0]
        if self._json:
            from kapi.machinery.go_json import json_text

            return json_text(whole, 4).encode() + b"\n"
        if self._factory.flags.get_string("output") == "kyaml":
            from kapi.kubectl.printers.kyaml import dump_kyaml

            return dump_kyaml(whole).encode()
        from kapi.codecs.yaml_writing import dump_yaml

        return dump_yaml(whole)

    async def _edit(self, results: Results, text: bytes) -> tuple[bytes, str]:
        """The edited text, and its file.  Raises CommandError."""
        header = "" if self._json else self.header
        for head, others in results.reasons if header else ():
            header += f"# {_commented(head)}{':' if others else ''}\n"
            header += "".join(f"# * {_commented(other)}\n" for other in others) + "#\n"
        data = header.encode() + (b"" if results.reasons else text)
        if self._factory.flags.get_bool("windows-line-endings"):
            data = data.replace(b"\n", b"\r\n")
        if results.reasons:  # was edited before, and has its line ends
            data += text
        number, path = tempfile.mkstemp(".json" if self._json else ".yaml", f"{self._program}-edit-")
        with os.fdopen(number, "wb") as file:
            file.write(data)
        await _launch(self._factory, path)
        try:
            with open(path, "rb") as file:
                return file.read(), path
        except OSError as error:
            raise CommandError(file_error(error)) from None

    def _known(self, info: Info) -> Info | None:
        uid = dig(info.object, "metadata", "uid")
        return next((one for one in self._infos if dig(one.object, "metadata", "uid") == uid), None)

    def original(self, info: Info) -> Info:
        """The object before it was edited.  Raises CommandError."""
        if found := self._known(info):
            return found
        shown = f"&unstructured.Unstructured{{Object:{syntax(info.object)}}}"
        raise CommandError(f"no original object found for {shown}")

    async def send(self, infos: list[Info], results: Results) -> None:
        """Patches changed objects.  Raises CommandError for changes that no patch can make."""
        flags = self._factory.flags
        for info in infos:
            obj = info.object or {}
            before = self._known(info)
            if before and (managed := dig(before.object, "metadata", "managedFields")):
                obj = {**obj, "metadata": {**obj["metadata"], "managedFields": managed}}
            if flags.get_bool("save-config"):
                obj = with_last_applied(obj)
            info.object = recorded(self._factory, self._program, obj)
        for info in infos:
            original, obj = self.original(info), info.object or {}
            if obj == original.object:
                self._factory.out.write(printer_for(flags, "skipped").print(obj))
                continue
            for path in (("apiVersion",), ("kind",), ("metadata", "name")):
                if dig(original.object, *path) != dig(obj, *path):
                    raise CommandError("At least one of apiVersion, kind and name was changed")
            await self._patch(info, original, results)

    async def _patch(self, info: Info, original: Info, results: Results) -> None:
        flags, resource = self._factory.flags, _resource(info)
        kind, patch = await self._updates.difference(original, info.object or {})
        if flags.get_bool("output-patch"):
            text = json.dumps(patch, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            self._factory.out.write(f"Patch: {text}\n")
        try:
            await info.patch(kind, patch, fieldManager=field_manager(flags, "edit"), fieldValidation=self._fields)
        except Invalid as error:
            results.refused += 1
            causes = (error.details or {}).get("causes") or ()
            others = [f"{cause.get('field', '')}: {cause.get('message', '')}" for cause in causes]
            results.reasons.append((f"{resource} {quote(info.name)} was not valid", others))
            self._factory.err.write(f"error: {resource} {quote(info.name)} is invalid\n")
        except NotFound:
            results.missing += 1
            self._factory.err.write(f"error: {resource} {quote(info.name)} could not be found on the server\n")
        except StatusError as error:
            results.again += 1
            self._factory.err.write(f"error: {resource} {quote(info.name)} could not be patched: {error.message}\n")
        else:
            self._factory.out.write(printer_for(flags, "edited").print(info.object or {}))


class Creating(Editing):
    """Objects are edited before they are created."""

    async def send(self, infos: list[Info], results: Results) -> None:
        flags = self._factory.flags
        for info in infos:
            obj = info.object or {}
            if flags.get_bool("save-config"):
                obj = with_last_applied(obj)
            info.object = recorded(self._factory, self._program, obj)
            await info.create(fieldManager=field_manager(flags, "create"), fieldValidation=self._fields)
            self._factory.out.write(printer_for(flags, "created").print(info.object or {}))


def _resource(info: Info) -> str:
    return ".".join(filter(None, (info.mapping.name, info.mapping.group)))


def _without_managers(obj: Object) -> Object:
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _stripped(text: bytes) -> bytes:
    """The text without comments; ``#!`` does not begin a comment."""
    lines = text.split(b"\n")
    return b"\n".join(line for line in lines if not line.strip().startswith(b"#") or line.strip().startswith(b"#!"))


def _first(text: bytes) -> Tree:
    """The first document of a text without comments, or None.  Raises CommandError."""
    first = next((part for part in parts(text) if part.strip()), b"")
    return next((tree for tree, _ in read_documents(first, "")), None)


def _has_lines(text: bytes) -> bool:
    return any(line.strip() and not line.strip().startswith(b"#") for line in text.split(b"\n"))


def _content(text: bytes) -> Tree:
    """The first document, parsed, or the text without comments.  As in kubectl, others are not compared."""
    stripped = _stripped(text)
    try:
        return _first(stripped)
    except CommandError:
        return stripped


def _commented(text: str) -> str:
    """The text with "#" before each further line."""
    first, *others = text.split("\n")
    return "".join([first, *(f"\n# {line}" if line and not line.startswith("#") else f"\n{line}" for line in others)])


async def _launch(factory: Factory, path: str) -> None:
    """Runs the editor in a thread, so that connections stay alive.  Raises CommandError."""
    editor = os.environ.get("KUBE_EDITOR") or os.environ.get("EDITOR") or "vi"
    shown = editor
    if " " in editor and any(mark in editor for mark in "\"'\\"):
        shell = os.environ.get("SHELL") or "/bin/bash"
        command, shown = [shell, "-c", f"{editor} {shlex.quote(path)}"], f"{shell} -c {editor}"
    else:
        command = [*editor.split(" "), path]
    factory.out.flush()
    try:
        with _interrupts_left_to_the_editor():
            done = await deferToThreadPool(
                factory.reactor, factory.reactor.getThreadPool(), subprocess.run, command, check=False
            )
    except FileNotFoundError:
        raise CommandError(f"unable to launch the editor {quote(shown)}") from None
    except OSError:
        raise CommandError(f"there was a problem with the editor {quote(shown)}") from None
    if done.returncode:
        raise CommandError(f"there was a problem with the editor {quote(shown)}")


@contextlib.contextmanager
def _interrupts_left_to_the_editor() -> Iterator[None]:
    """Leaves Ctrl-C to the editor."""
    if threading.current_thread() is not threading.main_thread() or not sys.stdin.isatty():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: None)  # programs would inherit SIG_IGN
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
