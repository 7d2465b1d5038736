"""Start and stop of a server, step by step (upstream: apiserver ``server/genericapiserver.go`` RunWithContext).

Start: storage, listening port, post-start hooks.  Stop: unready, pre-shutdown hooks, a delay in which requests are served, no new
connections, end of running requests, end of watches, storage.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable
from typing import TypeVar

from twisted.internet.defer import CancelledError, Deferred, gatherResults, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.machinery.status import StatusError
from kapi.process.timers import Repeated
from kapi.request.context import Stream
from kapi.serving.generic import PostStartHook, PreShutdownHook
from kapi.store.errors import StoreError

log = Logger()
Result = TypeVar("Result")
_STEP_SECONDS = 0.05  # between two groups of watches that are ended
_MIN_WATCHES_PER_SECOND = 200.0  # as upstream: a few watches end soon even in a long grace period


class HookError(Exception):
    """A post-start hook failed: the server must stop."""


class Hooks:
    """Post-start hooks, which run concurrently; the health check of each fails until it has run."""

    def __init__(self, hooks: dict[str, PostStartHook], steps: dict[str, str] | None = None) -> None:
        """``steps`` maps further names of health checks to hooks."""
        self._steps = {**{name: name for name in hooks}, **(steps or {})}
        self.pending: dict[str, str] = {name: "not finished" for name in hooks}
        self._hooks = hooks
        self._running: list[Deferred[None]] = []

    def check(self, name: str) -> str:
        return self.pending.get(self._steps[name], "")

    @property
    def names(self) -> list[str]:
        """The names of the health checks."""
        return sorted(self._steps)

    def run(self) -> Deferred[list[None]]:
        """Fires when every hook has ended.  Fails with HookError as soon as one fails, as upstream exits then."""
        self._running = [Deferred.fromCoroutine(self._one(name, hook)) for name, hook in self._hooks.items()]
        return gatherResults(self._running, consumeErrors=True)

    async def _one(self, name: str, hook: PostStartHook) -> None:
        try:
            await hook()
        except CancelledError:
            raise
        except Exception as error:
            self.pending[name] = str(error) or type(error).__name__
            if isinstance(error, (StatusError, StoreError)):  # the text is enough: the error is not in this code
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
    """Ends watches regularly, so that clients see no broken connection."""
    for watch in list(watches):
        watch.end()


def end_watches_spread(watches: Collection[Stream], seconds: float, clock: IReactorTime) -> Repeated:
    """Ends watches one after the other within ``seconds``, so that their clients do not all reconnect at once."""
    rate = max(len(watches) / seconds, _MIN_WATCHES_PER_SECOND)
    begun, ended = clock.seconds(), 0

    def some() -> None:
        nonlocal ended
        due = math.ceil((clock.seconds() - begun + _STEP_SECONDS) * rate) - ended
        end_watches(itertools.islice(watches, due))
        ended += due

    loop = Repeated(some, clock, "ending watches")
    loop.start(_STEP_SECONDS, now=True)
    return loop


def bounded(waiting: Deferred[Result], seconds: float, clock: IReactorTime) -> Deferred[bool]:
    """Fires with True when ``waiting`` fires, or with False after ``seconds``; cancels nothing."""
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
