"""``kapi explain``: the documentation of a kind and its fields from the server (upstream: kubectl ``explain/v2``).

A schema of the OpenAPI v3 document is followed through references, the items of lists, the values of maps, and ``allOf``; a
reference that leads back to itself ends there.  Lines have a bounded width and are broken between words (``util/term``,
go-wordwrap): spaces inside of a line are kept, those at a break are removed, a no-break space is part of its word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kapi.client.discovery import APIResource
from kapi.client.errors import NoMatch
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, like, shared
from kapi.kubectl.messages import CommandError
from kapi.machinery.golang import value_text
from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.jsonpath import JSONPathError, read_fields
from kapi.machinery.tree import Object, Tree

_PIECE = re.compile(r"\n|[^\S\n\xa0]+|(?:[^\s]|\xa0)+")
WIDTH, MARGIN = 80, 4  # characters
MAX_ENUM = 4  # values shown in a list of fields
_NONE: frozenset[str] = frozenset()
FLAGS = (
    *shared("recursive"),
    Flag("max-depth", "int", default=0, help="How deep --recursive goes; 0 has no end."),
    Flag("api-version", help="The group version that is meant, such as apps/v1."),
    like("output", default="plaintext"),
)
HELP = Help(
    "TYPE [--recursive] [--api-version=GROUP/VERSION]",
    "Describes the fields of a kind of object, from the OpenAPI documents of the server.",
    ("Describe pods", "explain pods"),
    ("Describe one field", "explain pods.spec.containers"),
    ("List all fields below a field", "explain deployment.spec --recursive"),
)


def wrapped(text: str, width: int) -> str:
    """Breaks the text into lines of ``width`` characters; a longer word has a line of its own."""
    out: list[str] = []
    column, spaces = 0, ""
    for piece in _PIECE.findall(text):
        if piece == "\n":
            if column + len(spaces) <= width:
                out.append(spaces)
            out.append("\n")
            column, spaces = 0, ""
        elif piece.strip() == "" and piece != "\xa0" * len(piece):
            spaces = piece
        else:
            before = column + len(spaces)
            if before > 1 and before + len(piece) > width:
                out.append("\n")
                column, spaces = 0, ""
            out.append(spaces + piece)
            column, spaces = column + len(spaces) + len(piece), ""
    if column + len(spaces) <= width:
        out.append(spaces)
    return "".join(out)


def indented(text: str, amount: int) -> str:
    """Indents each line by ``amount`` spaces, also an empty one at the end."""
    margin = " " * amount
    return margin + text.replace("\n", "\n" + margin)


class NoField(Exception):
    """The kind has no such field."""


class SchemaText:
    """``recursive``: also the fields of fields, without descriptions, down to ``depth``, 0 for all."""

    def __init__(self, document: Object, *, recursive: bool = False, depth: int = 0) -> None:
        self._document, self._recursive, self._depth = document, recursive, depth

    def kind_of(self, group: str, version: str, resource: str) -> Object | None:
        """Group, version and kind of a resource, as its operations say."""
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        paths = self._document.get("paths") or {}
        for scope in ("", "/namespaces/{namespace}"):
            for end in ("", "/{name}"):
                operations = paths.get(f"{prefix}{scope}/{resource}{end}") or {}
                for method in ("get", "post", "put", "patch", "delete"):
                    kind: Object | None = (operations.get(method) or {}).get("x-kubernetes-group-version-kind")
                    if kind:
                        return kind
        return None

    def schema_of(self, kind: Object) -> Object | None:
        schemas = (self._document.get("components") or {}).get("schemas") or {}
        for name in sorted(schemas):
            if kind in schemas[name].get("x-kubernetes-group-version-kind", ()):
                found: Object = schemas[name]
                return found
        return None

    def explain(self, schema: Object, fields: Sequence[str]) -> str:
        """The text about the schema, or about the field at the path.  Raises NoField."""
        found = self._target(schema, fields, _NONE, "")
        if found is None:
            raise NoField(f'field "{fields[-1]}" does not exist')
        head, target = found
        resolved = self._resolved(target)
        text = "DESCRIPTION:\n" + _block("".join(self._descriptions(resolved)) or "<empty>", MARGIN)
        lines = "".join(self._fields(resolved, 1, _NONE))
        return head + text + _external(resolved, 0, MARGIN) + (f"FIELDS:\n{lines}" if lines else "")

    def _resolved(self, schema: Object) -> Object:
        """The schema that a reference leads to, or the schema itself."""
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        found: Tree = self._document
        for part in reference[1:].split("/"):
            if part:
                found = found.get(part)
                if not isinstance(found, dict):
                    return schema
        return found or schema

    def _target(
        self, schema: Object, fields: Sequence[str], seen: frozenset[str], head: str
    ) -> tuple[str, Object] | None:
        """The heading and the schema of the last of the fields; None when there is no such field."""
        if not fields:
            return head, schema
        reference = schema.get("$ref") or ""
        if reference in seen:
            return None
        seen = seen | {reference} if reference else seen
        resolved = self._resolved(schema)
        inner = (resolved.get("properties") or {}).get(fields[0])
        if inner:
            head = f"FIELD: {fields[0]} <{self._type(inner)}>\n{_long_enum(inner)}\n\n"
            return self._target(inner, fields[1:], _NONE, head)
        values = resolved.get("items") or _values(resolved)
        if values is not None:
            return self._target(values, fields, seen, head)
        for part in resolved.get("allOf") or ():
            found = self._target(part, fields, seen, head)
            if found is not None:
                return found
        return None

    def _descriptions(self, schema: Object) -> Iterator[str]:
        """The schema's own description, and those of its parts."""
        resolved = self._resolved(schema)
        if resolved.get("description"):
            yield resolved["description"] + "\n"
        for part in _parts(resolved):
            yield from self._descriptions(part)

    def _fields(self, schema: Object, level: int, seen: frozenset[str]) -> Iterator[str]:
        reference = schema.get("$ref") or ""
        if reference in seen:
            return
        seen = seen | {reference} if reference else seen
        resolved = self._resolved(schema)
        properties, required = resolved.get("properties") or {}, set(resolved.get("required") or ())
        for name in sorted(properties):
            yield self._field(name, properties[name], name in required, level * 2)
            if self._recursive and (not self._depth or level < self._depth):
                yield from self._fields(properties[name], level + 1, seen)
        for part in _parts(resolved):
            yield from self._fields(part, level, seen)

    def _field(self, name: str, schema: Object, required: bool, margin: int) -> str:
        text = f"{' ' * margin}{name}\t<{self._type(schema)}>" + (" -required-" if required else "")
        text += _short_enum(schema, margin) + "\n"
        if self._recursive:
            return text
        text += _block(schema.get("description") or "<no description>", margin + 2)
        return text + _external(schema, margin + 2, margin + 4) + "\n"

    def _type(self, schema: Object) -> str:
        if schema.get("items"):
            return "[]" + self._type(schema["items"])
        values = _values(schema)
        if values is not None:
            return "map[string]" + self._type(values)
        parts = schema.get("allOf") or []
        if len(parts) == 1 and not schema.get("properties"):
            return self._type(parts[0])
        reference = schema.get("$ref")
        if reference:
            resolved = self._resolved(schema)
            known = "" if resolved is schema else resolved.get("type")
            if known and known != "object":
                return str(known)
            return str(reference).rpartition("/")[2].rpartition(".")[2] or "Object"
        known = schema.get("type")
        return "Object" if not known or known == "object" else str(known)


