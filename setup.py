"""Build of kapi: the metadata is in pyproject.toml; here are the two steps that a declaration cannot express.

The types of Kubernetes 1.36 are derived at build time from the package ``kubernetes-validate`` (110 MB of definitions, a
build requirement only) into two compact files under ``kapi/schema/data``.

An install compiles the modules that it copies; an editable one copies none, so they are compiled in place: without that a
start takes twice as long, again and again where Python may not write beside the sources.
"""

from __future__ import annotations

import compileall
import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


def derive_schema(directory: Path) -> None:
    """Writes the schema files; ``derive.py`` needs nothing but the standard library and its source package."""
    runpy.run_path(str(ROOT / "kapi" / "schema" / "derive.py"))["write"](directory)


class BuildComplete(build_py):
    """Derives before anything is copied; an editable install finds all files in the source tree."""

    def run(self) -> None:
        data = ROOT / "kapi" / "schema" / "data"
        if not all((data / name).exists() for name in ("types.json", "descriptions.json")):
            derive_schema(data)
        super().run()
        if self.editable_mode:
            compileall.compile_dir(ROOT / "kapi", quiet=1)


setup(cmdclass={"build_py": BuildComplete})
