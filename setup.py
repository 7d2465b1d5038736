"""Build of kapi: the metadata is in pyproject.toml; here is the one step that a declaration cannot express.

The types of Kubernetes 1.36 are derived at build time from the package ``kubernetes-validate`` (110 MB of definitions, a
build requirement only) into two compact files under ``kapi/schema/data``.
"""

from __future__ import annotations

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


def derive_schema(directory: Path) -> None:
    """Writes the schema files; ``derive.py`` needs nothing but the standard library and its source package."""
    runpy.run_path(str(ROOT / "kapi" / "schema" / "derive.py"))["write"](directory)


class BuildWithSchema(build_py):
    """Derives before anything is copied; an editable install finds the files in the source tree."""

    def run(self) -> None:
        data = ROOT / "kapi" / "schema" / "data"
        if not all((data / name).exists() for name in ("types.json", "descriptions.json")):
            derive_schema(data)
        super().run()


setup(cmdclass={"build_py": BuildWithSchema})
