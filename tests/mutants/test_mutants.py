"""The program that mutates code: what a test notices is killed, what none notices is told; the checkout stays as it is."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="needs the extra 'mutants'")

from tests.mutants.__main__ import equivalent_places
from tests.mutants.killing import Checkout
from tests.mutants.mutations import Mutation, mutations_of, rules_of, sample

ROOT = Path(__file__).parents[2]
#: what else is installed would be imported and traced in each run of pytest, for seconds
PLAIN = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
SOURCE = '''
from typing import TYPE_CHECKING, Literal

if not TYPE_CHECKING:
    import os

LARGEST = 7
__all__ = ["larger", "untested"]


def larger(one, other):
    """Not 1."""
    return one > other


def untested(one):
    return one == 1


def last(many):
    while many:
        many = many[1:]
        if not many:
            break
    return many


def uncalled():
    return True


def later():
    from kapi.admission import late

    return late.answer()


def wake(event):
    if event is not None:
        event.set()


def told(one: Literal[5], log):
    assert one is not None
    log.info("more than %d", 5)


_MAX_CACHED_BYTES = 16 * 1024


def kept(data):
    return len(data) <= _MAX_CACHED_BYTES
'''
LATE = """
LIMIT = 3


def answer():
    return LIMIT + 1
"""
TESTS = """
import gc
import threading

from kapi.admission import rules

gc.freeze()  # as the real tests do


def test_larger():
    assert rules.larger(2, 1)
    assert not rules.larger(1, 1)


def test_that_fails_always():
    rules.untested(1)
    assert False


def test_constant():
    assert rules.LARGEST == 7


def test_last():
    assert rules.last([1, 2]) == []


def test_that_waits():
    event = threading.Event()
    rules.wake(event)
    event.wait()


def test_later():
    assert rules.later() == 4
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout of a small package, its tests and the program, as far as the program looks at one."""
    for name, text in (
        ("kapi/__init__.py", ""), ("kapi/admission/__init__.py", ""), ("kapi/admission/rules.py", SOURCE),
        ("kapi/admission/late.py", LATE),
        ("tests/__init__.py", ""), ("tests/admission/test_rules.py", TESTS),
        ("pytest.ini", "[pytest]\naddopts = -q --import-mode=importlib\n"),
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copytree(
        ROOT / "tests/mutants", tmp_path / "tests/mutants", ignore=shutil.ignore_patterns("test_*", "__pycache__")
    )
    for name in ("distribution.py", "workers.py", "quick.py"):
        shutil.copy2(ROOT / "tests" / name, tmp_path / "tests" / name)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    return tmp_path


def test_each_place_is_listed_once_and_changes_its_line() -> None:
    found = mutations_of(Path("rules.py"), SOURCE)
    assert {SOURCE.splitlines()[each.line - 1].strip(): each.function for each in found} == {
        "return one > other": "larger", "return one == 1": "untested", "while many:": "last", "if not many:": "last",
        "many = many[1:]": "last", "break": "last", "if event is not None:": "wake", "LARGEST = 7": None,
        "return True": "uncalled",
    }  # fmt: skip
    assert len({each.applied(SOURCE) for each in found}) == len(found)


RULES = """
LEVELS = ("low", "high")
BOTH: dict[str, int] = {"a": 1, **OTHERS}
SPEC = struct(at("name", check(is_name)), at("level", enum(*LEVELS), second))


def validate(obj, errors):
    if obj not in ("x", "y"):
        errors.append("bad")
    errors += more(obj)
    check_name(obj, errors)
    if not obj:
        raise ValueError
    raise NotImplementedError
