"""Runs a client command (upstream: kubectl ``cmd/cmd.go``)."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from twisted.python.failure import Failure

from kapi.kubectl.command import Command, find, load
from kapi.kubectl.commands import ENTRIES
from kapi.kubectl.flags import Flags, UsageError
from kapi.process.reactor import Reactor, installed_reactor

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from kapi.client.config import Config
    from kapi.client.exec_credential import PluginPolicy

PROGRAM = "kapi"


async def run(
    arguments: Sequence[str],
    reactor: Reactor | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
    stdin: TextIO | None = None,
    config: Config | None = None,
    plugin_policy: PluginPolicy | None = None,
    names: Mapping[str, str] | None = None,
) -> int:
    """Runs one command; with ``config``, not with that of the kubeconfig.  Returns its exit code.

    ``plugin_policy`` says which credential plugins of a kubeconfig may run.  ``names``: what hints call some commands.  Without
    ``reactor`` the process's one is used, and imported when something of it is needed.
    """
    from kapi.client.errors import ClientError, ConfigError, StatusError
    from kapi.kubectl.factory import Factory
    from kapi.kubectl.messages import Aggregate, CommandError, message_of

    out, err = out or sys.stdout, err or sys.stderr
    path, command, rest = find(load(arguments[0]), arguments[1:])
    shown = (names or {}).get(path, path)
    flags = Flags(command.flags)
    try:
        flags.parse(rest)
        err.writelines(f"{warning}\n" for warning in flags.warnings)
        if missing := flags.missing():
            raise CommandError("required flag(s) " + ", ".join(f'"{name}"' for name in missing) + " not set")
    except UsageError as error:
        if str(error) == "pflag: help requested":
            return _show_help(out, shown, command)
        hint = (
            f"See '{PROGRAM} {shown} --help' for usage."
            if path != "options"
            else f"Run '{PROGRAM} {path}' without flags."
        )
        if command.failure > 1:  # as diff, which has its own function for them
            hint = f"See '{PROGRAM} {shown} -h' for help and examples"
        err.write(f"error: {error}\n{hint}\n")
        return command.failure
    except CommandError as error:
        err.write(message_of(error))
        return command.failure
    if command.run is None:
        if not flags.arguments:
            _show_help(err, shown, command)
            return 1
        words = " ".join(flags.arguments)
        err.write(f"error: unknown command \"{words}\"\nSee '{PROGRAM} {shown} -h' for help and examples\n")
        return 1
    factory = Factory(path, flags, reactor, out, err, stdin, plugin_policy)
    if config is not None:
        factory.use(config)
    code = 0
    try:
        await factory.check_flags()
        code = await command.run(factory, PROGRAM)
        if flags.get_bool("warnings-as-errors") and factory.warned:
            many = "warnings" if factory.warned > 1 else "warning"
            raise CommandError(f"{factory.warned} {many} received")
    except (Aggregate, ClientError, CommandError, ConfigError, StatusError, ValueError) as error:
        factory.out.write(getattr(error, "output", ""))
        factory.out.flush()
        host = factory._config.host if factory._config is not None else ""
        if isinstance(error, CommandError) and error.usage == f"{PROGRAM} {path}":
            error.usage = f"{PROGRAM} {shown}"
        err.write(message_of(error, host))
        code = max(command.failure, getattr(error, "code", 1) if isinstance(error, CommandError) else 1)
    finally:
        factory.out.flush()
        await factory.close()
    return code


def _show_help(out: TextIO, path: str, command: Command) -> int:
    from kapi.kubectl.help import command_help

    out.write(command_help(PROGRAM, path, command))
    return 0


def help_of(words: Sequence[str]) -> str:
    """The text of ``kapi help`` with these words: the help of a command, or the overview."""
    from kapi.kubectl.help import command_help, overview

    entry = ENTRIES.get(words[0]) if words else None
    if entry is None:
        unknown = "Unknown help topic [" + " ".join(f"`{word}`" for word in words) + "]\n\n"
        return (unknown if words else "") + overview(PROGRAM)
    if entry.program:
        return f'{entry.summary}.\n\nUse "{PROGRAM} {entry.name} --help" for its flags.\n'
    path, command, _ = find(load(words[0]), words[1:])
    return command_help(PROGRAM, path, command)


def _buffered(stream: TextIO) -> TextIO:
    """``stream``, with line buffering even if ``PYTHONUNBUFFERED`` is set.

    Without a buffer Python drops the rest of a partial write, which can be most of it if the process is stopped meanwhile.
    """
    if not isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        return stream
    return open(stream.fileno(), "w", 1, stream.encoding, stream.errors, closefd=False)


def main(
    arguments: Sequence[str], plugin_policy: PluginPolicy | None = None, names: Mapping[str, str] | None = None
) -> int:
    """Runs one command, then ends the process at once: an orderly exit of Python would take longer.

    The reactor is half of a command's imports, so it is imported only for commands that wait.
    """
    from twisted.internet.defer import Deferred

    sys.stdout, sys.stderr = _buffered(sys.stdout), _buffered(sys.stderr)
    codes: list[int] = []
    failures: list[Failure] = []
    running = Deferred.fromCoroutine(run(arguments, plugin_policy=plugin_policy, names=names))
    running.addCallbacks(codes.append, failures.append)
    if not codes and not failures:
        _run_reactor(running)
    if failures:
        if not failures[0].check(BrokenPipeError, KeyboardInterrupt):  # the reader of the output has ended
            failures[0].printTraceback(file=sys.stderr)
        codes.append(1)
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(codes[0])


def _run_reactor(running: Deferred[int]) -> None:
    """Runs the reactor until the command has ended."""
    reactor = installed_reactor()
    running.addCallback(lambda _: reactor.stop())

    def interrupted() -> None:
        """After a signal, ends the process before its closed connections are reported as errors."""
        if not running.called:
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.flush()
            os._exit(1)

    reactor.addSystemEventTrigger("before", "shutdown", interrupted)
    reactor.run()
