"""The sources of a command's objects, and the errors in reading them (upstream: cli-runtime ``resource``)."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Protocol

from kapi.client.discovery import APIResource
from kapi.client.errors import ClientError, DeadlineExceeded, StatusError
from kapi.client.rest import RESTClient
from kapi.kubectl.info import Info, Transform, is_list, items_of
from kapi.kubectl.messages import (
    Aggregate,
    CommandError,
    ListErrors,
    NotRegistered,
    OtherNamespace,
    aggregate,
    raise_errors,
)
from kapi.kubectl.object_meta import check_object
from kapi.machinery.go_json import json_text
from kapi.machinery.golang import quote
from kapi.machinery.status import BadRequest, NotFound
from kapi.machinery.tree import Object, Tree, dig

_CAUGHT = (Aggregate, CommandError, StatusError)
#: makes the items of a list, with errors for some
Items = Callable[[], Iterable[Object | CommandError]]
EXTENSIONS = (".json", ".yaml", ".yml")


class Visitor(Protocol):
    def visit(self) -> AsyncIterator[Info | Exception]:
        """The objects, with errors in place of objects that cannot be read."""


class Named:
    """One object; with ``latest`` it is read from the server by its name."""

    def __init__(self, info: Info, transform: Transform | None, latest: bool) -> None:
        self._info, self._transform, self._latest = info, transform, latest

    async def visit(self) -> AsyncIterator[Info | Exception]:
        if self._latest and not self._info.name and self._info.object is None:
            yield CommandError("resource name may not be empty")
            return
        mapping = self._info.mapping
        if self._latest and self._info.name and mapping.namespaced and not self._info.namespace:
            what = f"{mapping.group}/{mapping.version}, Resource={mapping.name}"
            yield CommandError(f"no namespace set on resource {what} {quote(self._info.name)}")
            return
        if self._latest and self._info.name:
            try:
                await self._info.get(self._transform)
            except (ClientError, StatusError) as error:
                yield error
                return
        yield self._info


class Matching:
    """Objects whose labels match."""

    def __init__(self, inner: Visitor, matches: Callable[[dict[str, str]], bool]) -> None:
        self._inner, self._matches = inner, matches

    async def visit(self) -> AsyncIterator[Info | Exception]:
        async for info in self._inner.visit():
            if isinstance(info, Exception) or self._matches(dig(info.object or {}, "metadata", "labels") or {}):
                yield info


class Known:
    """Objects that were read before."""

    def __init__(self, infos: Sequence[Info]) -> None:
        self._infos = infos

    async def visit(self) -> AsyncIterator[Info | Exception]:
        for info in self._infos:
            yield info


class Failed:
    """An object that could not be read."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def visit(self) -> AsyncIterator[Info | Exception]:
        yield self._error


class Selector:
    """The objects of a resource that match selectors, as lists, page by page."""

    def __init__(
        self, client: RESTClient, mapping: APIResource, namespace: str, labels: str, fields: str, chunk: int,
        transform: Transform | None,
    ) -> None:  # fmt: skip
        self._client, self._mapping, self._namespace = client, mapping, namespace if mapping.namespaced else ""
        self._labels, self._fields, self._chunk, self._transform = labels, fields, chunk, transform

    async def visit(self) -> AsyncIterator[Info | Exception]:
        token = ""
        while True:
            try:
                request = (
                    self._client.get()
                    .namespace(self._namespace)
                    .resource(self._mapping.name)
                    .params(
                        {
                            "labelSelector": self._labels,
                            "fieldSelector": self._fields,
                            "limit": self._chunk or None,
                            "continue": token,
                        }
                    )
                )
                page = await (self._transform(request) if self._transform is not None else request).do()
            except StatusError as error:
                yield self._explained(error)
                return
            except (DeadlineExceeded, ValueError) as error:  # a namespace that is no path segment
                yield error
                return
            yield Info(self._client, self._mapping, self._namespace, obj=page)
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    def _explained(self, error: StatusError) -> StatusError:
        group, version, name = self._mapping[:3]
        what = f'"{group}/{version}, Resource={name}"'
        if isinstance(error, BadRequest | NotFound) and (self._labels or self._fields):
            text = (
                f'Unable to find {what} that match label selector "{self._labels}", field selector "{self._fields}": '
            )
            return type(error)(text + error.message, details=error.details)
        return error


class Flattened:
    """The items of another visitor's lists."""

    def __init__(self, inner: Visitor) -> None:
        self._inner = inner

    async def visit(self) -> AsyncIterator[Info | Exception]:
        async for info in self._inner.visit():
            if isinstance(info, Exception) or info.object is None or not is_list(info.object):
                yield info
                continue
            for item in items_of(info.object):
                yield info.item(item)


class Chain:
    """Several visitors, one after the other."""

    def __init__(self, visitors: Sequence[Visitor]) -> None:
        self._visitors = visitors

    async def visit(self) -> AsyncIterator[Info | Exception]:
        for visitor in self._visitors:
            async for info in visitor.visit():
                yield info


