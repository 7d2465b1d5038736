"""``--raw``: requests to a path that the user gives (upstream: kubectl ``rawhttp``)."""

from __future__ import annotations

import posixpath
import re
from typing import TextIO

from kapi.client.rest import Request
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flags
from kapi.kubectl.messages import CommandError
from kapi.kubectl.visitor import is_url

_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def raw_path(given: str) -> str:
    """Path and query, without ``.`` and ``..``.  Raises CommandError."""
    from urllib.parse import urlsplit

    parsed = urlsplit(given)
    problem = ""
    if not given.startswith("/") and not parsed.scheme:
        problem = "invalid URI for request"
    elif match := _ESCAPE.search(parsed.path):
        problem = f'invalid URL escape "{parsed.path[match.start() : match.start() + 3]}"'
    if problem:
        raise CommandError(f'--raw must be a valid URL path: parse "{given}": {problem}')
    path = posixpath.normpath(parsed.path or "/")
    if parsed.path.endswith("/") and path != "/":
        path += "/"
    return path + (f"?{parsed.query}" if parsed.query else "")


def check_raw(flags: Flags, *apart: str, optional_file: bool = False) -> None:
    """Raises CommandError for files, and for flags (``apart``), that do not go with ``--raw``."""
    files = flags.get_list("filename")
    if len(files) > 1 or not files and not optional_file:
        raise CommandError("--raw can only use a single local file or stdin")
    if files and is_url(files[0]):
        raise CommandError("--raw cannot read from a url")
    for name in apart:
        if flags[name]:
            shown = "selector (-l)" if name == "selector" else name
            raise CommandError(f"--raw and --{shown} are mutually exclusive")
    raw_path(flags.get_string("raw"))


async def send_raw(factory: Factory, request: Request) -> int:
    """Sends the file of ``-f`` to the path of ``--raw`` and prints the answer, both unchanged.  Raises CommandError."""
    request.abs_path(raw_path(factory.flags.get_string("raw")))
    if factory.flags.get_list("filename"):
        request.body(read_bytes(factory.flags.get_list("filename")[0], factory.stdin))
    factory.out.write((await request.raw()).decode())
    return 0


def read_bytes(source: str, stdin: TextIO) -> bytes:
    """The content of a file, or of stdin for ``-``.  Raises CommandError."""
    if source == "-":
        data = getattr(stdin, "buffer", stdin).read()
        return data.encode() if isinstance(data, str) else bytes(data)
    try:
        with open(source, "rb") as opened:
            return opened.read()
    except IsADirectoryError:
        raise CommandError(f"Unable to connect to the server: read {source}: is a directory", plain=True) from None
    except OSError as error:
        raise CommandError(f"open {source}: {str(error.strerror).lower()}") from None
