"""A copy of the checkout in which one line at a time is wrong, and the tests that should notice it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.fate import Fate
from tests.mutants.mutations import Mutation

_SECONDS = 900.0  # after which tests count as hanging
_PYTEST = ("--quick", "-x", "-q", "-n", "0", "-p", "no:cacheprovider")
#: pytest's exit codes: a test fails, one cannot be imported, there is none
_FAILED, _ERROR, _NO_TESTS = 1, 2, 5


class Checkout:
    """A copy of ``root`` in ``directory``."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.root, self._copy = root, directory
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            if (root / name).is_file():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, directory / name)

    def fate(self, mutation: Mutation, files: Sequence[Sequence[str]]) -> tuple[Fate, str]:
        """With the file that decides it, of those whose tests are listed."""
        file = self._copy / mutation.path
        source = file.read_text()
        for tests in files:
            file.write_text(mutation.applied(source))
            try:
                code = self._code(tests)
            finally:
                file.write_text(source)
            if code in (_FAILED, _ERROR) and self._code(tests) == 0:
                return Fate.KILLED, tests[0].partition("::")[0]
            if code not in (0, _FAILED, _ERROR, _NO_TESTS):
                return Fate.TIMED_OUT, tests[0].partition("::")[0]
        return Fate.SURVIVED, ""

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

    def _code(self, tests: Sequence[str]) -> int | None:
        """pytest's exit code."""
        environment = {**os.environ, "PYTHONPATH": str(self._copy), "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *_PYTEST, *tests], cwd=self._copy, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started in its session."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()
