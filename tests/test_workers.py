"""The workers of ``-n``: what becomes of tests, of their output and files, and of workers that end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until

_CHECKOUT = Path(__file__).parents[1]
_SEVERAL = """
import os, random, sys, warnings
import pytest
from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

def tell(line):
    with open(os.environ["TOLD"], "a") as file:
        file.write(line + "\\n")

@pytest.fixture(scope="session", autouse=True)
def session(tmp_path_factory):
    tell(f"begin {os.getpid()} {tmp_path_factory.getbasetemp()} {random.random()}")
    yield
    tell(f"end {os.getpid()}")
"""


def several(number: int) -> str:
    return f"""{_SEVERAL}
@pytest.mark.parametrize("number", range(6))
def test_passes(number, tmp_path):
    tell(f"test {number} {{number}} {{os.getpid()}} {{tmp_path}}")

def test_fails(tmp_path):
    print("said by {number}")
    os.write(2, b"written by {number}\\n")
    numbers = [{number}, 2]
    assert numbers == [1, {number}]

@pytest.mark.skip(reason="not now")
def test_skipped(): ...

@pytest.mark.xfail(strict=True)
def test_expected():
    raise ValueError

class Waits(TestCase):
    async def test_waits(self):
        await deferLater(reactor, 0.01)

def test_warns():
    warnings.warn("of {number}", stacklevel=1)
"""


class Inner:
    """A run of pytest over test files of its own."""

    def __init__(self, directory: Path, **files: str) -> None:
        self.directory, self.log = directory, directory / "told"
        (directory / "pytest.ini").write_text("[pytest]\n")
        for name, text in files.items():
            (directory / f"test_{name}.py").write_text(text)

    def start(self, *options: str) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.conftest", *options, "."]
        environment = {**os.environ, "TOLD": str(self.log), "PYTHONPATH": str(_CHECKOUT)}
        return subprocess.Popen(
            arguments, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )

    def run(self, *options: str) -> tuple[int, str]:
        process = self.start(*options)
        output = process.communicate(timeout=240)[0]
        return process.returncode, output

    @property
    def told(self) -> list[list[str]]:
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Inner, str]]:
    inner = Inner(tmp_path_factory.mktemp("several"), **{f"n{number}": several(number) for number in range(4)})
    code, output = inner.run("-n3", "-q")
    assert code == 1, output
    yield inner, output


def test_each_test_runs_once_and_its_outcome_is_told(told: tuple[Inner, str]) -> None:
    inner, output = told
    ran = [(file, number) for kind, file, number, *_ in (line for line in inner.told if line[0] == "test")]
    assert sorted(ran) == [(str(file), str(number)) for file in range(4) for number in range(6)]
    assert re.search(r"4 failed, 32 passed, 4 skipped, 4 xfailed, 4 warnings in", output), output


def test_what_failed_is_told_with_its_output_and_its_values(told: tuple[Inner, str]) -> None:
    _, output = told
    for number in range(4):
        part = output.partition(f"test_n{number}.py:")[0].rpartition("test_fails")[2]
        assert f"assert [{number}, 2] == [1, {number}]" in part, output
        said = output.partition(f"said by {number}\n")[2]
        assert said.startswith("----") and said.partition("\n")[2].startswith(f"written by {number}\n"), said
        assert f"UserWarning: of {number}\n" in output


def test_workers_have_sessions_directories_and_chances_of_their_own(told: tuple[Inner, str]) -> None:
    inner, _ = told
    begun = {line[1]: line[2:] for line in reversed(inner.told) if line[0] == "begin"}
    assert len(begun) == 3
    assert all(len(set(column)) == 3 for column in zip(*begun.values(), strict=True))
    assert {line[1] for line in inner.told if line[0] == "end"} == set(begun)
    tests = [line for line in inner.told if line[0] == "test"]
    assert all(path.startswith(begun[process][0]) for *_, process, path in tests)


def test_a_worker_that_crashes_is_told_of_and_another_runs_the_rest(tmp_path: Path) -> None:
    text = f"""{_SEVERAL}
@pytest.mark.parametrize("number", range(5))
def test_it(number):
    if number == 2:
        os.kill(os.getpid(), 9)
    tell(f"test {{number}}")
"""
    code, output = (inner := Inner(tmp_path, crash=text)).run("-n1", "-q")
    assert code == 1 and "4 passed" in output and "1 failed" in output, output
    assert "the worker ended with -9 while it ran test_crash.py::test_it[2]" in output
    assert [line[1] for line in inner.told if line[0] == "test"] == ["0", "1", "3", "4"]


def test_the_first_failure_ends_all_workers_if_asked_for(tmp_path: Path) -> None:
    waits = f"""{_SEVERAL}
import time
def test_waits():
    tell("waits")
    time.sleep(200)
"""
    fails = f"""{_SEVERAL}
import time
def test_fails():
    while "waits" not in open(os.environ["TOLD"]).read():
        time.sleep(0.01)
    assert False
def test_after():
    tell("after")
"""
    inner = Inner(tmp_path, a=waits, b=fails)  # each worker knows its next test as well
    began = time.monotonic()
    code, output = inner.run("-n2", "-q", "-x")
    assert code == 1 and "stopping after 1 failures" in output, output
    assert time.monotonic() - began < 150
    kinds = [line[0] for line in inner.told]
    assert "after" not in kinds and kinds.count("end") == kinds.count("begin") == 2


def test_an_interrupt_ends_all_workers_and_what_their_fixtures_have_begun(tmp_path: Path) -> None:
    text = f"""{_SEVERAL}
import time
@pytest.mark.parametrize("number", range(2))
def test_waits(number):
    tell("waits")
    time.sleep(200)
"""
    inner = Inner(tmp_path, one=text, two=text)
    process = inner.start("-n2", "-q")
    until(lambda: sum(line == ["waits"] for line in inner.told) == 2)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=240)[0]
    assert process.returncode == 2 and "KeyboardInterrupt" in output, output
    processes = {line[1] for line in inner.told if line[0] == "begin"}
    assert {line[1] for line in inner.told if line[0] == "end"} == processes
    assert not any(Path("/proc", each).exists() for each in processes)


def test_without_workers_all_run_in_this_process(tmp_path: Path) -> None:
    inner = Inner(tmp_path, one=several(1))
    code, output = inner.run("-n0", "-q")
    assert code == 1 and "1 failed, 8 passed, 1 skipped, 1 xfailed, 1 warning in" in output, output
    assert len({line[1] for line in inner.told if line[0] == "begin"}) == 1
