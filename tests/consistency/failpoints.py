"""Failpoints inside kapi: this module replaces functions of the store and the watch cache by wrappers.

Only ``launch`` uses it, so kapi itself has no failpoints and pays nothing for them.

==========  ======================================================================
commit      between admission and commit: a write is about to be given to the store
sent        a write was given to the store; its reply is not read yet
reply       replies of the store have come (``before``) or were worked off (``after``)
feed        changes reach the watch cache (``before``) or are in it (``after``)
apply       one change reaches the cache of its resource
reset       the watch cache takes all there is (``before``, ``after``)
compact     the history is cut off in the store (``before``, ``after``)
==========  ======================================================================
"""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kapi.store.connection import Connection
from kapi.store.redis_store import RedisStore
from kapi.watchcache.cache import Cache
from kapi.watchcache.caches import Caches

#: name, and what may be done there
POINTS = {
    "commit": ("kill", "block", "delay"),
    "sent": ("kill",),
    "reply.before": ("kill", "block"),
    "reply.after": ("kill",),
    "feed.before": ("kill", "block"),
    "feed.after": ("kill",),
    "apply": ("raise",),
    "reset.before": ("kill",),
    "reset.after": ("kill",),
    "compact.before": ("kill",),
    "compact.after": ("kill",),
}


class Failpoint(NamedTuple):
    """What happens when the point has been passed ``after`` times."""

    point: str
    action: str  # kill, block (the thread, for a moment), delay (this write, for a moment), raise
    after: int
    seconds: float = 0.3


class Trigger:
    """Counts; acts once."""

    def __init__(self, failpoint: Failpoint) -> None:
        self.failpoint = failpoint
        self._left = failpoint.after

    def due(self) -> bool:
        self._left -= 1
        return self._left == 0

    def act(self) -> None:
        action = self.failpoint.action
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif action == "block":
            time.sleep(self.failpoint.seconds)
        elif action == "raise":
            raise RuntimeError(f"failpoint {self.failpoint.point}")


def install(failpoint: Failpoint) -> None:
    """Call it before the server is made."""
    point, _, when = failpoint.point.partition(".")
    trigger = Trigger(failpoint)
    if point == "commit":
        for name in ("create", "update", "delete"):
            _wrap(RedisStore, name, functools.partial(_commit, trigger))
    elif point == "sent":
        for name in ("create", "update", "delete"):
            _wrap(RedisStore, name, functools.partial(_sent, trigger))
    else:
        where: tuple[type, str] = {
            "reply": (Connection, "dataReceived"),
            "feed": (Caches, "changed"),
            "apply": (Cache, "apply"),
            "reset": (Caches, "reset"),
            "compact": (RedisStore, "compact"),
        }[point]
        _wrap(*where, functools.partial(_after if when == "after" else _before, trigger))


def _wrap(owner: type, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return around(functools.partial(original, *arguments, **named))

    setattr(owner, name, wrapper)


def _before(trigger: Trigger, call: Callable[[], Any]) -> Any:
    if trigger.due():
        trigger.act()
    return call()


def _after(trigger: Trigger, call: Callable[[], Any]) -> Any:
    answer = call()
    if trigger.due():
        trigger.act()
    return answer


def _commit(trigger: Trigger, call: Callable[[], Any]) -> Any:
    if not trigger.due():
        return call()
    if trigger.failpoint.action == "delay":
        from twisted.internet import reactor
        from twisted.internet.task import deferLater

        return deferLater(reactor, trigger.failpoint.seconds, call)  # type: ignore[arg-type]
    trigger.act()
    return call()


def _sent(trigger: Trigger, call: Callable[[], Any]) -> Any:
    answer = call()
    if trigger.due():
        from twisted.internet import reactor

        reactor.callLater(0, trigger.act)  # type: ignore[attr-defined]
    return answer
