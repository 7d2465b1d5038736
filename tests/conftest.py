"""What holds for all tests: how examples are drawn, signals of their child processes, and that none of these stays behind."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import signal
import sys
from collections.abc import Generator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

import _pytest.unittest
import pytest
from hypothesis import HealthCheck, settings

from kapi.schema import derive
from tests import fork_server
from tests.bytecode import Bytecode
from tests.distribution import DURATIONS, Durations, Recorder, pieces, shares_fixtures
from tests.garbage import SetAside
from tests.integration.server_process import ServerProcess
from tests.quick import leaves_out
from tests.workers import Workers

_TESTS = Path(__file__).parent
#: of one test, and of one of trial's: above what it waits for (tests/waiting.py), so that it can say what did not happen.
#: What takes 20 seconds took over 300 beside 25 busy processes
_MAX_SECONDS, _MAX_TRIAL_SECONDS = 900, 600.0
#: the same examples each time, and none is at fault when a machine has other work; --hypothesis-profile=search draws others,
#: and more: the same again find nothing new; --hypothesis-profile=few draws the first of them, for a further Python
settings.register_profile("kapi", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("search", settings.get_profile("kapi"), derandomize=False, max_examples=500)
settings.register_profile("few", settings.get_profile("kapi"), max_examples=20)
settings.load_profile("kapi")

_WORKERS = 3  # for each core: half of its time a test waits for a server, a timer or a disk


class _AsItIs:
    """Finds kapi's modules as everybody does.

    The checkout's own metadata name a plugin of pytest, so workers would rewrite the asserts of all thousand modules of
    the package: three seconds, for another program than the one that is shipped.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.partition(".")[0] == "kapi" else None


sys.meta_path.insert(0, _AsItIs)  # type: ignore[arg-type]


def _remember_version_of_twisted() -> None:
    """pytest reads it from the metadata of Twisted before each test, for a millisecond: a fifth of the time of small ones."""
    asked = getattr(_pytest.unittest, "_get_twisted_version", None)
    if asked is not None:
        answer = functools.cache(lambda _: asked())
        _pytest.unittest._get_twisted_version = lambda: answer("twisted.trial.unittest" in sys.modules)


def _draw_no_constants_of_modules() -> None:
    """Hypothesis draws, among others, constants that it finds in those modules of this checkout that are imported.

    Examples would differ with the tests that run, and nearly two thousand modules would be parsed: four seconds.
    """
    with contextlib.suppress(ImportError):  # earlier versions do not do this
        providers = importlib.import_module("hypothesis.internal.conjecture.providers")
        none = getattr(providers, "_local_constants", None)
        if hasattr(providers, "_get_local_constants"):
            providers._get_local_constants = lambda: none


def _leave_registries_of_warnings() -> None:
    """trial empties those of all modules, a few thousand, before each of its tests: a millisecond.

    It changes the filters of warnings as well, after which Python believes no registry that was written before.
    """
    trial = sys.modules.get("twisted.trial._synctest")
    if hasattr(trial, "_setWarningRegistryToNone"):
        trial._setWarningRegistryToNone = lambda modules: None


def _ask_this_machine_directly() -> None:
    """Where the environment names a proxy: the servers of the tests, and of their child processes, are here."""
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, (os.environ.get(name), "localhost,127.0.0.1,::1")))


def _derive_the_types_again() -> None:
    """After a change of what they are made of, such as a pull: a checkout's derived files are made when it is installed."""
    made = [derive.HERE / "data" / name for name in (derive.TYPES, derive.TEXTS)]
    of = (Path(derive.__file__), derive.FACTS, derive.OPENAPI_FACTS, derive.MISSING_TEXTS, derive.ADDED)
    if all(path.exists() for path in made):
        if min(path.stat().st_mtime for path in made) < max(path.stat().st_mtime for path in of):
            derive.write(derive.HERE / "data")


_derive_the_types_again()
_remember_version_of_twisted()
_ask_this_machine_directly()
_set_aside = SetAside()
_bytecode = Bytecode(_TESTS.parent)
_bytecode.keep()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """The workers of ``-n`` are forks, in place of xdist's."""
    count, options = getattr(config.option, "numprocesses", None), config.option
    if count and options.dist in ("no", "load") and not options.usepdb:
        if isinstance(count, str):  # auto, logical
            count = _WORKERS * (os.cpu_count() or 1)
        if options.maxprocesses:
            count = min(count, options.maxprocesses)
        config.pluginmanager.register(Workers(count, functools.partial(_pieces, config.rootpath)))
        options.numprocesses, options.dist, options.tx = 0, "no", []


def _pieces(root: Path, nodeids: Sequence[str], workers: int) -> list[list[int]]:
    return pieces(nodeids, workers, Durations.recorded(), lambda file: shares_fixtures(root / file))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="under a minute: without servers, and what else takes long")
    parser.addoption("--record-durations", action="store_true", help=f"write {DURATIONS.name} anew; of a whole run")
    parser.addoption("--no-short-cut", action="store_true", help="all requests go through the tree of Klein apps")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return config.getoption("quick") and leaves_out(collection_path, Durations.recorded()) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Without collections of garbage, which find none in modules and tests: a sixth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What the tests are made of stays: a full collection of garbage need not look at it."""
    trial = sys.modules.get("twisted.trial.util")
    if trial is not None:  # of those that have none of their own
        trial.DEFAULT_TIMEOUT_DURATION = _MAX_TRIAL_SECONDS  # type: ignore[attr-defined]
    _leave_registries_of_warnings()
    _set_aside.begin()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    result = yield
    if nextitem is None or nextitem.path != item.path:
        _set_aside.if_worth_it()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """A bound for each test without one of its own (pytest-timeout reads it next; where it is not installed, none has).

    Children get the default action of an interrupt, also where a shell started pytest with it ignored (``nohup pytest &``).
    An ignored signal is inherited by a new program, a handled one is not; pytest itself goes on ignoring it.
    """
    if config.getoption("timeout", 0) is None:
        config.option.timeout = _MAX_SECONDS
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)
    if config.getoption("--hypothesis-profile", None) != "search":
        _draw_no_constants_of_modules()
    if config.getoption("no_short_cut"):
        from kapi.serving.site import Site

        Site.short_cut = False
        os.environ[fork_server.NO_SHORT_CUT] = "1"
    if config.getoption("record_durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Servers of tests that failed before they ended them, and what they were forked by."""
    for process in list(ServerProcess.started):
        process.end(signal.SIGKILL)
    fork_server.stop()


def pytest_unconfigure() -> None:
    _bytecode.clear()
