"""What happens at the ``maxmemory`` of the store's server: history gives way, and what makes nothing larger is still written.

Watches and continue tokens use the history in this process's memory.  The store's own, the stream, is for servers that start or
were away for a moment.  So when a write is refused for want of memory, all changes are dropped from it except those of the last
seconds, and the write is sent again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping

from twisted.logger import Logger

from kapi.store.connection import Connection
from kapi.store.script import Keys

log = Logger()

#: how long every change stays in the stream at least: for the other servers, which read it within milliseconds
KEPT_SECONDS = 2
#: objects up to this size may grow at the limit, so that Leases can still change their holders; all others may not
SMALL_OBJECT_BYTES = 2048
#: the part of ``maxmemory`` that must be free before the store counts as writable again.  Otherwise the answer would change with
#: every small allocation of the server
_FREE_PART = 0.01
_LOG_SECONDS = 60.0  # between log lines about dropped history
FULL = "the store is full, its server has reached maxmemory (OOM): delete objects, or raise maxmemory"


def makes_larger(size: int, expected: int, replaced: int) -> bool:
    """Whether an update to ``size`` bytes, without its revision, takes memory.  ``replaced`` is the present size; 0: unknown."""
    return not replaced or size + len(str(expected)) > max(replaced, SMALL_OBJECT_BYTES)


def is_full(info: Mapping[str, str], free_part: float = 0.0) -> bool:
    """Whether less than this part of ``maxmemory`` is free, by the section memory of INFO."""
    limit = _number(info, "maxmemory")
    used = _number(info, "used_memory") - _number(info, "mem_not_counted_for_evict")
    return bool(limit) and used > limit * (1 - free_part)


def has_space(info: Mapping[str, str]) -> bool:
    """Whether a store that was full counts as writable again."""
    return not is_full(info, _FREE_PART)


def _number(info: Mapping[str, str], name: str) -> int:
    text = info.get(name, "")
    return int(text) if text.isdigit() else 0


class History:
    """The stream's history, as far as it can be dropped.  ``passed`` must be called once a second."""

    def __init__(self, keys: Keys) -> None:
        self._stream = keys.stream
        self._passed: deque[int] = deque(maxlen=KEPT_SECONDS)  # the revisions of the last seconds
        self._dropped = 0  # up to which revision it was dropped
        self._dropped_at = 0.0  # seconds of perf_counter
        self._logged_at = -_LOG_SECONDS

    def passed(self, revision: int) -> None:
        """Notes the revision up to which the follower has the changes now."""
        self._passed.append(revision)

    def forget(self) -> None:
        """Called when the connection is lost: the store may go on with other revisions."""
        self._passed.clear()
        self._dropped = 0

    def drop(self, connection: Connection, sent: float) -> bool:
        """Drops what is older than the last seconds.

        Returns whether a write that was ``sent`` then (seconds of perf_counter), and was refused, may succeed now.
        """
        if sent < self._dropped_at:  # it was refused before that
            return True
        until = self._passed[0] if len(self._passed) == KEPT_SECONDS else 0
        if until <= self._dropped:
            return False
        self._dropped, self._dropped_at = until, time.perf_counter()
        if self._dropped_at >= self._logged_at + _LOG_SECONDS:
            self._logged_at = self._dropped_at
            log.warn("the store is full: its history is dropped, and watches that resume after a restart begin anew")
        # the entry itself stays: the newest one must, by which the history is recognised
        trimmed = connection.execute_command("XTRIM", self._stream, "MINID", "=", f"{until}-0")
        trimmed.addErrback(lambda failure: log.error("history cannot be dropped: {why}", why=failure.getErrorMessage()))
        return True
