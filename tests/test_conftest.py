"""The tests' own surroundings."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import signal
import subprocess
import sys
import unittest
import urllib.request
import warnings
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from unittest.mock import patch

import pytest
from twisted.trial.unittest import SynchronousTestCase, TestCase

from tests.garbage import SetAside
from tests.waiting import MAX_WAIT

_CHECKOUT = Path(__file__).parents[1]
_ASK = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
_INNER = f"""
import subprocess, sys

def test_inner():
    assert subprocess.check_output([sys.executable, "-c", {_ASK!r}]) == b"False\\n"
"""


def test_children_can_be_interrupted_when_pytest_cannot(tmp_path: Path) -> None:
    """Shells start what runs in the background with SIGINT ignored."""
    inner = tmp_path / "test_inner.py"
    inner.write_text(_INNER)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", "-p", "tests.conftest", str(inner)],
        cwd=_CHECKOUT, capture_output=True, text=True, timeout=240,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_bytecode_is_kept_as_long_as_the_tests_run(tmp_path: Path) -> None:
    """Where the environment wants none; what was there before stays."""
    package = tmp_path / "kapi" / "two"
    old = tmp_path / "tests" / "__pycache__"
    for directory in (package, old):
        directory.mkdir(parents=True)
    program = """
import subprocess, sys
from pathlib import Path
from tests.bytecode import Bytecode

bytecode = Bytecode(Path(sys.argv[1]))
bytecode.keep()
(Path(sys.argv[1]) / "kapi" / "two" / "module.py").write_text("")
sys.path.insert(0, sys.argv[1] + "/kapi")
import two.module
assert Path(two.module.__cached__).exists(), "not kept"
child = [sys.executable, "-c", "import sys; sys.exit(sys.dont_write_bytecode)"]
assert subprocess.run(child).returncode == 0, "not kept by children"
bytecode.clear()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=_CHECKOUT, capture_output=True, text=True, timeout=240, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.rglob("__pycache__")) == [old]


class Waiting(TestCase):
    def test_a_test_of_trial_ends_later_than_what_it_waits_for(self) -> None:
        """So that it says what did not happen."""
        self.assertGreater(self.getTimeout(), 2 * MAX_WAIT)


def test_kapi_is_tested_as_it_is() -> None:
    """Its asserts are not rewritten, in no worker."""
    from kapi.store import confirmation

    assert type(confirmation.__loader__) is SourceFileLoader


def test_what_has_come_to_stay_is_set_aside_between_files_once_it_is_worth_it() -> None:
    set_aside = SetAside()
    set_aside.begin()
    before = gc.get_freeze_count()
    tables = [[number] for number in range(10_000)]
    set_aside.if_worth_it()
    assert gc.get_freeze_count() <= before
    for _ in range(SetAside.MIN_COLLECTIONS):
        gc.collect(1)
    set_aside.if_worth_it()
    assert gc.get_freeze_count() > before + len(tables) // 2


@pytest.fixture(scope="module")
def asked() -> Iterator[list[str]]:
    """Distributions whose version was asked for since the first test with this fixture."""
    names: list[str] = []

    def version(name: str) -> str:
        names.append(name)
        return _version(name)

    _version = importlib.metadata.version
    with patch.object(importlib.metadata, "version", version):
        yield names


@pytest.mark.parametrize("time", ["first", "second"])
def test_no_version_is_read_before_each_test(asked: list[str], time: str) -> None:
    if time == "second":
        assert asked == []


def test_a_proxy_is_not_asked_for_this_machine() -> None:
    assert all(urllib.request.proxy_bypass_environment(host) for host in ("localhost:1", "127.0.0.1:1", "127.0.0.1"))


class _Warning(SynchronousTestCase):
    def test(self) -> None:
        warnings.warn("here", UserWarning, stacklevel=1)
        self.found = self.flushWarnings()


def test_each_test_is_told_of_a_warning_that_others_have_given() -> None:
    for _ in range(2):
        case = _Warning("test")
        case.run(unittest.TestResult())
        assert [each["message"] for each in case.found] == ["here"]
