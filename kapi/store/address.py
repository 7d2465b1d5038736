"""The address of a store: its URL, and the Twisted endpoints made from it.

::

    unix:///run/valkey.sock?db=1            redis://user:password@host:6379/1
    rediss://host:6380/0?ca=ca.pem&cert=c.pem&key=k.pem        TLS; the certificate is always verified
    redis+sentinel://host1:26379,host2:26379/mymaster/0        (rediss+sentinel: TLS to Sentinels and server)

``password-file=`` in the query keeps the password out of the command line.  Sentinels that require a password get the one in
``sentinel-password-file=`` (with ``sentinel-username=``), else the server's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from twisted.internet.endpoints import HostnameEndpoint, UNIXClientEndpoint, wrapClientTLS
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IReactorTime, IStreamClientEndpoint

from kapi.machinery.tree import Object
from kapi.store.errors import UnsuitableStore

Dial = Callable[[Any, str, int], IStreamClientEndpoint]  # reactor, host, port
_TLS_QUERY = {"ca", "cert", "key", "server-name"}
_QUERY = {"db", "password-file"} | _TLS_QUERY
_SENTINEL_QUERY = {"sentinel-username", "sentinel-password-file"}
OPTIONS = _QUERY | _SENTINEL_QUERY
_PASSWORD = re.compile(r"(://[^/:@]*):[^/]*@")  # it may contain an @ itself
_SCHEMES = {"unix", "redis", "rediss", "redis+sentinel", "rediss+sentinel"}


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL.  ``str`` of it is safe to log."""

    path: str = ""  # unix socket
    hosts: tuple[tuple[str, int], ...] = ()  # one server, or the Sentinels
    master: str = ""  # Sentinel's name of the service
    database: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    ca: str = ""
    cert: str = ""
    key: str = ""
    server_name: str = ""
    sentinel_username: str = ""
    sentinel_password: str = field(default="", repr=False)
    password_file: str = ""  # read again for each connection, so that a password can be changed
    sentinel_password_file: str = ""
    #: makes the endpoint for a host and a port; None: connect directly
    dial: Dial | None = field(default=None, compare=False)

    @property
    def login(self) -> tuple[str, ...]:
        """The arguments of AUTH for the server; empty without a user and a password."""
        password = _password(self.password_file, self.password)
        return (self.username, password) if self.username else (password,) if password else ()

    @property
    def sentinel_login(self) -> tuple[str, ...]:
        """The arguments of AUTH for a Sentinel; empty without a password."""
        password = _password(self.sentinel_password_file, self.sentinel_password)
        if not password:
            return self.login if self.password else ()
        return (self.sentinel_username, password) if self.sentinel_username else (password,)

    def __str__(self) -> str:
        if self.path:
            return f"unix://{self.path}"
        scheme = ("rediss" if self.tls else "redis") + ("+sentinel" if self.master else "")
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"{scheme}://{hosts}" + (f"/{self.master}" if self.master else "")

    def endpoint(self, reactor: IReactorTime, host: str = "", port: int = 0) -> Any:
        """The IStreamClientEndpoint of the server (or of the one a Sentinel named).

        Raises UnsuitableStore for unreadable TLS files.
        """
        if self.path:
            return UNIXClientEndpoint(reactor, self.path, timeout=5)
        if not host:
            host, port = self.hosts[0]
        if self.dial is not None:
            plain = self.dial(reactor, host, port)
        else:
            plain = HostnameEndpoint(reactor, host.encode("ascii"), port, timeout=5)
        return wrapClientTLS(self._tls_options(host), plain) if self.tls else plain

    def _tls_options(self, host: str) -> IOpenSSLClientConnectionCreator:
        from kapi.store.tls import client_options  # imported only when it is used

        try:
            return client_options(self.server_name or host, self.ca, self.cert, self.key)
        except Exception as error:
            raise UnsuitableStore(f"{self}: TLS files cannot be used: {error}") from error


def without_passwords(text: str) -> str:
    """The text with the passwords of the URLs in it masked."""
    return _PASSWORD.sub(r"\1:***@", text)


def _password(path: str, known: str) -> str:
    """The password in the file; when it cannot be read, the password at the start."""
    if not path:
        return known
    try:
        return Path(path).read_text().strip()
    except OSError:
        return known


def parse(url: str) -> Address:
    """The address of a URL.  Raises ValueError, whose text never contains a password."""
    parts = urlsplit(url)
    scheme = parts.scheme
    if scheme not in _SCHEMES:
        raise ValueError(f"unknown scheme {scheme!r}: one of {', '.join(sorted(_SCHEMES))}")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = OPTIONS if scheme.endswith("+sentinel") else _QUERY
    unknown = set(query) - known
    if unknown:
        raise ValueError(f"unknown option {min(unknown)!r}: one of {', '.join(sorted(known))}")
    tls = scheme.startswith("rediss")
    if not tls and _TLS_QUERY & set(query):
        raise ValueError(f"{min(_TLS_QUERY & set(query))}= is for TLS: use rediss:// or rediss+sentinel://")
    if "key" in query and "cert" not in query:
        raise ValueError("key= needs cert=")
    login, at, where = parts.netloc.rpartition("@")
    username, _, password = login.partition(":") if at else ("", "", "")
    username, password = unquote(username), unquote(password)
    if "password-file" in query:
        password = _read("password-file", query)
    common: Object = {
        "username": username,
        "password": password,
        "tls": tls,
        "ca": query.get("ca", ""),
        "cert": query.get("cert", ""),
        "key": query.get("key", ""),
        "server_name": query.get("server-name", ""),
        "sentinel_username": query.get("sentinel-username", ""),
        "sentinel_password": _read("sentinel-password-file", query) if "sentinel-password-file" in query else "",
        "password_file": query.get("password-file", ""),
        "sentinel_password_file": query.get("sentinel-password-file", ""),
    }
    if scheme == "unix":
        path = unquote(where + parts.path)
        if not path.startswith("/"):
            raise ValueError("unix:// needs an absolute path")
        return Address(path=path, database=_number("db", query.get("db", "0")), **common)
    segments = [unquote(segment) for segment in parts.path.split("/") if segment]
    sentinel = scheme.endswith("+sentinel")
    master = ""
    if sentinel:
        if not segments:
            raise ValueError("the name of the Sentinel service is missing: redis+sentinel://host:26379/NAME")
        master = segments.pop(0)
    if len(segments) > 1:
        raise ValueError("too many path segments")
    database = _number("db", segments[0] if segments else query.get("db", "0"))
    hosts = tuple(_host(item, 26379 if sentinel else 6379) for item in where.split(","))
    if len(hosts) > 1 and not sentinel:
        raise ValueError("several hosts make sense with redis+sentinel:// only")
    return Address(hosts=hosts, master=master, database=database, **common)


def _read(name: str, query: dict[str, str]) -> str:
    try:
        return Path(query[name]).read_text().strip()
    except OSError as error:
        raise ValueError(f"{name}: {error}") from None


def _host(text: str, default: int) -> tuple[str, int]:
    split = urlsplit("//" + text)
    if not split.hostname:
        raise ValueError("the host is missing")
    return split.hostname, split.port or default


def _number(name: str, text: str) -> int:
    if not text.isdigit():
        raise ValueError(f"{name} must be a number")
    return int(text)
