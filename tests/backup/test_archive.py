"""A disk that is full while a backup is written: one error, and no file that looks like a backup."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kapi.backup.archive import StoredPart, Writer
from kapi.store.dump import OBJECT, Record


def test_a_backup_on_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "backup.tgz")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._file.fileno())
    os.close(full)
    with pytest.raises(OSError) as caught:
        writer.begin_store(0)
        writer.take([Record(OBJECT, b"key", os.urandom(1_000_000))])
        writer.close("v1", [StoredPart([], 1, 1, writer.end_store())])
    assert caught.value.errno == errno.ENOSPC
    writer.abort()
    assert list(tmp_path.iterdir()) == []
