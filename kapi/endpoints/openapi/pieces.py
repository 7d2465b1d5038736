"""Writes documents in pieces: their large maps, member by member, and the whole from the texts of these maps.

With thousands of custom resources a document has 80 MB, and its tree five times as much.  So the members of its maps are given as
functions, and a member is freed when it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kapi.codecs import json_pieces
from kapi.machinery.each import costly
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.tree import Object
from kapi.request.packed import Packed, Packer

Make = Callable[[], Object]
WriteMember = Callable[[str, Object], bytes]


@dataclass(frozen=True)
class Form:
    """A way of writing documents.  ``write`` takes the document with Packers in place of its large maps."""

    write_path: WriteMember
    write_schema: WriteMember
    separator: bytes  # between two members
    write: Callable[[Object, Packer], None]


class Section:
    """A large map of a document, in several forms at once."""

    def __init__(self, writers: Sequence[WriteMember], separators: Sequence[bytes]) -> None:
        self._writers = writers
        self._separators = separators
        self.texts = [Packer() for _ in writers]

    def add(self, name: str, value: Object) -> None:
        size = 0
        for write, separator, text in costly(zip(self._writers, self._separators, self.texts, strict=True)):
            member = write(name, value)
            size = len(member)
            text.add(separator + member if text.size else member)
        free_in_steps(value, size)

    def join(self, other: Section) -> None:
        for text, separator, more in zip(self.texts, self._separators, other.texts, strict=True):
            if text.size and more.size:
                text.add(separator)
            text.join(more)


def path_section(forms: Sequence[Form]) -> Section:
    return Section([form.write_path for form in forms], [form.separator for form in forms])


def schema_section(forms: Sequence[Form], schemas: Mapping[str, Make]) -> Section:
    section = Section([form.write_schema for form in forms], [form.separator for form in forms])
    for name, make in schemas.items():
        section.add(name, make())
    return section


def whole(form: Form, document: Object) -> Packed:
    """A document with Packers in place of its large maps."""
    packer = Packer()
    form.write(document, packer)
    return packer.packed()


def _write_json(document: Object, out: Packer) -> None:
    before = b"{"
    for key, value in document.items():
        out.add(before + json_pieces.dumps(key) + b":")
        before = b","
        if isinstance(value, Packer):
            out.add(b"{")
            out.join(value)
            out.add(b"}")
        elif isinstance(value, dict) and value:
            _write_json(value, out)
        else:
            out.add(json_pieces.dumps(value))
    out.add(b"}")


def _member(name: str, value: Object) -> bytes:
    return json_pieces.dumps(name) + b":" + json_pieces.dumps(value)


JSON = Form(_member, _member, b",", _write_json)
