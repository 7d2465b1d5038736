"""What the hash and the stream hold, read strictly: another program may have written there, or half of a restore.

What no kapi wrote is skipped, counted and named once in the log; everything else goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twisted.logger import Logger

from kapi.store.interface import CREATED, DELETED, UPDATED, Change, StoredObject
from kapi.store.reply import Reply

log = Logger()

OBJECTS, CHANGES = "objects", "changes"
_KINDS = (CREATED, UPDATED, DELETED)
_MAX_NAMED = 1000  # skipped entries that are remembered by name
_MAX_SHOWN_BYTES = 200  # bytes of a name that the log shows


class ForeignEntry(ValueError):
    """An entry that no kapi wrote; the text says why."""


def read_value(key: bytes, value: bytes) -> StoredObject:
    """An object from its field and value in the hash.

    A value without the header that kapi writes is an object at revision 0, whose data nobody can read.
    Raises ForeignEntry for a field that is no text.
    """
    try:
        name = key.decode()
    except UnicodeDecodeError:
        raise ForeignEntry("its name is not UTF-8") from None
    header, newline, data = value.partition(b"\n")
    number, colon, length = header.partition(b":")
    if not (newline and colon and number.isdigit() and length.isdigit()):
        return StoredObject(name, 0, value)
    return StoredObject(name, int(number), data)


def read_halves(value: bytes) -> tuple[int, bytes, bytes]:
    """Revision, head and tail of a value in the hash.  Raises ForeignEntry."""
    header, newline, data = value.partition(b"\n")
    number, colon, length = header.partition(b":")
    if not (newline and colon and number.isdigit() and length.isdigit()):
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
    if sequence != b"0":
        raise ForeignEntry("its id is no revision")
    kind = text[:1]
    if kind not in _KINDS:
        raise ForeignEntry("its field names no kind of change")
    return Change(int(number), kind, text[1:], data)


def counter_of(value: bytes | None) -> int:
    """The revision counter; 0 when there is none, or another program has put something else there."""
    return int(value) if value is not None and value.isdigit() else 0


def identifier_of(entry: Sequence[Reply]) -> tuple[int, int]:
    """The two numbers of an entry's id."""
    number, _, sequence = entry[0].partition(b"-")
    return int(number), int(sequence)


def size_of(entries: Iterable[Sequence[Reply]]) -> int:
    """Bytes of the values of XRANGE's and XREAD's entries, whoever wrote them."""
    return sum(len(part) for entry in entries for part in entry[1] or ())


class Skipped:
    """The entries that were skipped: counted for metrics, named once each in the log."""

    def __init__(self) -> None:
        self.counts = {OBJECTS: 0, CHANGES: 0}
        self._named: dict[tuple[str, bytes], None] = {}
        self._silent = False  # there are more than the log names

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
        """The objects among fields and values of the hash."""
        found: list[StoredObject] = []
        for position in range(0, len(flat), 2):
            try:
                found.append(read_value(flat[position], flat[position + 1]))
            except ForeignEntry as error:
                self.add(OBJECTS, flat[position], error)
        return found
