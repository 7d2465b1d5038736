"""Credentials for webhooks, from the kubeconfig that an AdmissionConfiguration names (upstream: ``util/webhook/authentication.go``)."""  # noqa: E501

from __future__ import annotations

import base64
import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Credentials:
    """What kapi shows a webhook: a bearer token, a name and password, or a client certificate (PEM).  Told apart by
    identity: each user of a kubeconfig has connections of its own."""

    token: str = ""
    username: str = ""
    password: str = ""
    certificate: bytes = b""
    key: bytes = b""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        if self.token:
            return [(b"Authorization", b"Bearer " + self.token.encode())]
        if self.username:
            pair = base64.b64encode(f"{self.username}:{self.password}".encode())
            return [(b"Authorization", b"Basic " + pair)]
        return []


NOBODY = Credentials()


class CredentialStore:
    """Users of a kubeconfig by the host they are for: ``host:port``, ``host``, ``*.suffix`` or ``*``."""

    def __init__(self, users: Mapping[str, Credentials] | None = None) -> None:
        self._users = dict(users or {})

    @classmethod
    def load(cls, path: str) -> CredentialStore:
        """Reads a kubeconfig.  Raises OSError and ValueError."""
        base = Path(path).parent
        document = yaml.safe_load(Path(path).read_text()) or {}
        users: dict[str, Credentials] = {}
        for entry in document.get("users") or ():
            user = entry.get("user") or {}

            def content(name: str, user: Object = user) -> bytes:
                if user.get(f"{name}-data"):
                    return base64.b64decode(user[f"{name}-data"])
                file = user.get(name)
                return (base / file).read_bytes() if file else b""

            token = user.get("token") or ""
            if user.get("tokenFile"):
                token = (base / user["tokenFile"]).read_text().strip()
            users[entry.get("name", "")] = Credentials(
                token,
                user.get("username") or "",
                user.get("password") or "",
                content("client-certificate"),
                content("client-key"),
            )
        return cls(users)

    def for_host(self, host: str, port: int) -> Credentials:
        if not self._users:
            return NOBODY
        names = [f"{host}:{port}", host] if port == 443 else [f"{host}:{port}"]
        for name in names:
            if name in self._users:
                return self._users[name]
        wild = sorted((name for name in self._users if name.startswith("*.")), key=len, reverse=True)
        for pattern in wild:
            if any(fnmatch.fnmatchcase(name, pattern) for name in names):
                return self._users[pattern]
        return self._users.get("*", NOBODY)
