"""Commands in a Pod's containers: exec and attach (upstream: client-go ``tools/remotecommand``, KEP-4006).

::

    running = await start(client, "default", "pod", ["ls", "-l"])
    async for channel, data in running:
        ...
    code = running.exit_code
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from kapi.client.errors import StatusError, UnexpectedAnswer, from_status
from kapi.client.rest import Request, RESTClient
from kapi.wire.spdy import SPDYStreams
from kapi.wire.websocket import WebSocket

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
_STREAMS = {STDIN: "stdin", STDOUT: "stdout", STDERR: "stderr", ERROR: "error", RESIZE: "resize"}
MAX_WRITE = 32 * 1024  # bytes of input in a message


class RemoteCommand:
    """``async for channel, data in command`` gives the data of STDOUT and STDERR until the command ends."""

    def __init__(self, socket: WebSocket | SPDYStreams) -> None:
        self._socket = socket
        #: None while it runs
        self.exit_code: int | None = None

    def __aiter__(self) -> RemoteCommand:
        return self

    async def __anext__(self) -> tuple[int, bytes]:
        found = await self.read()
        if found is None:
            raise StopAsyncIteration
        return found

    async def read(self) -> tuple[int, bytes] | None:
        """The next data, None at the end.  Raises the StatusError of a command that could not run, and WebSocketClosed."""
        while self.exit_code is None:
            message = await self._socket.read()
            if message is None:
                raise UnexpectedAnswer("the connection ended before the command's status")
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel == ERROR:
                self._socket.close()
                self.exit_code = _exit_code(data)
            elif channel in (STDOUT, STDERR) and data:
                return channel, data
        return None

    async def write(self, data: bytes) -> None:
        """Writes to the command's input."""
        for start in range(0, len(data), MAX_WRITE):
            await self._socket.send(bytes((STDIN,)) + data[start : start + MAX_WRITE])

    async def end_input(self) -> None:
        """Ends the command's input, when the server can do that (v5)."""
        if self._socket.protocol == V5:
            await self._socket.send(bytes((CLOSE, STDIN)))

    async def resize(self, width: int, height: int) -> None:
        """Sets the size of the command's terminal, in characters."""
        await self._socket.send(bytes((RESIZE,)) + orjson.dumps({"Width": width, "Height": height}))

    def close(self) -> None:
        self._socket.close()


def _exit_code(data: bytes) -> int:
    """The exit code in the Status that ends a command; 0 without one.  Raises the StatusError of other failures."""
    if not data:
        return 0
    try:
        status = orjson.loads(data)
    except ValueError:
        raise UnexpectedAnswer(f"the command's status is no JSON: {data[:200].decode('utf-8', 'replace')}") from None
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == "NonZeroExitCode":
        for cause in (status.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode":
                return int(cause.get("message") or 1)
    raise from_status(status)


async def start(
    client: RESTClient, namespace: str, pod: str, command: Sequence[str], *, container: str = "", **options: bool
) -> RemoteCommand:
    """Runs a command.  ``client`` is a RESTClient for ``v1``; ``options`` are ``stdin`` and ``tty``.

    Raises StatusError and ClientError.
    """
    return await _streams(client, namespace, pod, "exec", command, container, **options)


async def attach(
    client: RESTClient, namespace: str, pod: str, *, container: str = "", **options: bool
) -> RemoteCommand:
    """Attaches to the running command of a container; the arguments are the same as for ``start``."""
    return await _streams(client, namespace, pod, "attach", (), container, **options)


async def _streams(
    client: RESTClient,
    namespace: str,
    pod: str,
    what: str,
    command: Sequence[str],
    container: str,
    *,
    stdin: bool = False,
    tty: bool = False,
) -> RemoteCommand:
    def request(made: Request) -> Request:
        made.namespace(namespace).resource("pods").name(pod).subresource(what)
        for word in command:
            made.append_param("command", word)
        return made.params({"container": container, "stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty})

    try:
        return RemoteCommand(await request(client.get()).websocket(V5, V4))
    except StatusError:  # as of a user who may only create, or of an old kubelet
        wanted = {ERROR: True, STDIN: stdin, STDOUT: True, STDERR: not tty, RESIZE: tty}
        streams = {channel: {"streamtype": _STREAMS[channel]} for channel, is_wanted in wanted.items() if is_wanted}
        return RemoteCommand(await request(client.post()).spdy((V5, V4), streams))
