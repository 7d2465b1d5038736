"""Kubeconfig files of webhooks: server, authorities, credentials (upstream: client-go ``tools/clientcmd``)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kapi.client.config_error import ConfigError
from kapi.client.kubeconfig_entries import Entries, check_one_method, read_content, read_entries, read_pem
from kapi.client.rest_url import rest_url, server_url
from kapi.machinery.tree import Object


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Credentials:
    """Credentials for a server: a bearer token, a name and password, a client certificate (PEM).

    They compare by identity, since each user of a file has separate connections.
    """

    token: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The ``Authorization`` header, if there is a token or a name."""
        if self.token:
            return [(b"Authorization", b"Bearer " + self.token.encode())]
        if self.username:
            pair = base64.b64encode(f"{self.username}:{self.password}".encode())
            return [(b"Authorization", b"Basic " + pair)]
        return []


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint(Credentials):
    """A server and the credentials for it.  ``ca`` is PEM; without it the system's authorities are trusted.

    Nothing is verified or encrypted when the URL's scheme is http, as in client-go.

    ``insecure``: the server's certificate is not verified.
    """

    url: str
    ca: bytes = b""
    insecure: bool = False
    server_name: str = ""


def load_kubeconfig(path: str) -> Endpoint:
    """The server and user of the current context of a file.  Raises ConfigError."""
    entries = _read(path)
    context = _named(entries.contexts, entries.current_context, "context", path)
    cluster = _named(entries.clusters, context.get("cluster") or "", "cluster", path)
    name = context.get("user") or ""
    user = _named(entries.users, name, "user", path) if name else {}
    base = Path(path).resolve().parent
    insecure = bool(cluster.get("insecure-skip-tls-verify"))
    ca = read_pem(cluster, "certificate-authority", base, path, context.get("cluster") or "")
    if ca and insecure:
        raise ConfigError("specifying a root certificates file with the insecure flag is not allowed", file=path)
    own = _credentials(name, user, base, path)
    try:
        url = rest_url(server_url(cluster.get("server") or "", tls=bool(ca or insecure or own["certificate"])))
    except ValueError as error:
        raise ConfigError(str(error), file=path) from None
    return Endpoint(url=url, ca=ca, insecure=insecure, server_name=cluster.get("tls-server-name") or "", **own)


def load_users(path: str) -> dict[str, Credentials]:
    """The credentials of each user of a file, by the user's name; "*" is the current context's user, unless a user has this name.

    Raises ConfigError.
    """
    base = Path(path).resolve().parent
    entries = _read(path)
    found = {name: Credentials(**_credentials(name, user, base, path)) for name, user in entries.users.items()}
    current = entries.contexts.get(entries.current_context, {}).get("user")
    if current in found:
        found.setdefault("*", found[current])
    return found


def _read(path: str) -> Entries:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(error.strerror or str(error), file=path) from None
    return read_entries(data, path)


def _credentials(name: str, user: Object, base: Path, path: str) -> Object:
    """The fields of Credentials.  As in client-go, ``tokenFile`` takes precedence over ``token``."""
    for method in ("exec", "auth-provider"):
        if user.get(method):
            raise ConfigError(f"credentials by {method} are not supported", file=path, field=f"users[{name}]")
    token, username, password = (user.get(field) or "" for field in ("token", "username", "password"))
    check_one_method(name, token, username, password, path)
    if user.get("tokenFile"):
        token = read_content(base, user["tokenFile"], "tokenFile", path, name).decode("utf-8", "replace").strip()
    return {
        "token": token,
        "username": username,
        "password": password,
        "certificate": read_pem(user, "client-certificate", base, path, name),
        "key": read_pem(user, "client-key", base, path, name),
    }


def _named(entries: Mapping[str, Object], name: str, what: str, path: str) -> Object:
    """The entry of a name; the only entry when no name is given."""
    if not name and len(entries) == 1:
        return next(iter(entries.values()))
    if name not in entries:
        raise ConfigError(f'{what} "{name}" does not exist', file=path)
    return entries[name]
