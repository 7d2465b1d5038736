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
from kapi.kubectl.builder import builder_of
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import no_printer, printer_for
from kapi.kubectl.schema_validation import Validator
from kapi.kubectl.updates import Updates
from kapi.kubectl.visitor import decode, decoding, read_documents
from kapi.kubectl.writing import field_manager, recorded, validation, with_last_applied
from kapi.machinery.golang import quote
from kapi.machinery.status import Invalid, NotFound
from kapi.machinery.tree import Object, Tree, dig

SUBRESOURCES = ("status",)
_FORMATS = ("json", "kyaml", "yaml")  # of the file
_HEADER = """\
# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
"""
_OTHER_NAMESPACE = (
    'the namespace from the provided object "{0}" does not match the namespace "{1}". '
    "You must pass '--namespace={0}' to perform this operation."
)
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
    subresource = flags.get_string("subresource")
    if subresource and subresource not in SUBRESOURCES:
        raise CommandError(
            f"invalid subresource value: {quote(subresource)}. Must be one of [{' '.join(SUBRESOURCES)}]"
        )
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
            for unchanged, why in (
                (_content(original) == _content(edited), "no changes made"),
                (not _stripped(edited).strip(), "saved file was empty"),
            ):
                if unchanged:
                    os.remove(file)
                    self._factory.err.write(f"Edit cancelled, {why}.\n")
                    return 0
            try:
                objects = await self._read(edited)
            except CommandError as error:
                self._refuse(error, results)
                continue
            try:
                await self.send(objects, results)
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

    async def _read(self, edited: bytes) -> list[Object]:
        """The objects in the file.  Raises CommandError."""
        if self._fields != "Ignore":
            validator = Validator(self._factory, self._fields)
            for tree, _ in read_documents(edited, "edited-file"):
                if problem := await validator.problem(tree):
                    raise CommandError(problem)
        return _objects(edited, "edited-file")

    def _refuse(self, error: CommandError, results: Results) -> None:
        """Handles a file that cannot be parsed: with validation this is an error of the first object."""
        problem = str(error)
        if self._fields == "Ignore":
            results.reasons.append((f"The edited file had a syntax error: {problem}", []))
            return
        problem = problem.removeprefix("error parsing edited-file: ").removeprefix("error converting YAML to JSON: ")
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
        data = header.encode() + text
        if self._factory.flags.get_bool("windows-line-endings"):
            data = data.replace(b"\n", b"\r\n")
        number, path = tempfile.mkstemp(".json" if self._json else ".yaml", f"{self._program}-edit-")
        with os.fdopen(number, "wb") as file:
            file.write(data)
        await _launch(self._factory, path)
        with open(path, "rb") as file:
            return file.read(), path

    async def send(self, objects: list[Object], results: Results) -> None:
        """Patches changed objects.  Raises CommandError for changes that no patch can make."""
        flags, namespace = self._factory.flags, self._factory.namespace
        originals = {dig(info.object, "metadata", "uid"): info for info in self._infos}
        known = [(originals.get(dig(obj, "metadata", "uid")), obj) for obj in objects]
        for info, obj in known:
            place = dig(obj, "metadata", "namespace")
            if info is not None and info.namespace and place != namespace:
                raise CommandError(_OTHER_NAMESPACE.format(place or "", namespace))
        for info, obj in known:
            metadata = obj.get("metadata") or {}
            if info is None:
                raise CommandError(f"no original object found for {obj.get('kind', '')}/{metadata.get('name', '')}")
            before = info.object or {}
            if managers := dig(before, "metadata", "managedFields"):
                obj = {**obj, "metadata": {**metadata, "managedFields": managers}}
            if flags.get_bool("save-config"):
                obj = with_last_applied(obj)
            obj = recorded(self._factory, self._program, obj)
            if obj == before:
                self._factory.out.write(printer_for(flags, "skipped").print(obj))
                continue
            for path in (("apiVersion",), ("kind",), ("metadata", "name")):
                if dig(before, *path) != dig(obj, *path):
                    raise CommandError("At least one of apiVersion, kind and name was changed")
            await self._patch(info, obj, results)

    async def _patch(self, info: Info, obj: Object, results: Results) -> None:
        flags, resource = self._factory.flags, _resource(info)
        kind, patch = await self._updates.difference(info, obj)
        if flags.get_bool("output-patch"):
            text = json.dumps(patch, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            self._factory.out.write(f"Patch: {text}\n")
        sent = Info(info.client, info.mapping, info.namespace, info.name, subresource=info.subresource)
        try:
            await sent.patch(kind, patch, fieldManager=field_manager(flags, "edit"), fieldValidation=self._fields)
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
            self._factory.out.write(printer_for(flags, "edited").print(sent.object or {}))


class Creating(Editing):
    """Objects are edited before they are created."""

    async def send(self, objects: list[Object], results: Results) -> None:
        flags, (info,) = self._factory.flags, self._infos
        before = info.object or {}
        for obj in objects:
            if any(obj.get(field) != before.get(field) for field in ("apiVersion", "kind")):
                raise CommandError("At least one of apiVersion and kind was changed")
            made = Info(info.client, info.mapping, info.namespace, dig(obj, "metadata", "name") or "")
            made.object = with_last_applied(obj) if flags.get_bool("save-config") else obj
            made.object = recorded(self._factory, self._program, made.object)
            await made.create(fieldManager=field_manager(flags, "create"), fieldValidation=self._fields)
            self._factory.out.write(printer_for(flags, "created").print(made.object))


def _resource(info: Info) -> str:
    return ".".join(filter(None, (info.mapping.name, info.mapping.group)))


def _without_managers(obj: Object) -> Object:
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _objects(text: bytes, source: str) -> list[Object]:
    """The objects of all documents, and the items of lists.  Raises CommandError."""
    found: list[Object] = []
    for tree, raw in read_documents(text, source):
        with decoding(source):
            obj, items = decode(tree, raw)
            found += [obj] if items is None else items()
    return found


def _stripped(text: bytes) -> bytes:
    """The text without comments; ``#!`` does not begin a comment."""
    lines = text.split(b"\n")
    return b"\n".join(line for line in lines if not line.strip().startswith(b"#") or line.strip().startswith(b"#!"))


def _content(text: bytes) -> Tree:
    """The parsed text, or the text itself without comments."""
    try:
        return _objects(text, "")
    except CommandError:
        return _stripped(text)


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
