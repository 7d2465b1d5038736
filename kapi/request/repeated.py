"""Something that is done every few seconds as long as the process lives, whatever comes of it once.

Twisted's LoopingCall ends with the first error: one second without a descriptor or without memory would end for good what
watches the store, what ends slow connections, or what gives memory back.
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
    """``function`` again and again; a Deferred that it returns is waited for.  ``what`` is the subject of a line in the log."""

    def __init__(self, function: Callable[[], Deferred[None] | None], reactor: IReactorTime, what: str) -> None:
        self._function = function
        self._what = what
        self._logged = ""  # the error that the latest calls had
        self._loop = LoopingCall(self._call)
        self._loop.clock = reactor

    def start(self, every: float, *, now: bool = False) -> None:
        """``every`` in seconds; ``now`` begins with a call."""
        self._loop.start(every, now=now)

    def stop(self) -> None:
        """A call that is under way goes on."""
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
