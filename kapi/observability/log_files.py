"""``/logs``: the files below /var/log (upstream: apiserver ``routes/logs.go``; deprecated there)."""

from __future__ import annotations

import html
import os
import stat
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from twisted.internet.defer import Deferred
from twisted.protocols.basic import FileSender
from twisted.python.failure import Failure

from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.http import HTTPRequest
from kapi.request.response import Response, StreamResponse
from kapi.serving.health import PLAIN
from kapi.serving.routing import Routes

DIRECTORY = Path("/var/log")
_HTML = b"text/html; charset=utf-8"
_NOSNIFF = ((b"x-content-type-options", b"nosniff"),)
_MAX_NAME_BYTES = 255  # bytes


class LogFiles:
    """Serves the files below a directory."""

    app = Routes()

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self._directory = directory

    @app.route("/logs", branch=True)
    def handle(self, ctx: RequestContext) -> Response | StreamResponse:
        if ctx.method not in ("GET", "HEAD"):
            raise status.method_not_allowed()
        parts = [part for part in ctx.path.split("/")[2:] if part]
        if ".." in parts or any("\0" in part for part in parts):
            return Response(400, b"invalid URL path\n", PLAIN, _NOSNIFF)
        if any(len(os.fsencode(part)) > _MAX_NAME_BYTES for part in parts):
            return Response(404, b"file not found\n", PLAIN, _NOSNIFF)
        try:
            return self._answer(ctx, self._directory.joinpath(*parts))
        except PermissionError:
            return Response(403, b"403 Forbidden\n", PLAIN, _NOSNIFF)
        except OSError:  # no such file, or a part of the path is no directory
            return Response(404, b"404 page not found\n", PLAIN, _NOSNIFF)

    def _answer(self, ctx: RequestContext, path: Path) -> Response | StreamResponse:
        if path.is_dir():
            if not ctx.path.endswith("/"):
                place = f"{quote(ctx.path.rpartition('/')[2])}/".encode()
                return Response(301, b"", _HTML, ((b"location", place),))
            return Response(200, _listing(path), _HTML)
        _opened(path).close()
        if ctx.method == "HEAD":
            return Response(200, b"", PLAIN, _NOSNIFF)
        return StreamResponse(lambda http: _send(_opened(path), http), 200, PLAIN, _NOSNIFF)


def _opened(path: Path) -> BinaryIO:
    """A regular file, opened.  Raises OSError, also when it is not regular."""
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # non-blocking, as it may be a pipe
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise FileNotFoundError(path)
    return file


def _listing(directory: Path) -> bytes:
    with os.scandir(directory) as entries:
        names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in entries)
    rows = "".join(f'<a href="{quote(name)}">{html.escape(name)}</a>\n' for name in names)
    return f"<!doctype html>\n<pre>\n{rows}</pre>\n".encode("utf-8", "surrogateescape")


def _send(file: BinaryIO, http: HTTPRequest) -> Deferred[None]:
    """Sends the file as fast as the client reads; fires at the end."""
    sending: Deferred[object] = FileSender().beginFileTransfer(file, http)

    def ended(result: object) -> None:
        file.close()
        if not isinstance(result, Failure):
            http.finish()
        elif not http.gone:
            http.abort()

    return sending.addBoth(ended)
