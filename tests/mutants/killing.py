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

_PATIENCE = 5.0  # times as long as without a mutation may the tests take, and so many seconds more
_MIN_SECONDS = 90.0  # also of a machine that has other work, and until pytest runs
_PYTEST = ("-x", "-q", "-rf", "--tb=no", "-n", "0", "-p", "no:cacheprovider")
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

    def fate(self, mutation: Mutation, tests: Sequence[str], wall: float) -> tuple[Fate, str]:
        """With the test that decides it, of those that are listed.  One that is named after a path has another name here.

        ``wall`` is how many seconds all of them take without a mutation.
        """
        tests = [test for test in tests if str(self.root) not in test]
        if not tests:
            return Fate.SURVIVED, "(no test calls it)"
        file = self._copy / mutation.path
        source = file.read_text()
        file.write_text(mutation.applied(source))
        try:
            code, failed = self._run(tests, wall)
        finally:
            file.write_text(source)
        if code in (_FAILED, _ERROR):
            alone = [failed] if failed else tests
            if self._run(alone, wall)[0] == 0:
                return Fate.KILLED, alone[0]
            return self.fate(mutation, [test for test in tests if test not in alone], wall)
        # what hangs or crashes without it tells nothing of it
        if code in (0, _NO_TESTS) or self._run(tests, wall)[0] != 0:
            return Fate.SURVIVED, ""
        return Fate.TIMED_OUT, ""

    def near(self, path: Path, *, beside: bool = True) -> list[str]:
        """The files of tests that name the module, are called as it is, or lie ``beside`` these in its directory."""
        module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        package, _, name = module.rpartition(".")
        named = re.compile(rf"{re.escape(module)}\b|from {re.escape(package)} import [^\n]*\b{re.escape(name)}\b")
        found = []
        directory = self._copy / "tests" / path.parent.relative_to("kapi")
        for test in sorted((self._copy / "tests").rglob("test_*.py")):
            if (
                (beside and test.parent == directory)
                or test.name == f"test_{path.stem}.py"
                or named.search(test.read_text())
            ):
                found.append(test.relative_to(self._copy).as_posix())
        return found

    def around(self, path: Path) -> list[str]:
        """The files of tests of its package of ``kapi``, and those that name its own package."""
        _, package, *_ = path.parts
        named = re.compile(rf"\b{re.escape('.'.join(path.parent.parts))}\b")
        return [
            test.relative_to(self._copy).as_posix()
            for test in sorted((self._copy / "tests").rglob("test_*.py"))
            if test.is_relative_to(self._copy / "tests" / package) or named.search(test.read_text())
        ]

    def _run(self, tests: Sequence[str], wall: float) -> tuple[int | None, str]:
        """pytest's exit code, None if it was too slow, and the test that failed."""
        environment = {**os.environ, "PYTHONPATH": str(self._copy), "PYTHONDONTWRITEBYTECODE": "1"}
        listed = self._copy.with_name("tests.txt")
        listed.write_text("\n".join(tests))
        with self._copy.with_name("output.txt").open("w+") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *_PYTEST, f"@{listed}"], cwd=self._copy, env=environment,
                stdout=output, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait(_MIN_SECONDS + _PATIENCE * wall)
            except subprocess.TimeoutExpired:
                return None, ""
            finally:
                _end(process)
            output.seek(0)
            told = re.findall(r"^FAILED (.*?)(?: - .*)?$", output.read(), re.MULTILINE)
        return code, next((test for test in tests if told and test == told[0]), "")


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started in its session."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()
