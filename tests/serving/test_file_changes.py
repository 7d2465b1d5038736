"""Files that are read again at once when they were changed."""

from __future__ import annotations

import os
from pathlib import Path

from kapi.options.options import Options
from kapi.serving.file_changes import FileChanges


def test_each_kind_of_change_is_seen_once(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_text("one")
    changes = FileChanges([str(path)])
    assert changes and not changes.look()
    path.write_text("longer")
    assert changes.look() and not changes.look()
    os.utime(path, ns=(1, 1))  # as a write of the same size does
    assert changes.look() and not changes.look()
    other.write_text("longer")
    os.utime(other, ns=(1, 1))
    other.replace(path)
    assert changes.look() and not changes.look()
    path.unlink()
    assert changes.look() and not changes.look()
    path.write_text("again")
    assert changes.look() and not changes.look()


def test_a_link_that_names_another_file_is_a_change(tmp_path: Path) -> None:
    """Secrets are mounted as links to a directory that is replaced."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tls.crt").write_text(name)
    link = tmp_path / "data"
    link.symlink_to("old")
    changes = FileChanges([str(link / "tls.crt")])
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").replace(link)
    assert changes.look() and not changes.look()


def test_the_files_of_a_directory_are_looked_at(tmp_path: Path) -> None:
    changes = FileChanges([str(tmp_path)])
    path = tmp_path / "a.yaml"
    path.write_text("one")
    assert changes.look() and not changes.look()
    before = os.stat(tmp_path)
    path.write_text("longer")
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))  # a write changes no directory
    assert changes.look() and not changes.look()
    path.unlink()
    assert changes.look() and not changes.look()


def test_only_files_that_flags_name_and_that_are_read_again_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("")
    assert not FileChanges(Options.from_command_line([]).reloaded_files())
    flags = [f"--client-ca-file={path}", f"--encryption-provider-config={path}1"]
    assert Options.from_command_line(flags).reloaded_files() == [str(path)]
    flags.append("--encryption-provider-config-automatic-reload")
    assert Options.from_command_line(flags).reloaded_files() == [str(path), f"{path}1"]