class Checked:
    """Objects that ``check`` accepts; it raises a CommandError or a StatusError for the others."""

    def __init__(self, inner: Visitor, check: Callable[[Info], Awaitable[None]]) -> None:
        self._inner, self._check = inner, check

    async def visit(self) -> AsyncIterator[Info | Exception]:
        async for info in self._inner.visit():
            try:
                if not isinstance(info, Exception):
                    await self._check(info)
            except (CommandError, StatusError) as error:
                yield error
                continue
            yield info


class ListItems(Chain):
    """Of one list in a file."""

    async def visit(self) -> AsyncIterator[Info | Exception]:
        errors = []
        async for info in super().visit():
            if isinstance(info, Exception):
                errors.append(info)
            else:
                yield info
        if errors:
            yield ListErrors(errors)


def is_url(path: str) -> bool:
    return path.startswith(("http://", "https://"))


def expand_paths(path: str, recursive: bool) -> list[str]:
    """The files of a path of ``-f``, which may be a pattern or a directory.  Raises CommandError."""
    import glob

    found = sorted(glob.glob(path)) if any(mark in path for mark in "*?[") and not os.path.exists(path) else [path]
    files: list[str] = []
    for one in found or [path]:
        if not os.path.exists(one):
            raise CommandError(f'the path "{one}" does not exist')
        if not os.path.isdir(one):
            files.append(one)
            continue
        inside: list[str] = []
        for folder, folders, names in os.walk(one):
            folders.sort()
            if not recursive:
                folders.clear()
            inside += [
                os.path.normpath(os.path.join(folder, name)) for name in sorted(names) if name.endswith(EXTENSIONS)
            ]
        if not inside:
            raise CommandError(f"error reading [{one}]: recognized file extensions are [{' '.join(EXTENSIONS)}]")
        files += sorted(inside)
    return files


def read_documents(data: bytes, source: str) -> Iterator[tuple[Tree, bytes]]:
    """The JSON values or YAML documents of a file, without nulls, each with the text that is JSON, or b"" for YAML.

    Raises CommandError at the first error.
    """
    from kapi.codecs import yaml_reading

    is_json = data.lstrip()[:1] == b"{"
    for part in parts(data):
        if not part.strip():
            continue
        try:
            tree, _ = yaml_reading.loads(part, math.inf)
        except ValueError as error:
            problem = "unexpected EOF" if is_json and _is_cut(part) else f"error converting YAML to JSON: {error}"
            raise CommandError(f"error parsing {source}: {problem}") from None
        if tree is not None:
            yield tree, part.strip() if is_json else b""


def decode(tree: Tree, text: bytes) -> tuple[Object, Callable[[], Iterable[Object]] | None]:
    """The object of a document, and the items of a list.  Raises CommandError."""
    if not isinstance(tree, dict):
        raise _unexpected(tree, "value of type unstructured.detector")
    items = tree.get("items")
    if items is not None and not isinstance(items, list):
        raise _unexpected(items, "struct field decodeList.items of type []json.RawMessage")
    for item in items or ():
        if item is not None and not isinstance(item, dict):
            raise _unexpected(item, "value of type map[string]interface {}")
    kind = tree.get("kind")
    if not kind or not isinstance(kind, str) or str(tree.get("apiVersion")).count("/") > 1:
        raise CommandError(f"Object 'Kind' is missing in '{text.decode() or json_text(tree)}'")
    check_object(tree)
    return tree, (lambda: _untyped_items(tree)) if "items" in tree else None


def _untyped_items(obj: Object) -> Iterable[Object]:
    """Raises CommandError for a list in a list."""
    found = items_of(obj)
    if any(isinstance(item.get("items"), list) for item in found):
        raise CommandError("*unstructured.Unstructured is not a list: no Items field in this object")
    return found


def typed_document(tree: Tree, scheme: str) -> tuple[Object, Items | None]:
    """As ``decode``, of a document that is read as one of the types of Kubernetes' own API."""
    from kapi.kubectl.local_patch import read_typed

    found = read_typed(tree, scheme)
    return found, (lambda: _typed_items(found, scheme)) if is_list(found) else None


def _typed_items(obj: Object, scheme: str) -> Iterable[Object | CommandError]:
    """The objects of a list and of the lists in it, with errors for those of kinds that are not known.

    Raises ListErrors when an item is no object.
    """
    from kapi.kubectl.local_patch import read_typed

    lists, found, of_no_type = [obj], list[Object | CommandError](), "unable to get type info from the object "
    for one in lists:
        errors = list[BaseException]()
        raw = one["kind"] == "List"
        for item in one["items"] if raw else items_of(one):
            if item is None:
                found.append(CommandError(f"{of_no_type}%!q(<nil>): expected pointer, but got invalid kind"))
                continue
            try:
                read = read_typed(item, scheme) if raw else item
                (lists if is_list(read) else found).append(read)
            except NotRegistered:
                why = f'no kind is registered for the type runtime.Unknown in scheme "{scheme}"'
                found.append(CommandError(f'{of_no_type}"*runtime.Unknown": {why}'))
            except CommandError as error:
                errors.append(error)
        if errors:
            raise ListErrors(errors)
    return found


