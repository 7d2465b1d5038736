"""The quick part of the tests, ``pytest --quick``: under a minute on two cores, for a change in work and for each further Python.

It leaves out directories whose tests start servers and programs, count every line that runs, change lines, or look at documents,
and files that ``durations.json`` lists as long.  Of whole servers it has one start, with kubectl.
"""

from __future__ import annotations

from pathlib import Path

from tests.distribution import Durations

_TESTS = Path(__file__).parent
_LONG = frozenset({
    "bench", "consistency", "console", "docs", "dropin", "firsthour", "golden", "growth", "integration", "kubectl", "mutants",
    "platforms", "security", "test_packaging.py", "testkit",
})  # fmt: skip
_SHORT = ("tests/golden/test_in_memory.py", "tests/integration/test_first_start.py")


def leaves_out(path: Path, durations: Durations) -> bool:
    """Whether a file or directory of the tests is for the whole suite only."""
    if not path.is_relative_to(_TESTS):
        return False
    name = path.relative_to(_TESTS.parent).as_posix()
    if any(short == name or short.startswith(f"{name}/") for short in _SHORT):
        return False
    return path.relative_to(_TESTS).parts[:1] in {(each,) for each in _LONG} or name in durations.listed
