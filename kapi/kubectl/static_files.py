"""The files that ``kapi proxy`` serves (upstream: Go ``net/http`` ``FileServer`` and ``ServeMux``)."""

from __future__ import annotations

import html
import mimetypes
import os
import posixpath
from typing import BinaryIO
from urllib.parse import quote

from twisted.internet.defer import Deferred
from twisted.protocols.basic import FileSender
from twisted.web.http import MOVED_PERMANENTLY, NOT_FOUND, TEMPORARY_REDIRECT
from twisted.web.server import NOT_DONE_YET, Request

_INDEX = "index.html"


def path_escaped(path: str) -> str:
    return quote(path, safe="/$&+,:;=@")


def cleaned(path: str) -> str:
    """The path without doubled slashes and dot segments; a slash at its end stays."""
    clean = posixpath.normpath("/" + path.lstrip("/"))
    return clean + "/" if path.endswith("/") and clean != "/" else clean


def moved(request: Request, path: str) -> bytes:
    """The answer of the path's clean form."""
    query = request.uri.partition(b"?")[2]
    place = path_escaped(path).encode() + (b"?" + query if query else b"")
    request.setResponseCode(TEMPORARY_REDIRECT)
    request.setHeader("Location", place)
    request.setHeader("Content-Type", "text/html; charset=utf-8")
    return b'<a href="%s">Temporary Redirect</a>.\n\n' % html.escape(place.decode()).encode()


def plain(request: Request, code: int, text: str) -> bytes:
    request.setResponseCode(code)
    request.setHeader("Content-Type", "text/plain; charset=utf-8")
    return f"{text}\n".encode()


class StaticFiles:
    """The files below a directory, where links do not lead out of it."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.realpath(directory)

    def render(self, request: Request, name: str) -> int | bytes:
        """``name`` is the rest of a clean path."""
        path = os.path.realpath(os.path.join(self._directory, name))
        if os.path.commonpath((path, self._directory)) != self._directory or not os.path.exists(path):
            return plain(request, NOT_FOUND, "404 page not found")
        last = name.rstrip("/").rpartition("/")[2]
        if last == _INDEX:
            return _elsewhere(request, "./")
        if os.path.isdir(path):
            if name and not name.endswith("/"):
                return _elsewhere(request, f"{last}/")
            if not os.path.isfile(index := os.path.join(path, _INDEX)):
                request.setHeader("Content-Type", "text/html; charset=utf-8")
                return _listing(path)
            path = index
        elif name.endswith("/"):
            return _elsewhere(request, f"../{last}")
        if not os.path.isfile(path):
            return plain(request, NOT_FOUND, "404 page not found")
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        request.setHeader("Content-Type", f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)
        return _send(request, open(path, "rb"))


def _send(request: Request, file: BinaryIO) -> int | bytes:
    found = os.fstat(file.fileno())
    request.setHeader("Content-Length", str(found.st_size))
    if request.setLastModified(found.st_mtime) or request.method == b"HEAD":
        file.close()
        return b""
    sending: Deferred[object] = FileSender().beginFileTransfer(file, request)

    def done(_: object) -> None:
        file.close()
        if request.channel is not None:
            request.finish()

    sending.addBoth(done)
    return NOT_DONE_YET


def _elsewhere(request: Request, place: str) -> bytes:
    """Relative, since the program may be behind another proxy."""
    request.setResponseCode(MOVED_PERMANENTLY)
    request.setHeader("Location", path_escaped(place))
    return b""


def _text(name: str) -> str:
    return html.escape(name).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


def _listing(directory: str) -> bytes:
    with os.scandir(directory) as entries:
        names = sorted(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries)
    rows = "".join(f'<a href="{html.escape(path_escaped(name))}">{_text(name)}</a>\n' for name in names)
    head = '<!doctype html>\n<meta name="viewport" content="width=device-width">\n'
    return f"{head}<pre>\n{rows}</pre>\n".encode("utf-8", "surrogateescape")
