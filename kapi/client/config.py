"""The configuration of a client: server, trusted authorities, credentials (upstream: client-go ``rest.Config``).

``kapi.client.clientcmd`` reads one from kubeconfig files, ``kapi.client.incluster`` from the files of a Pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from kapi.client.config_error import ConfigError as ConfigError
from kapi.client.credentials import NO_CREDENTIALS, Authenticator

DEFAULT_USER_AGENT = "kapi-client"
PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
DEFAULT_QPS, DEFAULT_BURST = 5.0, 10  # client-go's
DEFAULT_BACKOFF_MAX = 120.0  # seconds


def without_user(url: str) -> str:
    """A URL, which may be invalid, without user and password."""
    before, at, after = url.rpartition("@")
    return f"{before.partition('//')[0]}//{after}" if at else url


def proxy_problem(url: str) -> str:
    """What is wrong with the URL of a proxy; "" when it is usable."""
    try:
        parsed = urlsplit(url)
    except ValueError:
        return f"could not parse: {without_user(url)}"
    if url.startswith(":") or not _has_port(parsed) or "%" in parsed.netloc or " " in parsed.netloc:
        return f"could not parse: {without_user(url)}"
    return (
        ""
        if parsed.scheme in PROXY_SCHEMES
        else f'unsupported scheme "{parsed.scheme}", must be http, https, or socks5'
    )


def _has_port(parsed: SplitResult) -> bool:
    """Whether the port, if there is one, is a number of 16 bits."""
    try:
        return parsed.port is None or parsed.port >= 0
    except ValueError:
        return False


class Impersonation(NamedTuple):
    """The user on whose behalf requests are made; the owner of the credentials needs permission to impersonate it."""

    user: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Config:
    """``host``: an http or https URL; its path is prefixed to the path of each request.  ``ca`` and ``certificate``/``key`` are
    PEM; without ``ca`` the system's authorities are trusted.  ``qps``: requests per second, 0 for no limit.

    ``backoff_base``: seconds to wait after an answer of 429 or 5xx, doubled after each further one up to ``backoff_max``; 0 for
    none.  ``timeout``: seconds for a request that is not a watch, 0 for no limit.  Raises ConfigError.
    """

    host: str
    namespace: str = "default"
    ca: bytes = b""
    server_name: str = ""
    insecure: bool = False
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    credentials: Authenticator = NO_CREDENTIALS
    impersonate: Impersonation = Impersonation()
    proxy_url: str = ""
    user_agent: str = DEFAULT_USER_AGENT
    qps: float = DEFAULT_QPS
    burst: int = DEFAULT_BURST
    backoff_base: float = 0.0
    backoff_max: float = DEFAULT_BACKOFF_MAX
    timeout: float = 0.0

    def __post_init__(self) -> None:
        parsed = urlsplit(self.host)
        if parsed.scheme not in ("http", "https") or not parsed.netloc or not _has_port(parsed):
            raise ConfigError(f'must be an http or https URL, not "{self.host}"', field="host")
        if self.insecure and self.ca:
            raise ConfigError("specifying a root certificates file with the insecure flag is not allowed", field="ca")
        if bool(self.certificate) != bool(self.key):
            raise ConfigError("certificate and key go together", field="key" if self.certificate else "certificate")
        if self.proxy_url and (why := proxy_problem(self.proxy_url)):
            raise ConfigError(why, field="proxy_url")

    def replace(self, **changes: object) -> Config:
        """A copy with other values.  Raises ConfigError."""
        return replace(self, **changes)  # type: ignore[arg-type]  # checked where it is called, by __init__
