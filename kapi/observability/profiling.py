"""``/debug/pprof/`` and ``/debug/flags/v`` (upstream: apiserver ``server/routes/{profiling,flags}.go``, Go's net/http/pprof)."""

from __future__ import annotations

import sys
import threading
import time
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from kapi.machinery import status
from kapi.machinery.golang import NumberError, parse_int
from kapi.observability.profile import Sampler, encode
from kapi.process.reactor import Reactor
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.routing import Routes
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
        finally:  # also when the client goes
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
