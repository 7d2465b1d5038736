"""Start and stop of a server, step by step (upstream: apiserver ``server/genericapiserver.go`` RunWithContext).

Start: storage, listening port, post-start hooks.  Stop: not ready any more and pre-shutdown hooks, a delay in which all is
served, no new connections, what runs is finished, watches are ended, storage.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable
from typing import TypeVar

from twisted.internet.defer import CancelledError, Deferred, gatherResults, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.machinery.status import StatusError
from kapi.request.context import Stream
from kapi.server.delegation import PostStartHook, PreShutdownHook
from kapi.store.errors import StoreError

log = Logger()
Result = TypeVar("Result")
_STEP_SECONDS = 0.05  # seconds between the watches that are ended one after the other
_MIN_WATCHES_PER_SECOND = 200.0  # watches a second: as upstream, a long grace period does not hold up a few watches


class HookError(Exception):
    """A server whose hooks fail must not go on."""


class Hooks:
    """Post-start hooks, all at once; each is a health check until it has run."""

    def __init__(self, hooks: dict[str, PostStartHook], steps: dict[str, str] | None = None) -> None:
        """``steps``: further names, each of something that a hook does."""
        self._steps = {**{name: name for name in hooks}, **(steps or {})}
        self.pending: dict[str, str] = {name: "not finished" for name in hooks}
        self._hooks = hooks
        self._running: list[Deferred[None]] = []

    def check(self, name: str) -> str:
        return self.pending.get(self._steps[name], "")

    @property
    def names(self) -> list[str]:
        """Of health checks."""
        return sorted(self._steps)

    def run(self) -> Deferred[list[None]]:
        """Fires when every hook has ended; fails with HookError as soon as one does, as upstream gives up then."""
        self._running = [Deferred.fromCoroutine(self._one(name, hook)) for name, hook in self._hooks.items()]
        return gatherResults(self._running, consumeErrors=True)

    async def _one(self, name: str, hook: PostStartHook) -> None:
        try:
            await hook()
        except CancelledError:
            raise
        except Exception as error:
            self.pending[name] = str(error) or type(error).__name__
            if isinstance(error, (StatusError, StoreError)):  # it says itself what is wrong, and where that is not here
                log.error("The post-start hook {name} failed: {why}", name=name, why=self.pending[name])
            else:
                log.failure("The post-start hook {name} failed", name=name)
            raise HookError(f"post-start hook {name}: {self.pending[name]}") from error
        del self.pending[name]

    def stop(self) -> None:
        for running in self._running:
            if not running.called:
                running.addErrback(lambda _: None)
                running.cancel()


async def run_hooks(hooks: dict[str, PreShutdownHook]) -> None:
    for name, hook in hooks.items():
        try:
            waiting = hook()
            if waiting is not None:
                await waiting
        except Exception:
            log.failure("The shutdown hook {name} failed", name=name)


def end_watches(watches: Iterable[Stream]) -> None:
    """Ends streams properly, so that clients see an end and not a broken connection."""
    for watch in list(watches):
        watch.end()


def end_watches_spread(watches: Collection[Stream], seconds: float, clock: IReactorTime) -> LoopingCall:
    """Begins to end them one after the other within some seconds, so that their clients do not all come back at once."""
    rate = max(len(watches) / seconds, _MIN_WATCHES_PER_SECOND)
    begun, ended = clock.seconds(), 0

    def some() -> None:
        nonlocal ended
        due = math.ceil((clock.seconds() - begun + _STEP_SECONDS) * rate) - ended
        end_watches(itertools.islice(watches, due))
        ended += due

    loop = LoopingCall(some)
    loop.clock = clock
    loop.start(_STEP_SECONDS)
    return loop


def bounded(waiting: Deferred[Result], seconds: float, clock: IReactorTime) -> Deferred[bool]:
    """Fires with True at the end of ``waiting`` or with False after ``seconds``; cancels nothing."""
    if waiting.called and not waiting.paused:
        return succeed(True)
    done: Deferred[bool] = Deferred()

    def late() -> None:
        if not done.called:
            done.callback(False)

    call = clock.callLater(seconds, late)

    def finish(result: Result | Failure) -> Result | Failure:
        if call.active():
            call.cancel()
        if not done.called:
            done.callback(True)
        return result

    waiting.addBoth(finish)
    return done
