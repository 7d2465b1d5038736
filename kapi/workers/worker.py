"""One of several servers on a port: what ``python -m kapi.workers.worker flags...`` runs, started by the supervisor.

It is an ordinary server but for what the supervisor has: the listening socket comes as a file, the data directory is not its own,
the store's server runs already. What it has shown of the embedded store the other workers read in shared memory,
which comes as a file, too. It ends when its standard input does, which is when the supervisor is gone.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.main import CONNECTION_DONE
from zope.interface import implementer

from kapi.options.errors import ConfigError
from kapi.request.reactor import Reactor
from kapi.store.shared_revisions import SharedRevisions, take_slot

if TYPE_CHECKING:
    from kapi.app import App

LISTENER = 3  # the listening socket's file descriptor
REVISIONS = 4  # that of the memory in which workers note what they have shown
READY = b"ready"  # the line on standard output for the supervisor


@implementer(IReadDescriptor)
class Lifeline:
    """Calls ``ended`` once the other end of standard input is closed."""

    def __init__(self, reactor: Reactor, ended: Callable[[], object]) -> None:
        self._reactor = reactor
        self._ended = ended
        os.set_blocking(0, False)
        reactor.addReader(self)

    def fileno(self) -> int:
        return 0

    def logPrefix(self) -> str:
        return "supervisor"

    def doRead(self) -> Any:
        """Nobody writes to it: what there is to read is the end."""
        try:
            return None if os.read(0, 4096) else CONNECTION_DONE
        except BlockingIOError:
            return None

    def connectionLost(self, reason: object) -> None:
        """The supervisor is gone, or the reactor lets go of everything in its end."""
        if self._reactor.running:
            self._ended()


def supervised() -> bool:
    """Whether the supervisor lives, who alone has the other end of standard input."""
    poll = select.poll()
    poll.register(0, 0)  # that it was closed is reported in any case
    return not poll.poll(0)


def shared_revisions() -> SharedRevisions:
    """Raises ConfigError when more workers live than there are slots for."""
    try:
        return SharedRevisions(REVISIONS, take_slot(REVISIONS), supervised)
    except OSError as error:
        raise ConfigError(f"--workers: {error}") from None


def orphaned(app: App, reactor: Reactor) -> None:
    """Without a supervisor: whoever is started next needs the port at once, not only when all requests are answered."""
    Deferred.fromCoroutine(app.close_port()).addBoth(lambda _: reactor.stop())


def main() -> None:
    gc.disable()  # as in kapi.__main__
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's business, which ends us in order
    from twisted.logger import globalLogBeginner

    from kapi.app import App
    from kapi.clock import use_monotonic_clock
    from kapi.foundation import Foundation
    from kapi.options.errors import complain
    from kapi.options.options import Options
    from kapi.request.reactor import installed_reactor
    from kapi.server.logging import observer

    reactor = installed_reactor()
    use_monotonic_clock(reactor)
    os.umask(0o077)
    try:
        options = Options.from_command_line(sys.argv[1:])
        os.set_inheritable(REVISIONS, False)
        revisions = shared_revisions() if options.storage.embedded else None
        foundation = Foundation(options, reactor, shared=True, revisions=revisions)
        app = App(options, reactor, foundation, listener=socket.socket(fileno=LISTENER))
        app.prepare()
    except ConfigError as error:
        complain(error)
        sys.exit(1)
    app.on_failure = complain
    app.announce = lambda: os.write(1, READY + b"\n")
    globalLogBeginner.beginLoggingTo([observer(options.logs, out=sys.stderr)], redirectStandardIO=False)
    Lifeline(reactor, lambda: orphaned(app, reactor))
    app.startService()
    reactor.addSystemEventTrigger("before", "shutdown", app.stopService)
    reactor.run()
    sys.exit(app.exit_code)


if __name__ == "__main__":
    main()
