"""Strict reading of the entries in the hash and in the stream: another program, or an incomplete restore, may have written there.

Entries that kapi did not write are skipped, counted, and logged once; they do not affect the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from twisted.logger import Logger

from kapi.store.interface import CREATED, DELETED, UPDATED, Change, StoredObject

#: bytes, an int, None, a list of replies, or an exception for an error of the server; it depends on the command
Reply = Any
log = Logger()

OBJECTS, CHANGES = "objects", "changes"
_KINDS = (CREATED, UPDATED, DELETED)
_MAX_NAMED = 1000  # skipped entries that are logged by name
_MAX_SHOWN_BYTES = 200  # the most bytes of a name in the log
_MAX_REVISION = 1 << 53  # the numbers of the store's scripts are exact up to here
_MAX_DIGITS = len(str(_MAX_REVISION))  # int() refuses more than 4,300 of them


class ForeignEntry(ValueError):
    """An entry that kapi did not write; the text tells why it cannot be one of kapi's."""


def read_value(key: bytes, value: bytes) -> StoredObject:
    """An object from its field and value in the hash.

    A value without the header that kapi writes is returned at revision 0; the caches take it for an unreadable object.
    Raises ForeignEntry for a field that is not UTF-8.
    """
    try:
        name = key.decode()
    except UnicodeDecodeError:
        raise ForeignEntry("its name is not UTF-8") from None
    header, newline, data = value.partition(b"\n")
    number, colon, length = header.partition(b":")
    if not (newline and colon and length.isdigit() and _is_revision(number)):
        return StoredObject(name, 0, value)
    return StoredObject(name, int(number), data)


def read_halves(value: bytes) -> tuple[int, bytes, bytes]:
    """Revision, head and tail of a value in the hash.  Raises ForeignEntry."""
    header, newline, data = value.partition(b"\n")
    number, colon, length = header.partition(b":")
    if not (newline and colon and length.isdigit() and len(length) <= _MAX_DIGITS and _is_revision(number)):
        raise ForeignEntry("its value has no revision")
    cut = int(length)
    return int(number), data[:cut], data[cut + len(number) :]


def read_entry(entry: Sequence[Reply]) -> Change:
    """A change from ``[id, [field, value]]`` of XRANGE and XREAD.  Raises ForeignEntry."""
    try:
        identifier, (field, data) = entry
        number, _, sequence = identifier.partition(b"-")
        text = field.decode()
    except UnicodeDecodeError:
        raise ForeignEntry("its field is not UTF-8") from None
    except (TypeError, ValueError):
        raise ForeignEntry("it has not one field") from None
    if sequence != b"0" or not _is_revision(number):
        raise ForeignEntry("its id is no revision")
    kind = text[:1]
    if kind not in _KINDS:
        raise ForeignEntry("its field names no kind of change")
    return Change(int(number), kind, text[1:], data)


def counter_of(value: bytes | None) -> int:
    """The revision counter; 0 when there is none, or another program has put something else there."""
    return int(value) if value is not None and _is_revision(value) else 0


def _is_revision(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) <= _MAX_DIGITS and int(digits) <= _MAX_REVISION


def identifier_of(entry: Sequence[Reply]) -> tuple[int, int]:
    """The two numbers of an entry's id."""
    number, _, sequence = entry[0].partition(b"-")
    return int(number), int(sequence)


def size_of(entries: Iterable[Sequence[Reply]]) -> int:
    """The number of bytes in the fields and values of XRANGE's and XREAD's entries, foreign ones included."""
    return sum(len(part) for entry in entries for part in entry[1] or ())


class Skipped:
    """The skipped entries: counted for metrics, each logged once."""

    def __init__(self) -> None:
        self.counts = {OBJECTS: 0, CHANGES: 0}
        self._named: dict[tuple[str, bytes], None] = {}
        self._silent = False  # whether there are too many to log more of them

    def add(self, where: str, name: bytes, why: object) -> None:
        """``where`` is OBJECTS (``name`` a field of the hash) or CHANGES (``name`` an id of the stream)."""
        if (where, name) in self._named:
            return
        self.counts[where] += 1
        if len(self._named) >= _MAX_NAMED:
            if not self._silent:
                self._silent = True
                log.error("more entries of the store that kapi did not write are skipped; they are counted, not named")
            return
        self._named[where, name] = None
        shown = name[:_MAX_SHOWN_BYTES].decode("utf-8", "backslashreplace")
        log.error("skipped an entry of the store's {where} that kapi did not write: {name!r}: {why}",
                  where=where, name=shown, why=str(why))  # fmt: skip

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def changes(self, entries: Iterable[Sequence[Reply]]) -> list[Change]:
        """The entries of the stream that are changes."""
        found: list[Change] = []
        for entry in entries:
            try:
                found.append(read_entry(entry))
            except ForeignEntry as error:
                self.add(CHANGES, entry[0], error)
        return found

    def objects(self, flat: Sequence[bytes]) -> list[StoredObject]:
        """The objects among alternating fields and values of the hash."""
        found: list[StoredObject] = []
        for position in range(0, len(flat), 2):
            try:
                found.append(read_value(flat[position], flat[position + 1]))
            except ForeignEntry as error:
                self.add(OBJECTS, flat[position], error)
        return found
