"""Kubeconfig files as clients of webhooks read them: server, trust, credentials (upstream: client-go ``clientcmd``)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kapi.codecs import yaml_reading

Object = dict[str, Any]


class KubeconfigError(ValueError):
    """A file that cannot be used; ``str(error)`` says why and never quotes a credential."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server to call and what to show it.

    ``ca``, ``certificate`` and ``key`` are PEM; no ``ca`` trusts the system's.
    """

    url: str
    ca: bytes = b""
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    server_name: str = ""
    token: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)


def load_kubeconfig(path: str) -> Endpoint:
    """The current context of a file.  Raises KubeconfigError."""
    try:
        tree, _ = yaml_reading.loads(Path(path).read_bytes())
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise KubeconfigError(f"{path}: {error}") from None
    if not isinstance(tree, dict):
        raise KubeconfigError(f"{path}: no kubeconfig")
    context = _named(tree, "contexts", "context", tree.get("current-context") or "", path)
    cluster = _named(tree, "clusters", "cluster", context.get("cluster") or "", path)
    user = _named(tree, "users", "user", context["user"], path) if context.get("user") else {}
    server = cluster.get("server") or ""
    if not server.startswith("https://"):
        raise KubeconfigError(f"{path}: the server of a webhook must be an https URL")
    if cluster.get("insecure-skip-tls-verify"):
        raise KubeconfigError(f"{path}: insecure-skip-tls-verify is not supported; name a certificate-authority")
    base = Path(path).resolve().parent
    token = user.get("token") or ""
    if not token and user.get("tokenFile"):
        token = _file(base, user["tokenFile"], "tokenFile", path).decode("utf-8", "replace").strip()
    return Endpoint(
        url=server,
        ca=_pem(cluster, "certificate-authority", base, path),
        certificate=_pem(user, "client-certificate", base, path),
        key=_pem(user, "client-key", base, path),
        server_name=cluster.get("tls-server-name") or "",
        token=token,
        username=user.get("username") or "",
        password=user.get("password") or "",
    )


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
