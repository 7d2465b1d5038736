"""Runs a client command (upstream: kubectl ``cmd/cmd.go``)."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from twisted.python.failure import Failure

from kapi.kubectl.commands import module_of
from kapi.kubectl.flags import Flag
from kapi.process.reactor import Reactor, installed_reactor

PROGRAM = "kapi"


async def run(
    arguments: Sequence[str],
    reactor: Reactor,
    out: TextIO | None = None,
    err: TextIO | None = None,
    stdin: TextIO | None = None,
) -> int:
    """Runs one command.  Returns its exit code."""
    from kapi.client.errors import ClientError, ConfigError, StatusError
    from kapi.kubectl.factory import Factory
    from kapi.kubectl.flags import GLOBAL, Flags, UsageError
    from kapi.kubectl.messages import Aggregate, CommandError, message_of

    err = err or sys.stderr
    name = arguments[0]
    command = importlib.import_module(module_of(name))
    flags = Flags((*command.FLAGS, *GLOBAL))
    try:
        flags.parse(arguments[1:])
    except UsageError as error:
        if str(error) == "pflag: help requested":
            (out or sys.stdout).write(_help(name, command.FLAGS))
            return 0
        err.write(f"error: {error}\nSee '{PROGRAM} {name} --help' for usage.\n")
        return 1
    factory = Factory(name, flags, reactor, out, err, stdin)
    code = 0
    try:
        code = await command.run(factory, PROGRAM)
        if flags.get_bool("warnings-as-errors") and factory.warned:
            many = "warnings" if factory.warned > 1 else "warning"
            raise CommandError(f"{factory.warned} {many} received")
    except (Aggregate, ClientError, CommandError, ConfigError, StatusError, ValueError) as error:
        factory.out.write(getattr(error, "output", ""))
        factory.out.flush()
        host = factory._config.host if factory._config is not None else ""
        err.write(message_of(error, host))
        code = getattr(error, "code", 1) if isinstance(error, CommandError) else 1
    finally:
        factory.out.flush()
        await factory.close()
    return code


def _help(name: str, flags: Sequence[Flag]) -> str:
    lines = [f"Usage: {PROGRAM} {name} [flags] [arguments]", "", "Flags:"]
    for flag in sorted(flags, key=lambda flag: str(flag.name)):
        short = f"-{flag.short}, " if flag.short else "    "
        lines.append(f"  {short}--{flag.name}" + ("" if flag.kind == "bool" else f" {flag.kind}"))
    return "\n".join(lines) + "\n\nkubectl's manual holds for them.\n"


def _buffered(stream: TextIO) -> TextIO:
    """``stream``, with a buffer by lines where ``PYTHONUNBUFFERED`` leaves it none.

    Without one Python drops what a single write does not take: when the process is stopped meanwhile, that is most of it.
    """
    if not isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        return stream
    return open(stream.fileno(), "w", 1, stream.encoding, stream.errors, closefd=False)


def main(arguments: Sequence[str]) -> int:
    """Runs the reactor for one command, then ends the process at once: an orderly exit of Python would take longer."""
    from twisted.internet.defer import Deferred

    sys.stdout, sys.stderr = _buffered(sys.stdout), _buffered(sys.stderr)
    reactor = installed_reactor()
    codes: list[int] = []
    failures: list[Failure] = []

    def begin() -> None:
        running = Deferred.fromCoroutine(run(arguments, reactor))
        running.addCallbacks(codes.append, failures.append)
        running.addBoth(lambda _: reactor.stop())

    def interrupted() -> None:
        """After a signal, ends the process before its closed connections are reported as errors."""
        if not codes and not failures:
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.flush()
            os._exit(1)

    reactor.addSystemEventTrigger("before", "shutdown", interrupted)
    reactor.callWhenRunning(begin)
    reactor.run()
    if failures:
        if not failures[0].check(BrokenPipeError):  # the reader of the output has ended
            failures[0].printTraceback(file=sys.stderr)
        codes.append(1)
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(codes[0])
