"""Kubeconfig files as clients of webhooks read them: server, trust, credentials (upstream: client-go ``clientcmd``)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from pathlib import Path

from kapi.client.rest_url import rest_url
from kapi.machinery.tree import Object


class KubeconfigError(ValueError):
    """A file that cannot be used; ``str(error)`` says why and never quotes a credential."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Credentials:
    """What is shown to a server: a bearer token, a name and password, a client certificate (PEM).

    Told apart by identity: each user of a file has connections of its own.
    """

    token: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """``Authorization``, when there is anything to put into it."""
        if self.token:
            return [(b"Authorization", b"Bearer " + self.token.encode())]
        if self.username:
            pair = base64.b64encode(f"{self.username}:{self.password}".encode())
            return [(b"Authorization", b"Basic " + pair)]
        return []


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint(Credentials):
    """A server to call and what to show it.  ``ca`` is PEM; without it the system's authorities are trusted.

    ``anybody``: the server's certificate is not verified.
    """

    url: str
    ca: bytes = b""
    anybody: bool = False
    server_name: str = ""


def load_kubeconfig(path: str) -> Endpoint:
    """The current context of a file.  Raises KubeconfigError."""
    tree = _document(path)
    context = _named(tree, "contexts", "context", tree.get("current-context") or "", path)
    cluster = _named(tree, "clusters", "cluster", context.get("cluster") or "", path)
    user = _named(tree, "users", "user", context["user"], path) if context.get("user") else {}
    server = cluster.get("server") or ""
    if not server.startswith("https://"):
        raise KubeconfigError(f"{path}: the server of a webhook must be an https URL")
    base = Path(path).resolve().parent
    ca, anybody = _pem(cluster, "certificate-authority", base, path), cluster.get("insecure-skip-tls-verify") is True
    if ca and anybody:
        raise KubeconfigError(f"{path}: specifying a root certificates file with the insecure flag is not allowed")
    try:
        url = rest_url(server)
    except ValueError as error:
        raise KubeconfigError(f"{path}: {error}") from None
    return Endpoint(
        url=url,
        ca=ca,
        anybody=anybody,
        server_name=cluster.get("tls-server-name") or "",
        **_credentials(user, base, path),
    )


def load_users(path: str) -> dict[str, Credentials]:
    """What each user of a file shows, by the user's name.  Raises KubeconfigError."""
    base = Path(path).resolve().parent
    users = [user for user in _document(path).get("users") or () if isinstance(user, dict)]
    return {user.get("name", ""): Credentials(**_credentials(user.get("user") or {}, base, path)) for user in users}


def _document(path: str) -> Object:
    from kapi.codecs import yaml_reading  # for those alone who use it

    try:
        tree, _ = yaml_reading.loads(Path(path).read_bytes())
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise KubeconfigError(f"{path}: {error}") from None
    if not isinstance(tree, dict):
        raise KubeconfigError(f"{path}: no kubeconfig")
    return tree


def _credentials(user: Object, base: Path, path: str) -> Object:
    """The fields of Credentials.  Like client-go, a token's file counts before the token."""
    for name in ("exec", "auth-provider"):
        if user.get(name):
            raise KubeconfigError(f"{path}: credentials by {name} are not supported")
    token = user.get("token") or ""
    if user.get("tokenFile"):
        token = _file(base, user["tokenFile"], "tokenFile", path).decode("utf-8", "replace").strip()
    return {
        "token": token,
        "username": user.get("username") or "",
        "password": user.get("password") or "",
        "certificate": _pem(user, "client-certificate", base, path),
        "key": _pem(user, "client-key", base, path),
    }


def _named(tree: Object, plural: str, singular: str, name: str, path: str) -> Object:
    items = [item for item in tree.get(plural) or () if isinstance(item, dict)]
    if not name and len(items) == 1:
        name = items[0].get("name", "")
    for item in items:
        if item.get("name") == name:
            found: Object = item.get(singular) or {}
            return found
    raise KubeconfigError(f'{path}: {singular} "{name}" does not exist')


def _pem(source: Object, name: str, base: Path, path: str) -> bytes:
    """Data wins over the file."""
    data, file = source.get(f"{name}-data"), source.get(name)
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise KubeconfigError(f"{path}: {name}-data: {error}") from None
    return _file(base, file, name, path) if file else b""


def _file(base: Path, file: str, name: str, path: str) -> bytes:
    try:
        return (base / file).read_bytes()
    except OSError as error:
        raise KubeconfigError(f"{path}: {name}: {error.strerror}: {file}") from None