def _values(schema: Object) -> Object | None:
    """The schema of a map's values."""
    found = schema.get("additionalProperties")
    return found if isinstance(found, dict) and found else None


def _parts(schema: Object) -> Iterator[Object]:
    yield from schema.get("allOf") or ()
    if schema.get("items"):
        yield schema["items"]
    values = _values(schema)
    if values is not None:
        yield values


def _block(text: str, margin: int) -> str:
    """Wrapped text, indented to the margin."""
    return indented(wrapped(text, WIDTH - margin), margin) + "\n"


def _external(schema: Object, margin: int, inner: int) -> str:
    """The link to more documentation, if there is one."""
    docs = schema.get("externalDocs")
    if not docs:
        return ""
    text = "\n" + indented("EXTERNAL DOCS:", margin) + "\n"
    if docs.get("description"):
        text += _block(docs["description"], inner)
    if docs.get("url"):
        text += indented(f"URL: {docs['url']}", inner) + "\n"
    return text


def _enum_text(value: object) -> str:
    return '""' if value == "" else value_text(value)


def _long_enum(schema: Object) -> str:
    values = schema.get("enum")
    return "ENUM:" + "".join(f"\n{' ' * MARGIN}{_enum_text(value)}" for value in values) if values else ""


def _short_enum(schema: Object, margin: int) -> str:
    values = schema.get("enum")
    if not values:
        return ""
    shown = ", ".join(_enum_text(value) for value in values[:MAX_ENUM])
    return f"\n{' ' * margin}enum: {shown}" + (", ...." if len(values) > MAX_ENUM else "")


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    factory.check_config()
    if not flags.arguments:
        raise CommandError(
            f'You must specify the type of resource to explain. Use "{program} api-resources" for a complete list of '
            "supported resources.\n"
        )
    if len(flags.arguments) > 1:
        raise CommandError("We accept only this format: explain RESOURCE\n")
    depth = flags.get_int("max-depth")
    if depth > 0 and not flags.get_bool("recursive"):
        raise CommandError("--max-depth requires --recursive")
    if depth < 0:
        raise CommandError("--max-depth must be non-negative")
    try:
        found, fields = await _resource(factory, flags.arguments[0])
    except JSONPathError as error:
        raise CommandError(str(error)) from None
    group, version = found.group, found.version
    if flags.get_string("api-version"):
        group, version = GroupVersion.parse(flags.get_string("api-version"))
    if flags.get_string("output") == "plaintext-openapiv2":
        from kapi.kubectl.explain_v2 import ModelText
        from kapi.kubectl.openapi_v2 import Models

        model = ModelText(await Models.read(factory), recursive=flags.get_bool("recursive"), depth=depth)
        factory.out.write(model.explain(GroupVersionKind(group, version, found.kind), fields))
        return 0
    named = f"{group}/{version}, Resource={found.name}"
    document = await factory.openapi(group, version)
    if document is None:
        raise CommandError(f'couldn\'t find resource for "{named}"')
    writer = SchemaText(document, recursive=flags.get_bool("recursive"), depth=depth)
    if flags.get_string("output") != "plaintext":
        raise CommandError(f"unrecognized format: {flags.get_string('output')}")
    kind = writer.kind_of(group, version, found.name)
    if kind is None:
        raise CommandError(f"GVR ({named}) not found in OpenAPI schema")
    head = f"GROUP:      {kind['group']}\n" if kind.get("group") else ""
    factory.out.write(f"{head}KIND:       {kind['kind']}\nVERSION:    {kind['version']}\n\n")
    schema = writer.schema_of(kind)
    if schema is None:
        shown = " ".join(f"{key}:{kind[key]}" for key in sorted(kind))
        raise CommandError(f"GVK map[{shown}] not found in OpenAPI schema")
    try:
        factory.out.write(writer.explain(schema, fields) + "\n")
    except NoField as error:
        raise CommandError(str(error)) from None
    return 0