"""


def test_each_rule_is_left_out_once() -> None:
    found = rules_of(Path("rules.py"), RULES)
    lines = [(each.operator, each.applied(RULES).splitlines()[each.line - 1].strip(), each.function) for each in found]
    assert lines == [
        ("DropEntry", 'LEVELS = ("high")', None),
        ("DropEntry", 'LEVELS = ("low",)', None),
        ("DropEntry", "BOTH: dict[str, int] = {**OTHERS}", None),
        ("DropEntry", 'BOTH: dict[str, int] = {"a": 1,}', None),
        ("DropRule", 'SPEC = struct((lambda *_: ()), at("level", enum(*LEVELS), second))', None),
        ("DropRule", 'SPEC = struct(at("name", check(is_name)), (lambda *_: ()))', None),
        ("DropRule", 'SPEC = struct(at("name", check(is_name)), at("level", (lambda *_: ()), second))', None),
        ("DropRule", 'SPEC = struct(at("name", check(is_name)), at("level", enum(*LEVELS), (lambda *_: ())))', None),
        ("DropReport", 'if not __name__: errors.append("bad")', "validate"),
        ("DropReport", "if not __name__: errors += more(obj)", "validate"),
        ("DropReport", "if not __name__: check_name(obj, errors)", "validate"),
        ("DropRaise", "if not __name__: raise ValueError", "validate"),
    ]


def test_what_becomes_of_each_mutation(project: Path) -> None:
    (project / "tests/mutants/equivalent.txt").write_text(
        "Why.\n\nkapi/admission/rules.py\n- break\n+ continue\nIt ends.\n"
    )
    sample_size = sum(len(mutations_of(Path("rules.py"), source)) for source in (SOURCE, LATE))
    found = subprocess.run(
        [sys.executable, "-m", "tests.mutants", f"--sample={sample_size}", "--only=admission", "--seed=1", "--patience=1"],
        cwd=project, env=PLAIN, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert found.returncode == 1, found.stderr
    *_, summary = found.stdout.splitlines()
    assert (
        summary
        == "seed 1: 18 drawn, 1 equivalent, 9 killed, 5 survived, 3 timed out; 71 % noticed of those that are not equivalent"
    )
    assert "kapi/admission/rules.py:17: NumberReplacer\n    - return one == 1\n    + return one == 2\n" in found.stdout
    assert "LARGEST" not in found.stdout  # what an import executes is changed as well
    assert "many[ 0:]" not in found.stdout
    assert (project / "kapi/admission/rules.py").read_text() == SOURCE


def test_a_later_run_reads_which_functions_the_tests_call(project: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.mutants",
        "--sample=2",
        "--only=admission",
        "--seed=2",  # neither of them makes a test hang
        "--calls=calls.json",
    ]
    first, second = (
        subprocess.run(command, cwd=project, env=PLAIN, capture_output=True, text=True, timeout=600).stdout
        for _ in range(2)
    )
    assert first == second
    assert "rules.py:larger" in (project / "calls.json").read_text()


def test_only_near_tests_are_those_of_the_package(project: Path) -> None:
    for directory, function in (("admission/deep", "larger"), ("far", "last")):
        test = project / f"tests/{directory}/test_{function}.py"
        test.parent.mkdir(parents=True)
        test.write_text(
            "import importlib\n\nrules = importlib.import_module('.'.join(['kapi', 'admission', 'rules']))\n"
            + TESTS[TESTS.index(f"def test_{function}") :].partition("\n\n\n")[0]
        )
    (project / "tests/admission/test_rules.py").unlink()
    subprocess.run(["git", "add", "-A"], cwd=project, check=True)
    command = [sys.executable, "-m", "tests.mutants", "--sample=2", "--only=admission/rules.py", "--seed=37"]
    near, all_of_them = (
        subprocess.run([*command, *more], cwd=project, env=PLAIN, capture_output=True, text=True, timeout=600).stderr
        for more in (["--near"], [])
    )
    assert "killed kapi/admission/rules.py:13 ReplaceComparisonOperator_Gt_GtE" in near
    assert "killed kapi/admission/rules.py:23" not in near
    assert "killed kapi/admission/rules.py:23" in all_of_them


def test_the_sample_is_that_of_its_seed_and_has_nothing_twice() -> None:
    first, again = (list(islice(sample(ROOT, random.Random(4), ["authorization"]), 20)) for _ in range(2))
    assert first == again
    assert len(set(first)) == 20


def test_an_unknown_package_is_refused() -> None:
    with pytest.raises(LookupError):
        next(sample(ROOT, random.Random(4), ["nothing"]))


def test_tests_that_name_a_module_are_near_it(tmp_path: Path) -> None:
    near = Checkout(ROOT, tmp_path).near(Path("kapi/wire/dial.py"))
    assert any(name.startswith("tests/wire/") for name in near), near
    assert any(not name.startswith("tests/wire/") for name in near), near
    assert not any(name.startswith("tests/kubectl/") for name in near), near


def test_tests_of_its_package_are_around_a_module(tmp_path: Path) -> None:
    around = Checkout(ROOT, tmp_path).around(Path("kapi/resources/apps/deployments.py"))
    assert {"tests/resources/core/test_pods.py", "tests/resources/apps/test_workloads.py"} <= set(around)
    assert not any(name.startswith("tests/wire/") for name in around), around


def test_a_mutation_names_where_it_is() -> None:
    path = Path("kapi/authorization/fixed.py")
    found = mutations_of(path, (ROOT / path).read_text())
    assert all(isinstance(each, Mutation) and each.path == path and each.line > 0 for each in found)


def test_lines_of_equivalent_mutations_are_in_their_files() -> None:
    places = equivalent_places()
    lines = {path: {line.strip() for line in (ROOT / path).read_text().splitlines()} for path, _, _ in places}
    assert [place for place in places if place[1].removeprefix("- ") not in lines[place[0]]] == []
    assert len(places) > 100
