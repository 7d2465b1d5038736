"""``/debug/pprof/`` and ``/debug/flags/v``, also on a Unix socket: profiles in pprof's format, as ``go tool pprof`` reads them.

Another thread samples the stack of the thread that serves a hundred times a second; a sample counts as a hundredth of a second of
work, unless the reactor is waiting.  The socket works also when authentication fails.  Only the owner of its file can connect, so
no credentials are needed.
Upstream: apiserver ``server/routes/{profiling,flags,debugsocket}.go``, Go's net/http/pprof, google/pprof ``profile.proto``.
"""

from __future__ import annotations

import gzip
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any, Protocol

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.internet.threads import deferToThreadPool

from kapi.filters.chain import FilterChain
from kapi.filters.request_info import request_info
from kapi.machinery import status
from kapi.machinery.golang import NumberError, parse_int
from kapi.process.reactor import Reactor
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.schema.protobuf_writing import varint
from kapi.serving.generic import GenericServer, NotFound
from kapi.serving.routing import Routes
from kapi.serving.run import RequestRunner
from kapi.serving.site import Connections
from kapi.store.address import without_passwords

_PLAIN = b"text/plain; charset=utf-8"
_HTML = b"text/html; charset=utf-8"
_NOSNIFF = ((b"x-content-type-options", b"nosniff"),)
DEFAULT_SECONDS = 30
MAX_SECONDS = 300
_PROFILES = {
    "cmdline": "The command line invocation of the current program",
    "profile": "CPU profile. You can specify the duration in the seconds GET parameter.",
}


class Verbosity(Protocol):
    """The log flags, whose ``v`` can be changed."""

    v: int


class Profiling:
    """Takes CPU profiles, one at a time.  ``logs`` are the log flags, whose ``v`` can be changed."""

    app = Routes()

    def __init__(self, reactor: Reactor, logs: Verbosity) -> None:
        self._reactor = reactor
        self._logs = logs
        self._thread = threading.get_ident()  # the reactor's thread, in which the server is built
        self._busy = False

    @app.route("/debug/pprof", listed=False)
    def to_the_index(self, ctx: RequestContext) -> Response:
        return Response(301, b"", _PLAIN, ((b"location", b"/debug/pprof/"),))

    @app.route("/debug/pprof/", listed=False)
    def index(self, ctx: RequestContext) -> Response:
        rows = "".join(f"<li><a href='{name}'>{name}</a>: {text}</li>\n" for name, text in _PROFILES.items())
        page = f"<html><title>/debug/pprof/</title><body><ul>\n{rows}</ul></body></html>\n"
        return Response(200, page.encode(), _HTML)

    @app.route("/debug/pprof/cmdline", listed=False)
    def command_line(self, ctx: RequestContext) -> Response:
        return Response(200, "\0".join(map(without_passwords, sys.argv)).encode(), _PLAIN, _NOSNIFF)

    @app.route("/debug/pprof/profile", listed=False)
    async def profile(self, ctx: RequestContext) -> Response:
        try:
            seconds = float(ctx.first("seconds") or DEFAULT_SECONDS)
        except ValueError:
            raise status.bad_request("seconds must be a number") from None
        if not 0 < seconds <= MAX_SECONDS:
            raise status.bad_request(f"seconds must be greater than 0 and at most {MAX_SECONDS}")
        if self._busy:
            return Response(500, b"Could not enable CPU profiling: cpu profiling already in use\n", _PLAIN, _NOSNIFF)
        self._busy = True
        stopped, began = threading.Event(), time.time()
        sampler = Sampler(self._thread)
        try:
            running: Deferred[None] = deferToThreadPool(
                self._reactor, self._reactor.getThreadPool(), sampler.run, seconds, stopped
            )
            await running
        finally:  # also when the client disconnects
            stopped.set()
            self._busy = False
        body = encode(sampler.counts, began, seconds)
        headers = ((b"content-disposition", b'attachment; filename="profile"'), *_NOSNIFF)
        return Response(200, body, b"application/octet-stream", headers)

    @app.route("/debug/flags/v", listed=False)
    def verbosity(self, ctx: RequestContext) -> Response:
        if ctx.method != "PUT":
            return Response(405, b"unrecognized http method\n", _PLAIN)
        text = ctx.http.content.getvalue().decode("utf-8", "replace").strip()
        try:
            self._logs.v = parse_int(text, 32)
        except NumberError as error:
            raise status.bad_request(
                f'failed to set klog.logging.verbosity {text}: strconv.ParseInt: parsing "{text}": {error}'
            ) from None
        return Response(200, f"successfully set klog.logging.verbosity to {text}".encode(), _PLAIN)


