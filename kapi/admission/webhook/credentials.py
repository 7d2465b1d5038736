"""Credentials for webhooks, from the kubeconfig that an AdmissionConfiguration names (upstream: ``util/webhook/authentication.go``)."""  # noqa: E501

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

from kapi.client.kubeconfig import Credentials, load_users

NO_CREDENTIALS = Credentials()


class CredentialStore:
    """Users of a kubeconfig by host: ``host:port``, ``host``, ``*.suffix`` or ``*``."""

    def __init__(self, users: Mapping[str, Credentials] | None = None) -> None:
        self._users = dict(users or {})

    @classmethod
    def load(cls, path: str) -> CredentialStore:
        """Reads a kubeconfig.  Raises kapi.client.config_error.ConfigError."""
        return cls(load_users(path))

    def for_host(self, host: str, port: int) -> Credentials:
        if not self._users:
            return NO_CREDENTIALS
        names = [f"{host}:{port}", host] if port == 443 else [f"{host}:{port}"]
        for name in names:
            if name in self._users:
                return self._users[name]
        wild = sorted((name for name in self._users if name.startswith("*.")), key=len, reverse=True)
        for pattern in wild:
            if any(fnmatch.fnmatchcase(name, pattern) for name in names):
                return self._users[pattern]
        return self._users.get("*", NO_CREDENTIALS)
