"""Build of kapi: the metadata is in pyproject.toml; here are the two steps that a declaration cannot express.

The types of Kubernetes 1.36 are derived at build time from the package ``kubernetes-validate`` (110 MB of definitions, a
build requirement only, and only where they have not been derived) into two compact files under ``kapi/schema/data``.

The source distribution has the same bytes whenever and wherever it is made of the same files: names are sorted, owners left
out, and times are SOURCE_DATE_EPOCH (seconds since 1970) when that is set.  ``bdist_wheel`` heeds it by itself.

An install compiles the modules that it copies; an editable one copies none, so they are compiled in place: without that a
start takes twice as long, again and again where Python may not write beside the sources.
"""

from __future__ import annotations

import compileall
import gzip
import os
import runpy
import tarfile
import time
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
DATA = ROOT / "kapi" / "schema" / "data"
SOURCE = "kubernetes-validate>=1.36"


def is_derived() -> bool:
    return all((DATA / name).exists() for name in ("types.json", "descriptions.json"))


def derive_schema(directory: Path) -> None:
    """Writes the schema files; ``derive.py`` needs nothing but the standard library and its source package."""
    runpy.run_path(str(ROOT / "kapi" / "schema" / "derive.py"))["write"](directory)


class BuildComplete(build_py):
    """Derives before anything is copied; an editable install finds all files in the source tree."""

    def run(self) -> None:
        if not is_derived():
            derive_schema(DATA)
        super().run()
        if self.editable_mode:
            compileall.compile_dir(ROOT / "kapi", quiet=1)


class SameBytes(sdist):
    """Writes the archive itself: setuptools puts in times, owners and rights as it finds them."""

    def make_archive(self, base_name: str, *_: object, base_dir: str = "", **__: object) -> str:
        path = f"{base_name}.tar.gz"
        epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())

        def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file, gzip.GzipFile("", "wb", mtime=epoch, fileobj=file) as packed:
            with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
                archive.add(base_dir, filter=plain)  # in the order of names
        return path


setup(
    cmdclass={"build_py": BuildComplete, "sdist": SameBytes},
    setup_requires=[]
    if is_derived()
    else [SOURCE],  # what setuptools' backend answers a front end that isolates the build
)