RATE = 100  # samples a second
_MAX_FRAMES = 200  # innermost frames of a stack
_WAITING = ("poll", "doPoll", "doIteration")  # functions in which the reactor waits for events

#: innermost first: code and line
Stack = tuple[tuple[CodeType, int], ...]


def stack_of(frame: FrameType | None) -> Stack:
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < _MAX_FRAMES:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


class Sampler:
    """Collects stacks of a thread for some time."""

    def __init__(self, thread: int, frames: Callable[[], dict[int, FrameType]] = sys._current_frames) -> None:
        self._thread = thread
        self._frames = frames
        self.counts: dict[Stack, int] = {}

    def look(self) -> None:
        stack = stack_of(self._frames().get(self._thread))
        if stack and stack[0][0].co_name not in _WAITING:
            self.counts[stack] = self.counts.get(stack, 0) + 1

    def run(self, seconds: float, stopped: threading.Event) -> None:
        """Samples until the time is over or ``stopped`` is set; runs in another thread."""
        begun = time.monotonic()
        while time.monotonic() - begun < seconds and not stopped.wait(1 / RATE):
            self.look()


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def _text(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _text(field, b"".join(map(varint, values)))


class _Strings:
    def __init__(self) -> None:
        self.places: dict[str, int] = {"": 0}

    def __call__(self, text: str) -> int:
        return self.places.setdefault(text, len(self.places))


def encode(counts: dict[Stack, int], began: float, seconds: float) -> bytes:
    """The compressed profile; ``began`` in unix seconds."""
    strings = _Strings()
    period = 1_000_000_000 // RATE
    units = [(strings("samples"), strings("count")), (strings("cpu"), strings("nanoseconds"))]
    types = b"".join(_text(1, _number(1, kind) + _number(2, unit)) for kind, unit in units)
    functions: dict[CodeType, int] = {}
    locations: dict[tuple[CodeType, int], int] = {}
    samples = []
    for stack, count in counts.items():
        for code, _ in stack:
            functions.setdefault(code, len(functions) + 1)
        places = [locations.setdefault(place, len(locations) + 1) for place in stack]
        samples.append(_text(2, _packed(1, places) + _packed(2, (count, count * period))))
    parts = [types, *samples]
    for (code, line), number in locations.items():
        parts.append(_text(4, _number(1, number) + _text(4, _number(1, functions[code]) + _number(2, line))))
    for code, number in functions.items():
        name = strings(f"{_module(code)}.{code.co_qualname}")
        function = _number(1, number) + _number(2, name) + _number(3, name)
        parts.append(_text(5, function + _number(4, strings(code.co_filename)) + _number(5, code.co_firstlineno)))
    kind, unit = units[1]
    end = [
        _number(9, int(began * 1e9)),
        _number(10, int(seconds * 1e9)),
        _text(11, _number(1, kind) + _number(2, unit)),
        _number(12, period),
    ]
    texts = [_text(6, text.encode()) for text in strings.places]
    return gzip.compress(b"".join((*parts, *texts, *end)), 6)


def _module(code: CodeType) -> str:
    """The module's name from the file's name, since a code object does not have it."""
    parts = code.co_filename.removesuffix(".py").split("/")
    return ".".join(parts[-2:]) if len(parts) > 1 else parts[-1]


class DebugSocket:
    """``logs`` are the log flags, whose ``v`` can be changed."""

    def __init__(self, path: str, reactor: Reactor, logs: Verbosity) -> None:
        self._path = path
        self._reactor = reactor
        server = GenericServer("debug", NotFound())
        server.app.include(Profiling(reactor, logs))
        site = Connections(server, reactor)
        site.run_by(RequestRunner(FilterChain([request_info], site.answer), reactor))
        self._site: Any = site
        self._port: IListeningPort | None = None

    def open(self) -> None:
        """Listens.  Replaces the socket file of a process that was killed.  Raises OSError and CannotListenError."""
        try:
            if not stat.S_ISSOCK(os.lstat(self._path).st_mode):
                raise FileExistsError(f"{self._path} is there and is no socket")
            os.unlink(self._path)
        except FileNotFoundError:
            pass
        self._port = self._reactor.listenUNIX(self._path, self._site, mode=0o600)

    async def close(self) -> None:
        if self._port is not None:
            port, self._port = self._port, None
            await maybeDeferred(port.stopListening)
