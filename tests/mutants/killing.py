"""A copy of the checkout in which one line at a time is wrong, and the tests that should notice it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.mutations import Mutation

_SECONDS = 900.0  # after which tests count as hanging, which notices the mutation
_PYTEST = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider")
_NO_TESTS = 5  # pytest's exit code


class Checkout:
    """A copy of ``root`` in ``directory``."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.root, self._copy = root, directory
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            if (root / name).is_file():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, directory / name)

    def survives(self, mutation: Mutation) -> bool:
        """Whether all tests pass with it: the near ones first, then the quick part, then the recordings."""
        file = self._copy / mutation.path
        source = file.read_text()
        file.write_text(mutation.applied(source))
        try:
            return all(self._passes(arguments) for arguments in self._stages(mutation.path))
        finally:
            file.write_text(source)

    def _stages(self, path: Path) -> Iterator[list[str]]:
        near = self.near(path)
        if near:
            yield near
        yield ["--quick"]
        yield ["tests/golden"]

    def near(self, path: Path) -> list[str]:
        """The files of tests that name the module, are called as it is, or lie where it does in its package."""
        module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        package, _, name = module.rpartition(".")
        named = re.compile(rf"{re.escape(module)}\b|from {re.escape(package)} import [^\n]*\b{re.escape(name)}\b")
        found = []
        beside = self._copy / "tests" / path.parent.relative_to("kapi")
        for test in sorted((self._copy / "tests").rglob("test_*.py")):
            if test.parent == beside or test.name == f"test_{path.stem}.py" or named.search(test.read_text()):
                found.append(test.relative_to(self._copy).as_posix())
        return found

    def _passes(self, arguments: list[str]) -> bool:
        environment = {**os.environ, "PYTHONPATH": str(self._copy), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", *_PYTEST, *arguments]
        process = subprocess.Popen(
            command, cwd=self._copy, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(_SECONDS) in (0, _NO_TESTS)
        except subprocess.TimeoutExpired:
            return False
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started in its session."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()
