"""Starts kapi for a test: with failpoints, quick compaction and frequent bookmarks.

``--once ORDER`` is one server.  Without it a process that has imported kapi waits for orders, one JSON a line on its
standard input, and forks a server for each: a start takes a third of the time.  It answers ``{"pid": ...}`` for each
order and ``{"ended": pid, "status": ...}`` when one has ended.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
from typing import Any

COMPACTION_CHECKS = 1  # seconds between them
BOOKMARKS = 2  # seconds between them


def prepare(order: dict[str, Any]) -> None:
    """Changes the kapi of this process as ordered: ``gate``, ``failpoints``."""
    from kapi.store.redis_store import RedisStore
    from kapi.watchcache import caches, watch
    from tests.consistency.failpoints import Failpoint, install

    assert caches._TRIM_SECONDS and watch.INTERVAL_SECONDS
    caches._TRIM_SECONDS = COMPACTION_CHECKS
    watch.INTERVAL_SECONDS = BOOKMARKS
    gate = order.get("gate")
    if gate:
        compact = RedisStore.compact

        async def noted(store: RedisStore, revision: int) -> None:
            """Cuts off no more than the recorder has noted."""
            with open(gate, "rb") as file:
                await compact(store, min(revision, int(file.read() or 0)))

        RedisStore.compact = noted  # type: ignore[method-assign]
    for failpoint in order.get("failpoints") or []:
        install(Failpoint(*failpoint))


def serve(order: dict[str, Any]) -> None:
    """Is the server until it ends: ``arguments``, ``log``."""
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    source = order.get("source")
    if source:
        connect_from(source)
    prepare(order)
    from kapi.tap import main

    main(order["arguments"])


def connect_from(source: str) -> None:
    """Outgoing connections come from this address: a proxy tells by it which link they belong to."""
    from twisted.internet import reactor

    connect = reactor.connectTCP  # type: ignore[attr-defined]

    def connect_tcp(host: str, port: int, factory: Any, timeout: float = 30, bindAddress: Any = None) -> Any:
        return connect(host, port, factory, timeout, bindAddress or (source, 0))

    reactor.connectTCP = connect_tcp  # type: ignore[attr-defined]


def forge() -> None:
    """Forks a server for each order until the input ends; then ends them all."""
    import kapi.app  # noqa: F401
    import tests.consistency.failpoints  # noqa: F401

    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    running: set[int] = set()
    rest = b""
    while True:
        for key, _ in selector.select():
            data = os.read(key.fd, 1 << 16)
            if key.fd == 0:
                if not data:
                    for pid in running:
                        os.kill(pid, signal.SIGKILL)
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    pid = os.fork()
                    if not pid:
                        signal.set_wakeup_fd(-1)
                        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                        selector.close()
                        serve_forked(json.loads(line))
                    running.add(pid)
                    tell({"pid": pid})
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            running.discard(pid)
            tell({"ended": pid, "status": status})


def serve_forked(order: dict[str, Any]) -> None:
    from twisted.internet import reactor

    code = 1
    try:
        # imported modules hold the reactor, which has not run yet: it gets a poller and a waker of its own
        reactor._poller.close()  # type: ignore[attr-defined]
        type(reactor).__init__(reactor)
        serve(order)
        code = 0
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def tell(what: dict[str, Any]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        serve(json.loads(sys.argv[2]))
    else:
        forge()
