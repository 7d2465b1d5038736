"""A periodic call that survives errors.

Twisted's LoopingCall ends with the first error.  A moment without file descriptors or memory would then end for good the watch
over the store, or the check of slow connections.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

log = Logger()


class Repeated:
    """Calls ``function`` periodically; waits for a Deferred that it returns.  ``what`` is the subject of the error's log line."""

    def __init__(self, function: Callable[[], Deferred[None] | None], reactor: IReactorTime, what: str) -> None:
        self._function = function
        self._what = what
        self._logged = ""  # the error that the latest calls had
        self._loop = LoopingCall(self._call)
        self._loop.clock = reactor

    def start(self, every: float, *, now: bool = False) -> None:
        """Calls it every ``every`` seconds; with ``now`` also at once."""
        self._loop.start(every, now=now)

    def stop(self) -> None:
        """Ends the calls; one that is under way completes."""
        if self._loop.running:
            self._loop.stop()

    def _call(self) -> Deferred[None] | None:
        try:
            result = self._function()
        except Exception:
            self._failed(Failure())
            return None
        if isinstance(result, Deferred):
            return result.addCallbacks(self._succeeded, self._failed)
        self._logged = ""
        return None

    def _succeeded(self, _: object) -> None:
        self._logged = ""

    def _failed(self, failure: Failure) -> None:
        if failure.check(CancelledError):
            return
        error = f"{failure.type}: {failure.getErrorMessage()}"
        if error != self._logged:  # else it was logged
            self._logged = error
            log.failure("{what} failed; it is tried again", failure, what=self._what)
