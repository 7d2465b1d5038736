"""kapi under twistd: log, streams, signals and exit code are the same as with the console script.

By default twistd logs everything as text to standard output, turns printed text into log lines, and exits with 0 even when the
service has failed.  Its own flags for the place of the log (``--logfile``, ``--syslog``, ``--logger``) still apply.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import syslog
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from twisted.application.service import MultiService
from twisted.logger import ILogObserver, Logger
from twisted.python.components import Componentized
from twisted.python.logfile import LogFile
from twisted.python.usage import Options
from twisted.scripts.twistd import ServerOptions  # type: ignore[attr-defined]

from kapi.observability.log_stream import Stream
from kapi.observability.logging import observer
from kapi.options.errors import ConfigError
from kapi.process.reactor import Reactor, end_with_zero
from kapi.serving.signals import on_signal

if TYPE_CHECKING:
    from kapi.app import App
    from kapi.workers.supervisor import Supervisor

log = Logger()


class _Twistd(ServerOptions):
    def opt_reactor(self, _: str) -> None:
        """Does nothing, since the reactor is already installed."""

    opt_r = opt_reactor


def twistd_options() -> Options:
    """The options of the twistd that runs this process; twistd does not pass them to a tac file."""
    options = _Twistd()
    options.parseOptions()
    return options


class LogPlace(NamedTuple):
    """The streams of the log.  None: the standard streams."""

    out: Stream | None = None
    err: Stream | None = None
    apart: bool = False  # errors go only to ``err``, regardless of the log flags


def log_place(options: Options | None, reactor: Reactor) -> LogPlace:
    """The place of the log from twistd's options.  Raises ConfigError."""
    if options is None or options["logger"] is not None:  # another program's observer, which twistd prefers
        return LogPlace()
    if options["syslog"]:
        syslog.openlog(options["prefix"])
        return LogPlace(_Syslog(syslog.LOG_INFO), _Syslog(syslog.LOG_ERR), True)
    path, foreground = options["logfile"], options["nodaemon"] or options["debug"]
    if path == "-":
        if not foreground:
            raise ConfigError("--logfile: a daemon has no standard output")
        return LogPlace(sys.stdout, sys.stdout)
    if foreground and not path:
        return LogPlace()
    try:
        file = LogFile.fromFullPath(path or "twistd.log")
    except OSError as error:
        raise ConfigError(f"--logfile: {path or 'twistd.log'}: {error.strerror or error}") from None
    if signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
        on_signal(signal.SIGUSR1, lambda: reactor.callFromThread(file.rotate))
    return LogPlace(file, file)


class _Syslog:
    """A stream whose lines become syslog messages of one priority."""

    def __init__(self, priority: int) -> None:
        self._priority = priority

    def write(self, text: str) -> None:
        for line in text.splitlines():
            syslog.syslog(self._priority, line)

    def flush(self) -> None:
        """Does nothing, since nothing is buffered."""


class TwistdService(MultiService):
    """The server, as a service of twistd's application."""

    def __init__(self, app: App | Supervisor, place: LogPlace, reactor: Reactor) -> None:
        super().__init__()
        self._app = app
        self._observer = observer(app.options.logs, *place)
        if place.err is not None:
            app.on_failure = lambda error: log.critical("{error}", error=str(error))
            if app.options.processes.workers > 1:
                cast("Supervisor", app).log_stream = place.err
        app.setServiceParent(self)
        reactor.addSystemEventTrigger("after", "shutdown", end_with_zero, reactor)
        atexit.register(self._leave)

    def setServiceParent(self, parent: Any) -> None:
        if isinstance(parent, Componentized):
            parent.setComponent(ILogObserver, self._observer)
        super().setServiceParent(parent)

    def privilegedStartService(self) -> None:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # twistd has replaced them by its log
        super().privilegedStartService()

    def _leave(self) -> None:
        """Ends the process with the service's exit code, since twistd would exit with 0."""
        if self._app.exit_code:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._app.exit_code)
