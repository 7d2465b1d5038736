"""``kapi exec`` (upstream: kubectl ``cmd/exec``)."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.threads import deferToThreadPool

from kapi.cli.factory import Factory
from kapi.cli.flags import Flag
from kapi.cli.messages import CommandError
from kapi.cli.pods_of import container_of, named, pods_of, write_bytes
from kapi.client.errors import StatusError
from kapi.client.remotecommand import STDERR, RemoteCommand, start
from kapi.client.websocket import WebSocketClosed

FLAGS = (
    Flag("container", short="c"),
    Flag("stdin", "bool", short="i"),
    Flag("tty", "bool", short="t"),
    Flag("quiet", "bool", short="q"),
    Flag("pod-running-timeout", "duration", default=60.0),
)
MAX_READ = 32 * 1024  # bytes of input at once


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    if not flags.arguments or flags.dash == 0:
        raise CommandError("pod, type/name or --filename must be specified")
    if len(flags.arguments) > 1 and flags.dash != 1:
        raise CommandError(
            "exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead",
            usage=f"{program} exec",
        )
    pod_name, *command = flags.arguments
    if not command:
        raise CommandError("you must specify at least one command for the container")
    info = await named(factory, program, pod_name)
    pod = (await pods_of(factory, info, "attach to"))[0]
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise CommandError(f"cannot exec into a container in a completed pod; current phase is {phase}")
    container = container_of(factory, pod, flags["container"], quiet=flags["quiet"])
    metadata, tty = pod["metadata"], _terminal(factory)
    try:
        running = await start(
            factory.client("v1"), metadata["namespace"], metadata["name"], command,
            container=container, stdin=flags["stdin"], tty=tty,
        )  # fmt: skip
    except StatusError as error:
        raise CommandError(f"unable to upgrade connection: {error.message}") from None
    try:
        with _raw(tty):
            code = await _serve(factory, running, tty)
    except StatusError as error:
        raise CommandError(error.message) from None
    if code:
        raise CommandError(f"command terminated with exit code {code}", code=code, plain=True)
    return 0


def _terminal(factory: Factory) -> bool:
    """Whether the command gets a terminal."""
    if not factory.flags["tty"]:
        return False
    if factory.flags["stdin"] and factory.stdin.isatty():
        return True
    factory.err.write("Unable to use a TTY - input is not a terminal or the right kind of file\n")
    return False


@contextlib.contextmanager
def _raw(tty: bool) -> Iterator[None]:
    """Keys go to the command as they are pressed."""
    if not tty:
        yield
        return
    import termios
    from tty import setraw

    before = termios.tcgetattr(sys.stdin)
    setraw(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


async def _serve(factory: Factory, running: RemoteCommand, tty: bool) -> int:
    """Until the command ends; its exit code."""
    if tty:
        size = os.get_terminal_size()
        await running.resize(size.columns, size.lines)
    feeding = Deferred.fromCoroutine(_feed(factory, running)) if factory.flags["stdin"] else None
    try:
        async for channel, data in running:
            write_bytes(factory.err if channel == STDERR else factory.out, data)
    finally:
        if feeding is not None:
            feeding.addErrback(lambda why: why.trap(CancelledError, WebSocketClosed))
            feeding.cancel()
    return running.exit_code or 0


async def _feed(factory: Factory, running: RemoteCommand) -> None:
    """Standard input, read by a thread: a file cannot be waited for."""
    source: Any = getattr(factory.stdin, "buffer", factory.stdin)
    pool = factory.reactor.getThreadPool()
    while True:
        data = await deferToThreadPool(factory.reactor, pool, source.read1, MAX_READ)
        if not data:
            await running.end_input()
            return
        await running.write(data)
