"""``kapi proxy``: a port on this machine that leads to the API server, with the user's credentials (upstream: ``pkg/proxy``)."""

from __future__ import annotations

import contextlib
import os
import stat
from urllib.parse import unquote, urlsplit

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import CannotListenError
from twisted.python.failure import Failure
from twisted.web.http import FORBIDDEN, INTERNAL_SERVER_ERROR, NOT_FOUND, NOT_IMPLEMENTED
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.messages import CommandError, listen_problem
from kapi.kubectl.static_files import StaticFiles, cleaned, moved, plain
from kapi.machinery.regexps import matches, pattern_error
from kapi.process.reactor import Reactor
from kapi.wire.transport import Stream

DEFAULT_PORT = 8001
FLAGS = (
    Flag("www", short="w", help="A directory whose files are served too."),
    Flag("www-prefix", short="P", default="/static/", help="The path below which those files are served."),
    Flag("api-prefix", default="/", help="The path below which the API is served."),
    Flag("accept-paths", default="^.*", help="Patterns of the paths that are sent on, separated by commas."),
    Flag(
        "reject-paths",
        default="^/api/.*/pods/.*/exec,^/api/.*/pods/.*/attach",
        help="Patterns of paths that are not sent on, separated by commas.",
    ),
    Flag(
        "accept-hosts",
        default=r"^localhost$,^127\.0\.0\.1$,^\[::1\]$",
        help="Patterns of the hosts that requests may be for, separated by commas.",
    ),
    Flag("reject-methods", default="^$", help="Patterns of methods that are not sent on, separated by commas."),
    Flag("port", "int", short="p", default=DEFAULT_PORT, help="The port to listen on; 0 for any that is free."),
    Flag(
        "address",
        default="127.0.0.1",
        help="Addresses to listen on, separated by commas; localhost is 127.0.0.1 and ::1.",
    ),
    Flag("disable-filter", "bool", help="Send all requests on. Pages of any site can then use the port."),
    Flag("unix-socket", short="u", help="A socket to listen on in place of a port."),
    Flag(
        "keepalive",
        "duration",
        default=0.0,
        help="Has no effect: the system decides when idle connections are checked.",
    ),
    Flag("append-server-path", "bool", help="Put the path of the kubeconfig's server before each path."),
)
HELP = Help(
    "[--port=PORT] [--www=DIRECTORY] [--api-prefix=PATH]",
    "Serves the API on a port of this machine, with the rights of the kubeconfig's user.",
    ("Serve the API on port 8001", "proxy"),
    ("On any free port, below /k8s/", "proxy --port=0 --api-prefix=/k8s/"),
)
_HOP = frozenset(
    [b"connection", b"host", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer"]
    + [b"transfer-encoding", b"upgrade", b"content-length"]
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    socket, port = flags.get_string("unix-socket"), flags.get_int("port")
    if port != DEFAULT_PORT and socket:
        raise CommandError("cannot set --unix-socket and --port at the same time")
    if not 0 <= port < 1 << 16:
        raise CommandError(f"listen tcp: address {port}: invalid port")
    factory.check_config()
    site = Site(Proxy(factory, None if flags.get_bool("disable-filter") else Filter.of_flags(factory)))
    place = _listen(factory.reactor, site, flags.get_string("address"), port, socket)
    factory.out.write(f"Starting to serve on {place}\n")
    factory.out.flush()
    await Deferred()  # serves until the user ends the command
    return 0


def _listen(reactor: Reactor, site: Site, address: str, port: int, socket: str) -> str:
    """Returns the address.  Raises CommandError."""
    try:
        if not socket:
            host = reactor.listenTCP(port, site, interface=address).getHost()  # type: ignore[arg-type]
            assert isinstance(host, IPv4Address | IPv6Address)
            return f"[{host.host}]:{host.port}" if ":" in host.host else f"{host.host}:{host.port}"
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.stat(socket).st_mode):
                os.remove(socket)
        reactor.listenUNIX(socket, site, mode=0o600)  # type: ignore[arg-type]
        return socket
    except CannotListenError as error:
        where = f"unix {socket}" if socket else f"tcp {address}:{port}"
        raise CommandError(listen_problem(where, error)) from None


class Filter:
    """The choice of forwarded requests, by patterns of paths, hosts and methods."""

    def __init__(self, accept_paths: str, reject_paths: str, accept_hosts: str, reject_methods: str) -> None:
        self._accept_paths, self._reject_paths = _patterns(accept_paths), _patterns(reject_paths)
        self._accept_hosts, self._reject_methods = _patterns(accept_hosts), _patterns(reject_methods)

    @classmethod
    def of_flags(cls, factory: Factory) -> Filter:
        """The filter of the flags.  Raises CommandError for an invalid pattern."""
        names = ("accept-paths", "reject-paths", "accept-hosts", "reject-methods")
        return cls(*(factory.flags.get_string(name) for name in names))

    def accepts(self, method: str, path: str, host: str) -> bool:
        if _matches(path, self._reject_paths) or _matches(method, self._reject_methods):
            return False
        return _matches(path, self._accept_paths) and _matches(host, self._accept_hosts)


def _patterns(text: str) -> list[str]:
    found = text.split(",") if text else []
    for pattern in found:
        if problem := pattern_error(pattern):
            raise CommandError(f"Error compiling re: {problem}", code=255)
    return found


def _matches(text: str, patterns: list[str]) -> bool:
    return any(matches(pattern, text) for pattern in patterns)


class Proxy(Resource):
    """Forwards requests; static files are below ``--www-prefix``."""

    isLeaf = True

    def __init__(self, factory: Factory, allowed: Filter | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        flags = factory.flags
        self._factory, self._allowed = factory, allowed
        self._prefix, self._static = (flags.get_string(name).rstrip("/") + "/" for name in ("api-prefix", "www-prefix"))
        directory = flags.get_string("www")
        self._files = StaticFiles(directory) if directory else None
        self._below = urlsplit(factory.config.host).path.rstrip("/") if flags.get_bool("append-server-path") else ""

    def render(self, request: Request) -> int | bytes:
        """Answers a request for a file, or forwards it."""
        method, path = request.method.decode(), unquote(request.path.decode())
        if path != (clean := cleaned(path)):
            return moved(request, clean)
        if self._files is not None and (path + "/" == self._static or path.startswith(self._static)):
            if path + "/" == self._static:
                return moved(request, self._static)
            return self._files.render(request, path[len(self._static) :])
        if path + "/" == self._prefix:
            return moved(request, self._prefix)
        if not path.startswith(self._prefix):
            return plain(request, NOT_FOUND, "404 page not found")
        if not self._prefix.startswith("/api"):
            path = "/" + path[len(self._prefix) :]
        host = request.getHeader("host") or ""
        host = host if host.endswith("]") else host.rpartition(":")[0] or host
        if self._allowed is not None and not self._allowed.accepts(method, path, host):
            return plain(request, FORBIDDEN, "Forbidden")
        if request.getHeader("upgrade"):
            return plain(request, NOT_IMPLEMENTED, "connections that change their protocol are not sent on")
        target = request.uri.decode()
        if not self._prefix.startswith("/api"):
            target = "/" + target[len(self._prefix) :]
        running = Deferred.fromCoroutine(self._send(request, method, self._below + target))
        request.notifyFinish().addErrback(lambda why: running.cancel())
        running.addErrback(_failed, request)
        return NOT_DONE_YET

    async def _send(self, request: Request, method: str, target: str) -> None:
        session = self._factory.session
        headers = [(b"User-Agent", request.getHeader(b"user-agent") or b"kapi-proxy")]
        headers += [(name, value) for name, value in session.headers if name != b"User-Agent"]
        headers += await session.credentials.headers()
        given = {name.lower() for name, _ in headers}
        for name, values in request.requestHeaders.getAllRawHeaders():
            if name.lower() not in _HOP and name.lower() not in given:
                headers += [(name, value) for value in values]
        body = request.content.read() or None if request.content is not None else None
        answer = await session.transport.request(method, target, headers, body, streaming=True)
        request.setResponseCode(answer.code)
        for name, values in answer.headers.getAllRawHeaders():
            if name.lower() not in _HOP or name.lower() == b"content-length" and answer.stream is not None:
                request.responseHeaders.setRawHeaders(name, values)
        if answer.stream is None:
            request.write(answer.body)
        else:
            await _copy(answer.stream, request)
        request.finish()


async def _copy(stream: Stream, request: Request) -> None:
    try:
        while data := await stream.read():
            request.write(data)
    finally:
        stream.close()


def _failed(why: Failure, request: Request) -> None:
    if why.check(CancelledError) or request.finished or request.channel is None:
        return
    if not request.startedWriting:
        request.write(plain(request, INTERNAL_SERVER_ERROR, str(why.value)))
    request.finish()
