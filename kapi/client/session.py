"""The common parts of clients with one configuration: transport, credentials, rate limit, and the handling of warnings.

Upstream: client-go ``rest.HTTPClientFor``, ``rest/warnings.go`` (RFC 7234).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import quote

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.client.config import Config, ConfigError
from kapi.client.credentials import NO_CREDENTIALS, Authenticator, Header
from kapi.client.limiter import Backoff, TokenBucket
from kapi.machinery.gvk import GroupVersion
from kapi.process.reactor import Reactor, installed_reactor
from kapi.wire.transport import Transport

_WARNING = re.compile(r'(\d{3})\s+(\S+)\s+"((?:[^"\\]|\\.)*)"(?:\s+"[^"]*")?\s*,?')
#: called with code, agent and text of each warning
WarningHandler = Callable[[int, str, str], None]
log = Logger()


def log_warning(code: int, agent: str, text: str) -> None:
    log.warn("the server warns: {text}", text=text)


def parse_warnings(value: str) -> list[tuple[int, str, str]]:
    """Code, agent and text of each warning in a Warning header; malformed ones are left out."""
    return [(int(match[1]), match[2], re.sub(r"\\(.)", r"\1", match[3])) for match in _WARNING.finditer(value)]


def connect(config: Config, reactor: Reactor) -> Transport:
    """The transport of a Config, for any number of RESTClients."""
    from kapi.client.connections import Connections, connector

    return Connections(reactor, config.host, connector(reactor, config))


class Session:
    """The common parts of all RESTClients of one Config: transport, credentials, limit, headers."""

    def __init__(
        self,
        reactor: IReactorTime,
        transport: Transport,
        *,
        credentials: Authenticator = NO_CREDENTIALS,
        headers: Sequence[Header] = (),
        limiter: TokenBucket | None = None,
        backoff: Backoff | None = None,
        timeout: float = 0.0,
        warnings: WarningHandler = log_warning,
    ) -> None:
        self.reactor, self.transport, self.credentials = reactor, transport, credentials
        self.headers, self.limiter, self.backoff = list(headers), limiter, backoff
        self.timeout, self.warnings = timeout, warnings

    @classmethod
    def for_config(
        cls,
        config: Config,
        reactor: Reactor | None = None,
        *,
        transport: Transport | None = None,
        warnings: WarningHandler = log_warning,
    ) -> Session:
        reactor = reactor or installed_reactor()
        return cls(
            reactor,
            transport or connect(config, reactor),
            credentials=config.credentials,
            headers=_constant_headers(config),
            limiter=TokenBucket(reactor, config.qps, config.burst) if config.qps > 0 else None,
            backoff=Backoff(reactor, config.backoff_base, config.backoff_max) if config.backoff_base > 0 else None,
            timeout=config.timeout,
            warnings=warnings,
        )

    async def throttle(self, limited: bool = True) -> None:
        """Waits until a request may be sent.  ``limited``: the client's rate limit counts; the backoff always counts."""
        if self.backoff is not None:
            await self.backoff.wait()
        if limited and self.limiter is not None:
            await self.limiter.wait()

    def rejected(self) -> bool:
        """Called after a 401.  Returns whether the request should be sent once more with new credentials."""
        again = self.credentials.rejected()
        if again and hasattr(self.transport, "forget"):
            self.transport.forget()
        return again

    def close(self) -> Deferred[None]:
        return self.transport.close()


def _constant_headers(config: Config) -> list[Header]:
    found: list[Header] = [(b"User-Agent", config.user_agent.encode())]
    who = config.impersonate
    if who.user:
        found.append((b"Impersonate-User", who.user.encode()))
        if who.uid:
            found.append((b"Impersonate-Uid", who.uid.encode()))
        found.extend((b"Impersonate-Group", group.encode()) for group in who.groups)
        for key, values in who.extra.items():
            name = b"Impersonate-Extra-" + quote(key, safe="").encode()
            found.extend((name, value.encode()) for value in values)
    elif who.uid or who.groups or who.extra:
        raise ConfigError("requesting uid, groups or user-extra without impersonating a user", field="impersonate")
    return found


def base_path(group_version: str) -> str:
    """``/api/v1`` or ``/apis/apps/v1``."""
    parsed = GroupVersion.parse(group_version)
    return f"/apis/{parsed}" if parsed.group else f"/api/{parsed.version}"