@contextlib.contextmanager
def decoding(source: str) -> Iterator[None]:
    """Adds the name of the file to errors; "" for an object of the server."""
    try:
        yield
    except CommandError as error:
        raise CommandError(f'unable to decode "{source}": {error}') if source else error from None


def _unexpected(value: Tree, wanted: str) -> CommandError:
    from kapi.codecs.json_reading import kind_of

    return CommandError(f"json: cannot unmarshal {kind_of(value)} into Go {wanted}")


def _is_cut(text: bytes) -> bool:
    """Whether JSON is incomplete, but has no other error."""
    import json

    shown = text.decode("utf-8", "replace").rstrip()
    try:
        json.loads(shown)
    except json.JSONDecodeError as error:
        return error.pos >= len(shown)
    return False


def parts(data: bytes) -> list[bytes]:
    """The YAML documents or JSON values of a file.  YAML may follow JSON values, or be what only looks like them."""
    values: list[bytes] = []
    if data.lstrip()[:1] == b"{":
        import json

        text, position = data.decode("utf-8", "replace"), 0
        decoder = json.JSONDecoder()
        try:
            while position < len(text):
                start = position
                while start < len(text) and text[start].isspace():
                    start += 1
                if start == len(text):
                    break
                _, position = decoder.raw_decode(text, start)
                values.append(text[start:position].encode())
            return values
        except ValueError:
            data = text[position:].lstrip().encode() if position else data
    documents = values
    lines: list[bytes] = []
    for line in data.split(b"\n"):
        if line.rstrip() == b"---" or line.startswith(b"--- "):
            documents.append(b"\n".join(lines))
            lines = [line[3:]] if line.startswith(b"--- ") else []
        else:
            lines.append(line)
    documents.append(b"\n".join(lines))
    return documents


class Result:
    """``single``: the arguments name exactly one object.  ``sources``: how many files, names or types they have.

    ``ignore_not_found``: NotFound errors are dropped.

    Errors are in the order of the objects.  Those in reading files (``of_files``) come last, as one beside others.  ``by_name``:
    the arguments are a type and names.
    """

    def __init__(
        self,
        visitor: Visitor,
        *,
        single: bool = False,
        targets_single_items: bool = False,
        of_files: bool = False,
        by_name: bool = False,
        sources: int = 1,
        errors: Iterable[BaseException] = (),
    ) -> None:
        self._visitor = visitor
        self.single, self.targets_single_items = single, targets_single_items
        self.ignore_not_found = False
        self.errors = list(errors)
        self.of_files, self._by_name, self.sources = of_files, by_name, sources

    async def visit(self, *, to_first_error: bool = False) -> AsyncIterator[Info]:
        """The objects; ``errors`` has the errors afterwards."""
        found: list[BaseException] = [] if self.of_files else self.errors
        async for info in self._visitor.visit():
            if not isinstance(info, Exception):
                yield info
                continue
            if self.ignore_not_found and isinstance(info, ListErrors):
                info = ListErrors(error for error in info.errors if not isinstance(error, NotFound))
            ignored = isinstance(info, ListErrors) and not info.errors
            if not ignored and not (self.ignore_not_found and isinstance(info, NotFound)):
                if to_first_error:
                    self.errors += info.errors if isinstance(info, ListErrors) else [info]
                    return
                (self.errors if isinstance(info, OtherNamespace) else found).append(info)
        if self.of_files:
            self.errors += self._as_one(found) if self.errors else found

    async def infos(self) -> list[Info]:
        """The objects; ``errors`` has the errors."""
        return [info async for info in self.visit()]

    async def all(self) -> list[Info]:
        """The objects.  Raises the errors."""
        found = await self.infos()
        raise_errors(self.errors)
        return found

    async def all_or_first_error(self) -> list[Info]:
        """The objects.  Raises the first error."""
        found = await self.infos()
        if self.errors:
            raise self.errors[0]
        return found

    def raise_errors(self, errors: list[BaseException] | None = None) -> None:
        """Raises the errors of reading and those of single objects, if there are any; that of a single name as it is."""
        found = self.before(errors or [])
        if self._by_name or not self.errors:
            raise_errors(found)
        aggregate(found)

    @contextlib.contextmanager
    def caught(self, kinds: tuple[type[Exception], ...] = _CAUGHT) -> Iterator[None]:
        """Keeps an error of one object for ``finish``, so that the command continues with the next object."""
        try:
            yield
        except kinds as error:
            self.errors.append(error)

    def finish(self) -> None:
        """Raises the errors that were caught and those of reading, if there are any; a single one as it is."""
        raise_errors(self.errors)

    def before(self, errors: list[BaseException]) -> list[BaseException]:
        """The errors of reading all objects, and then those of single objects."""
        return [*(self._as_one(self.errors) if errors else self.errors), *errors]

    def _as_one(self, errors: list[BaseException]) -> list[BaseException]:
        return [ListErrors(errors)] if len(errors) > (0 if self.of_files else 1) else errors
