"""Writes of a server's start, which are tried until they succeed and never end it, and of its end, which are tried once.

Stored objects may cause refusals: webhooks, policies, quotas, namespaces in deletion.  If the server then did not start, these
objects could not be corrected.  Upstream: the loops of the post-start hooks, of which some end the process after 30 seconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from types import TracebackType

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from kapi.machinery.status import AlreadyExists, Conflict, NotFound, StatusError
from kapi.process.driver import trap_cancelled
from kapi.runtime.sliced import begin
from kapi.store.errors import StoreError

#: the most time that the start waits for an attempt that makes no progress: an admission webhook may take longer for each write
PATIENCE_SECONDS = 5.0
MAX_PATIENCE_SECONDS = 30.0  # for an attempt that makes progress, as upstream
_RELEASE_SECONDS = 2.0  # for which a server that stops waits for a write
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 30.0  # between two attempts; it doubles
#: passing errors: other servers start at the same time, or create missing objects
_PASSING = (AlreadyExists, Conflict, NotFound)


class Refusals:
    """``with refusals: ...`` around each of several writes, so that a failed write does not prevent the others."""

    def __init__(self) -> None:
        self._first: Exception | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> bool:
        if not isinstance(error, Exception) or isinstance(error, CancelledError):
            return False
        self._first = self._first or error
        return True

    def check(self) -> None:
        """Raises the first error, if there was one."""
        if self._first is not None:
            raise self._first


async def all_of(writes: Iterable[Coroutine[Deferred[object], object, None]]) -> None:
    """Runs coroutines concurrently, so that the store commits them together; raises the first error when all have ended."""
    refusals = Refusals()
    for running in [Deferred.fromCoroutine(write) for write in writes]:
        with refusals:
            await running
    refusals.check()


async def release(what: str, writing: Coroutine[Deferred[object], object, None], reactor: IReactorTime) -> None:
    """Ends a claim of a server that stops, if that can be done at once: the store may not answer, and a claim expires."""
    try:
        await begin(reactor, writing).addTimeout(_RELEASE_SECONDS, reactor)
    except (StatusError, StoreError, TimeoutError) as error:
        why = f"no answer in {_RELEASE_SECONDS:g} s" if isinstance(error, TimeoutError) else error
        Persistent.log.warn("{what}: the lease stays until it expires: {error}", what=what, error=why)


class Persistent:
    """``attempt`` is repeated until it succeeds; then, if ``every`` is given, again after this number of seconds.

    ``what`` is its name in the log.
    """

    log = Logger()

    def __init__(
        self, what: str, attempt: Callable[[], Awaitable[None]], reactor: IReactorTime, every: float | None = None
    ) -> None:
        self._what = what
        self._attempt = attempt
        self._reactor = reactor
        self._every = every
        self._started: Deferred[None] = Deferred()
        self._running: Deferred[None] | None = None
        self._patience: IDelayedCall | None = None  # ends the waiting
        self._patient_until = 0.0  # with progress; seconds of the reactor
        self._stopped = False
        self._known = ""  # the reason that was logged last

    async def start(self) -> None:
        """Returns when an attempt has succeeded, was refused, or takes long; further attempts are made in the background.

        While the store is not available it waits, since the server is not ready then anyway.
        """
        self.begin()
        await self._started

    def begin(self) -> None:
        """``start`` without a Deferred to wait for."""
        self._running = begin(self._reactor, self._run())
        self._running.addErrback(trap_cancelled)

    def stop(self) -> None:
        self._stopped = True
        self._be_patient(False)
        if self._running is not None:
            self._running.cancel()

    def progress(self) -> None:
        """The attempt has written something: a start on a slow machine is no reason to be ready without the rest."""
        if self._patience is not None and self._patience.active():
            left = self._patient_until - self._reactor.seconds()
            self._patience.reset(min(PATIENCE_SECONDS, max(left, 0.0)))

    def _go_on(self) -> None:
        """Ends the waiting of ``start``."""
        self._be_patient(False)
        if not self._started.called:
            self._started.callback(None)

    def _be_patient(self, patient: bool) -> None:
        """Limits the time that ``start`` still waits, or removes the limit."""
        if patient and self._patience is None and not self._started.called:
            self._patience = self._reactor.callLater(PATIENCE_SECONDS, self._go_on)
            self._patient_until = self._reactor.seconds() + MAX_PATIENCE_SECONDS
        elif not patient and self._patience is not None:
            if self._patience.active():
                self._patience.cancel()
            self._patience = None

    async def _run(self) -> None:
        pause, longest = _FIRST_PAUSE_SECONDS, self._every or _MAX_PAUSE_SECONDS
        while True:
            self._be_patient(True)
            try:
                await self._attempt()
            except Exception as error:  # even a bug must not end the server
                if self._stopped:
                    return
                if _store_is_away(error):
                    self._be_patient(False)
                    pause = _FIRST_PAUSE_SECONDS
                elif not isinstance(error, _PASSING):
                    self._go_on()
                if self._started.called or not isinstance(error, _PASSING):
                    self._report(error)
                wait, pause = pause, min(2 * pause, longest)
            else:
                self._go_on()
                if self._known:
                    self.log.info("{what}: done", what=self._what)
                self._known = ""
                if self._every is None:
                    return
                wait, pause = self._every, _FIRST_PAUSE_SECONDS
            try:
                await deferLater(self._reactor, wait)
            except CancelledError:
                return

    def _report(self, error: Exception) -> None:
        """Logs each reason once."""
        text = str(error) or type(error).__name__
        if text == self._known:
            return
        self._known = text
        if isinstance(error, (StatusError, StoreError, CancelledError)):
            self.log.warn("{what} is tried again: {why}", what=self._what, why=text)
        else:
            self.log.failure("{what} failed, and is tried again", what=self._what)


def _store_is_away(error: Exception) -> bool:
    return isinstance(error, StoreError) or isinstance(error.__cause__, StoreError)
