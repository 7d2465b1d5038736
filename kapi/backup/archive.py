"""The file of a backup: a compressed tar archive.

::

    pki/ca.crt ...          the keys and certificates, as in --cert-dir
    stores/0/000001 ...     the records of a store (``kapi.store.dump``), as arrays of RESP; 0 is the main store
    backup.json             last: the format, the versions, and for each store its resources, revision and number of records

The file appears under its name when it is complete.  An incomplete one has no ``backup.json``, and is refused.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import hiredis

from kapi.store.dump import Record, parse

FORMAT = 1
MANIFEST, PKI, STORES = "backup.json", "pki/", "stores/"
_COMPRESSION = 1  # of gzip: the fastest
_MEMBER_BYTES = 4_000_000  # size of the records in a member of the archive


class StoredPart(NamedTuple):
    """A store in the manifest; ``resources`` are from --redis-servers-overrides, none for the main store."""

    resources: Sequence[str]
    revision: int
    objects: int
    records: int


class ArchiveError(Exception):
    """The file is not a backup, or an incomplete one; ``str(error)`` is one line."""


class Writer:
    """``close`` or ``abort`` must be called.  Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._scratch = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        descriptor = os.open(self._scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w:gz", compresslevel=_COMPRESSION)
        self._store = ""
        self._members = self._records = 0
        self._waiting: list[bytes] = []
        self._size = 0

    def add(self, name: str, data: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
        self._tar.addfile(member, io.BytesIO(data))

    def begin_store(self, number: int) -> None:
        self._store, self._members, self._records = f"{STORES}{number}/", 0, 0

    def take(self, records: Sequence[Record]) -> None:
        """Adds records of the current store."""
        for record in records:
            packed = hiredis.pack_command(tuple(record))  # type: ignore[arg-type]  # the stub only allows one word
            self._waiting.append(packed)
            self._size += len(packed)
        self._records += len(records)
        if self._size >= _MEMBER_BYTES:
            self._flush()

    def end_store(self) -> int:
        """Ends the current store.  Returns the number of its records."""
        self._flush()
        return self._records

    def _flush(self) -> None:
        if self._waiting:
            self._members += 1
            self.add(f"{self._store}{self._members:06}", b"".join(self._waiting))
            self._waiting, self._size = [], 0

    def close(self, version: str, stores: Sequence[StoredPart]) -> int:
        """Completes the file.  Returns its size in bytes."""
        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        manifest = {"format": FORMAT, "version": version, "time": made, "stores": [part._asdict() for part in stores]}
        self.add(MANIFEST, json.dumps(manifest, indent=2).encode())
        self._tar.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        os.replace(self._scratch, self._path)
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return size

    def abort(self) -> None:
        # on a full disk it cannot write what waits; the compressor would try again when it is freed
        for file in (self._tar.fileobj, self._file):
            with suppress(OSError, ValueError):
                file.close()
        self._scratch.unlink(missing_ok=True)


class Archive:
    """A complete backup: the whole file is read and compared with its manifest first.  Raises ArchiveError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.keys: dict[str, bytes] = {}  # file name -> content
        self.stores: list[StoredPart] = []
        self.time = ""
        counted: dict[str, int] = {}
        manifest = b""
        for name, data in self._members():
            if name.startswith(STORES):
                store = name.split("/")[1]
                counted[store] = counted.get(store, 0) + sum(1 for _ in _records(data))
            elif name.startswith(PKI) and "/" not in name[len(PKI) :]:
                self.keys[name[len(PKI) :]] = data
            elif name == MANIFEST:
                manifest = data
        self._read_manifest(manifest)
        for number, part in enumerate(self.stores):
            if counted.get(str(number), 0) != part.records:
                raise self._error("it is incomplete: records are missing")

    def _read_manifest(self, manifest: bytes) -> None:
        if not manifest:
            raise self._error(f"it is incomplete, or no backup: it has no {MANIFEST}")
        try:
            found = json.loads(manifest)
            if found["format"] != FORMAT:
                raise self._error(f"its format is {found['format']}, this version of kapi reads {FORMAT}")
            self.stores = [StoredPart(**part) for part in found["stores"]]
            self.time = str(found["time"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._error(f"{MANIFEST} cannot be read: {error}") from None

    def records(self, number: int) -> Iterator[list[Record]]:
        """The records of a store, in order, some megabytes at a time."""
        for name, data in self._members():
            if name.startswith(f"{STORES}{number}/"):
                yield list(_records(data))

    def _members(self) -> Iterator[tuple[str, bytes]]:
        try:
            with tarfile.open(self._path, "r|gz") as tar:
                for member in tar:
                    content = tar.extractfile(member) if member.isreg() else None
                    if content is not None:
                        yield member.name, content.read()
        except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error, gzip.BadGzipFile) as error:
            why = (
                error.strerror if isinstance(error, OSError) and error.strerror else f"incomplete or no backup: {error}"
            )
            raise self._error(why) from None

    def _error(self, why: str) -> ArchiveError:
        return ArchiveError(f"{self._path}: {why}")


def _records(data: bytes) -> Iterator[Record]:
    """Raises ValueError."""
    reader = hiredis.Reader()
    reader.feed(data)
    while (reply := reader.gets()) is not False:
        yield parse(reply)
