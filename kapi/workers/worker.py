"""One of several servers on a port: what ``python -m kapi.workers.worker flags...`` runs, started by the supervisor.

A worker is an ordinary server, except for the parts of the supervisor: it inherits the listening socket, does not lock the data
directory, and does not start the store's server.  It writes the revisions of the embedded store that it has shown to clients to
shared memory, for the other workers.  It ends when its standard input is closed, because the supervisor has ended.
"""

from __future__ import annotations

import ctypes
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
from kapi.process.reactor import Reactor
from kapi.serving.signals import stop_reactor
from kapi.store.shared_revisions import SharedRevisions, take_slot

if TYPE_CHECKING:
    from kapi.app import App

LISTENER = 3  # the listening socket's file descriptor
REVISIONS = 4  # descriptor of the shared memory with the revisions shown to clients
READINESS = 5  # descriptor of a pipe to the supervisor, since standard output may be full
READY = b"ready"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@implementer(IReadDescriptor)
class SupervisorWatch:
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
        """Nothing is ever written to it, so a read finds its end."""
        try:
            return None if os.read(0, 4096) else CONNECTION_DONE
        except BlockingIOError:
            return None

    def connectionLost(self, reason: object) -> None:
        """Called when the supervisor has ended, or when the reactor stops."""
        if self._reactor.running:
            self._ended()


def supervised() -> bool:
    """Whether the supervisor runs, which alone has the other end of standard input."""
    poll = select.poll()
    poll.register(0, 0)  # a hang-up is always reported
    return not poll.poll(0)


def shared_revisions() -> SharedRevisions:
    """The shared memory, with a slot for this worker.  Raises ConfigError when all slots are taken."""
    try:
        return SharedRevisions(REVISIONS, take_slot(REVISIONS), supervised)
    except OSError as error:
        raise ConfigError(f"--workers: {error}") from None


def orphaned(app: App, reactor: Reactor) -> None:
    """Stops a worker without a supervisor.  Closes the port first, since a new supervisor needs it at once."""
    Deferred.fromCoroutine(app.close_port()).addBoth(lambda _: stop_reactor(reactor))


def outlive_supervisor() -> None:
    """Makes this process outlive the supervisor, to end in order; until now the kernel would end both (``setpriv``)."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)  # None on other systems than Linux
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def announce() -> None:
    """Tells the supervisor that this worker serves."""
    os.write(READINESS, READY)
    os.close(READINESS)


def main() -> None:
    gc.disable()  # as in kapi.__main__
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the supervisor stops the workers in order
    from kapi.app import App
    from kapi.extensions import extension_for
    from kapi.foundation import Foundation
    from kapi.observability.logging import begin_log
    from kapi.options.errors import complain
    from kapi.options.options import Options
    from kapi.process.reactor import installed_reactor, use_monotonic_clock

    reactor = installed_reactor()
    use_monotonic_clock(reactor)
    os.umask(0o077)
    try:
        extension = extension_for(sys.argv[1:])
        options = Options.from_command_line(sys.argv[1:], extension)
        os.set_inheritable(REVISIONS, False)
        os.set_inheritable(READINESS, False)
        revisions = shared_revisions() if options.storage.embedded else None
        foundation = Foundation(options, reactor, shared=True, revisions=revisions)
        app = App(options, reactor, foundation, socket.socket(fileno=LISTENER), extension)
        app.prepare()
    except ConfigError as error:
        complain(error)
        sys.exit(1)
    app.on_failure = complain
    app.announce = announce
    begin_log(options.logs)
    SupervisorWatch(reactor, lambda: orphaned(app, reactor))
    outlive_supervisor()
    app.startService()
    reactor.addSystemEventTrigger("before", "shutdown", app.stopService)
    reactor.run()
    sys.exit(app.exit_code)


if __name__ == "__main__":
    main()