async def _resource(factory: Factory, text: str) -> tuple[APIResource, list[str]]:
    """The resource and the path of fields; ``deployments.apps.spec`` has a group, which only a plural may be followed by.

    Raises CommandError and JSONPathError.
    """
    name, *parts = _path(text)
    if name is None:
        raise CommandError(_NO_FIELD.format("first node must be field node"))
    if not name:
        raise CommandError("a resource must be present, got: /, Resource=")
    try:
        candidates = await factory.mapper.resources_for(name)
    except NoMatch as error:
        raise CommandError(str(error), plain=True) from None
    several = "all nodes must be field nodes"
    if not factory.flags.get_string("api-version"):
        several = "first node must be field node"
        for one in candidates:
            full = f"{one.name}.{one.group}" if one.group else one.name
            if text.startswith(full):
                return one, _fields(_path(text[len(full) :])[1:] if text != full else [], several)
    return candidates[0], _fields(parts, several)


_NO_FIELD = "invalid jsonpath syntax, {}"


def _path(text: str) -> list[str | None]:
    return read_fields("{." + text.removesuffix(".") + "}")


def _fields(parts: list[str | None], problem: str) -> list[str]:
    fields = [part for part in parts if part is not None]
    if len(fields) < len(parts):
        raise CommandError(_NO_FIELD.format(problem))
    return fields
