"""``kapi explain --output=plaintext-openapiv2``: the text from the OpenAPI v2 document (upstream: kubectl ``explain``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kapi.kubectl.messages import CommandError
from kapi.kubectl.openapi_v2 import Models, inner, reference, shape
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.tree import Object

WIDTH = 80  # characters
_MARGIN, _TEXT_MARGIN = 3, 5  # of each level of fields, of the description
_CODE = "    "
_BULLET = re.compile(r"(\d+\.?|-|\*)\s", re.ASCII).match


def wrapped(text: str, width: int) -> Iterator[str]:
    """Lines of words; lines of code, empty lines, bullets and what follows a colon stay apart."""
    words: list[str] = []
    count, last = 0, ""
    for line in text.split("\n"):
        bare = line.strip()
        is_code, is_empty = line.startswith(_CODE), count > 0 and not bare
        if words and (is_code or last.endswith(":") or not bare or _BULLET(bare)):
            yield " ".join(words)
            words, count, last = [], count + 1, ""
        if is_code or is_empty:
            yield line if is_code else ""
            count += 1
            continue
        for word in line.split():
            last = word
            if words and len(" ".join((*words, word)).encode()) > width:
                yield " ".join(words)
                words, count, last = [], count + 1, ""
            words.append(word)
    if words:
        yield " ".join(words)


class ModelText:
    """``recursive``: also the fields of fields, without descriptions, down to ``depth``, 0 for all."""

    def __init__(self, models: Models, *, recursive: bool, depth: int = 0) -> None:
        self._models, self._recursive, self._depth = models, recursive, depth

    def explain(self, kind: GroupVersionKind, fields: Sequence[str]) -> str:
        """The text about the kind, or about the field at the path.  Raises CommandError."""
        name = self._models.name_of(kind)
        if name is None:
            raise CommandError(f"couldn't find resource for {quote(f'{kind.group}/{kind.version}, Kind={kind.kind}')}")
        schema = self._field(self._models.schema(name), list(fields))
        lines = [f"KIND:     {kind.kind}", f"VERSION:  {GroupVersion(kind.group, kind.version)}", ""]
        type_ = "" if reference(schema) else self._type(schema)
        descriptions = [schema.get("description") or ""]
        while reference(schema) or shape(schema) in ("array", "map"):
            schema = self._followed(schema) if reference(schema) else inner(schema)
            type_ = type_ or ("" if reference(schema) else self._type(schema))
            descriptions.append(schema.get("description") or "")
        form = shape(schema)
        if form not in ("fields", "any"):
            lines += [f"FIELD:    {fields[-1] if fields else ''} <{type_}>", ""]
        elif form == "fields" and fields:
            lines += [f"RESOURCE: {fields[-1]} <{type_}>", ""]
        lines += ["DESCRIPTION:", *_described(descriptions)]
        if form == "fields":
            lines += ["", "FIELDS:", *self._fields(schema, 1, frozenset())]
        return "".join(f"{line}\n" for line in lines)

    def _followed(self, schema: Object) -> Object:
        return self._models.schema(reference(schema))

    def _field(self, schema: Object, fields: list[str]) -> Object:
        """The schema of the last field; that of a value without fields when the path goes on.  Raises CommandError."""
        while fields:
            if reference(schema):
                schema = self._followed(schema)
            elif shape(schema) in ("array", "map"):
                schema = inner(schema)
            elif shape(schema) != "fields":
                return schema
            elif fields[0] not in schema["properties"]:
                raise CommandError(f"field {quote(fields[0])} does not exist")
            else:
                schema = schema["properties"][fields.pop(0)]
        return schema

    def _type(self, schema: Object) -> str:
        if reference(schema):
            return self._type(self._followed(schema))
        form = shape(schema)
        if form in ("array", "map"):
            return ("[]" if form == "array" else "map[string]") + self._type(inner(schema))
        return {"fields": "Object", "any": ""}.get(form, form)

    def _fields(self, schema: Object, level: int, seen: frozenset[str]) -> Iterator[str]:
        """``seen``: the references that led here, which end when they lead back."""
        while reference(schema) or shape(schema) in ("array", "map"):
            name = reference(schema)
            if name in seen:
                return
            seen = seen | {name} if name else seen
            schema = self._followed(schema) if name else inner(schema)
        required = set(schema.get("required") or ())
        for name, field in sorted((schema.get("properties") or {}).items()):
            margin = level * _MARGIN
            line = f"{' ' * margin}{name}\t<{self._type(field)}>"
            if self._recursive:
                yield line
                if not self._depth or level < self._depth:
                    yield from self._fields(field, level + 1, seen)
            else:
                yield line + (" -required-" if name in required else "")
                yield from _block(field.get("description") or "", margin + 2)
                yield ""


def _described(descriptions: Sequence[str]) -> Iterator[str]:
    if not any(descriptions):
        yield " " * _TEXT_MARGIN + "<empty>"
    for number, text in enumerate(descriptions):
        if text:
            if number:
                yield ""
            yield from _block(text, _TEXT_MARGIN)


def _block(text: str, margin: int) -> Iterator[str]:
    for line in wrapped(text, WIDTH - margin):
        yield " " * margin + line if line else ""
