"""The ways to start kapi: as a twistd plugin, from a tac file, or by the console script ``kapi``."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from twisted.python import usage

from kapi.extensions import extension_for
from kapi.foundation import Foundation
from kapi.options.errors import ConfigError, complain
from kapi.options.help import show
from kapi.options.options import Options as Flags
from kapi.options.options import help_text
from kapi.process.reactor import Reactor, installed_reactor, use_monotonic_clock

if TYPE_CHECKING:
    from kapi.app import App
    from kapi.assembly.extension import Extension
    from kapi.servers.additions import Additions
    from kapi.twistd import TwistdService
    from kapi.workers.supervisor import Supervisor

_CONFIG = "--config-file"


def flags_from_file(path: str) -> list[str]:
    """The flags in a file, one or more a line; ``#`` begins a comment.  Raises ConfigError."""
    try:
        with open(path) as file:
            flags = [flag for line in file for flag in shlex.split(line, comments=True)]
    except OSError as error:
        raise ConfigError(f"{_CONFIG}: cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigError(f"{_CONFIG}: {path}: {error}") from None
    if any(flag.partition("=")[0] == _CONFIG for flag in flags):
        raise ConfigError(f"{_CONFIG}: {path}: a file cannot name another one")
    return flags


def expand(arguments: Sequence[str]) -> list[str]:
    """The arguments with ``--config-file`` replaced by the flags in the file; later flags of the command line override them."""
    rest, files, pending = [], [], False
    for argument in arguments:
        if pending:
            files.append(argument)
            pending = False
        elif argument == _CONFIG:
            pending = True
        elif argument.startswith(_CONFIG + "="):
            files.append(argument.partition("=")[2])
        else:
            rest.append(argument)
    if pending:
        raise ConfigError(f"flag needs an argument: {_CONFIG}")
    return [flag for file in files for flag in flags_from_file(file)] + rest


def make_service_from_flags(
    arguments: Sequence[str], reactor: Reactor | None = None, *, stays: bool = False, additions: Additions | None = None
) -> App | Supervisor:
    """The service.  Writes errors to stderr and raises SystemExit.

    ``stays``: this process itself will serve, so its store may start at once; twistd may fork before it serves.
    """
    if any(argument in ("--help", "-h", "--help-server") for argument in arguments):
        show("Usage: kapi [flags]\n\n" + help_text(extension_for(arguments)))
    version = asks_version(arguments)
    if version:
        _show_version(version.partition("=")[2])
    if reactor is None:
        reactor = installed_reactor()
    use_monotonic_clock(reactor)
    try:
        arguments = expand(arguments)
        extension = extension_for(arguments)
        options = Flags.from_command_line(arguments, extension)
        foundation = Foundation(options, reactor)
        foundation.make_private()
        if stays:
            foundation.launch()
        app = _prepared(options, arguments, reactor, foundation, extension, additions)
    except ConfigError as error:
        complain(error)
        raise SystemExit(1) from None
    app.on_failure = complain
    return app


def asks_version(arguments: Sequence[str]) -> str:
    """The flag ``--version`` on the command line; empty when it is not there."""
    version = next((argument for argument in arguments if argument.partition("=")[0] == "--version"), "")
    return "" if version == "--version=false" else version


def _show_version(what: str) -> None:
    """Prints the version and ends the process."""
    from kapi.machinery.version import VERSION

    if what not in ("", "true", "raw"):
        complain(ConfigError(f'invalid argument "{what}" for "--version" flag: true, false or raw'))
        raise SystemExit(1)
    show(json.dumps(VERSION) if what == "raw" else f"Kubernetes {VERSION['gitVersion']}")


def _prepared(
    options: Flags,
    arguments: Sequence[str],
    reactor: Reactor,
    foundation: Foundation,
    extension: Extension | None,
    additions: Additions | None,
) -> App | Supervisor:
    app: App | Supervisor
    try:
        if options.processes.workers > 1:
            if additions is not None:
                raise ConfigError("--workers: a server with additions is one process")
            from kapi.workers.supervisor import Supervisor

            app = Supervisor(options, arguments, reactor, foundation)
        else:
            from kapi.app import App  # this imports two thirds of all modules, while the store's server starts

            app = App(options, reactor, foundation, extension=extension, additions=additions)
        app.prepare()
    except BaseException:
        foundation.abandon()
        raise
    return app


class Options(usage.Options):
    """The command line from twistd; kapi parses the flags itself."""

    synopsis = "[kapi flags]"
    longdesc = "Runs a Kubernetes API server. `kapi --help-server` shows all flags."

    def __init__(self) -> None:
        super().__init__()
        self.arguments: list[str] = []

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        self.arguments = list(sys.argv[1:] if options is None else options)


def makeService(options: Options, additions: Additions | None = None) -> TwistdService:
    """Called by twistd, by ``etc/kapi.tac``, and by programs with ``additions``."""
    from kapi.twistd import TwistdService, log_place  # the console script does not need it

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # as in kapi.__main__
    running = installed_reactor()
    try:
        place = log_place(options.parent, running)
    except ConfigError as error:
        complain(error)
        raise SystemExit(1) from None
    return TwistdService(make_service_from_flags(options.arguments, running, additions=additions), place, running)


def main(arguments: Sequence[str] | None = None, additions: Additions | None = None) -> None:
    """The console script of kapi, or of a program with ``additions``."""
    run(sys.argv[1:] if arguments is None else arguments, additions=additions)


def run(
    arguments: Sequence[str],
    prepared: Callable[[App | Supervisor], object] = lambda app: None,
    additions: Additions | None = None,
) -> None:
    """Runs the service in the foreground, without a pid file.  Ends the process with the exit code.

    ``prepared`` is called with the service before it starts.
    """
    from kapi.observability.logging import begin_log

    running = installed_reactor()
    app = make_service_from_flags(arguments, running, stays=True, additions=additions)
    prepared(app)
    begin_log(app.options.logs)
    app.privilegedStartService()
    app.startService()
    running.addSystemEventTrigger("before", "shutdown", app.stopService)
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the reactor only replaces the default handler
    running.run()
    sys.exit(app.exit_code)


if __name__ == "__main__":
    main()
