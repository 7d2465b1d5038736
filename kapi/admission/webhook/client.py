"""HTTPS calls to webhooks: one pool of kept connections per target, verified names, bounded time and size.

A redirect is followed by https.  Names are checked by service-identity; the trust roots are the configuration's caBundle, or the
system's without one.  Credentials come from the kubeconfig that an AdmissionConfiguration names.
Upstream: ``util/webhook/client.go``, ``util/webhook/authentication.go``.
"""

from __future__ import annotations

import base64
import fnmatch
import functools
import math
from collections import OrderedDict
from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from twisted.internet import defer
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.threads import deferToThreadPool

from kapi.admission.webhook.resolver import ServiceError, ServiceResolver
from kapi.client import metrics
from kapi.client.answers import decoded
from kapi.client.kubeconfig import Credentials, load_users
from kapi.client.rest_url import rest_path, rest_url
from kapi.codecs import json_pieces
from kapi.machinery.golang import quote
from kapi.machinery.importing import import_all, missing
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object, Tree
from kapi.process.reactor import Reactor
from kapi.wire.answer import AnswerTooLarge, BadAnswer, BrokenBody
from kapi.wire.dial import Dialer
from kapi.wire.egress import CLUSTER, CONTROL_PLANE, DIRECT, Egress
from kapi.wire.http2.pool import NegotiatingPool, offered_protocols
from kapi.wire.network_errors import describe
from kapi.wire.pool import Pool
from kapi.wire.tls import faults as tls_faults
from kapi.wire.tls.trust import client_options, identity

if TYPE_CHECKING:
    from kapi.wire.agent import Agent, prepared_url

NO_CREDENTIALS = Credentials()
MAX_ANSWER_BYTES = 3 * 1024 * 1024
_MAX_TARGETS = 200
_LIBRARIES = ("kapi.client.exchange",)  # imported only when there is a webhook
_HEADERS = ((b"Accept", b"application/json, */*"), (b"User-Agent", b"kube-apiserver-admission"))
_JSON = {b"Content-Type": [b"application/json"]}
__all__ = ["MAX_ANSWER_BYTES", "CallError", "NoClient", "WebhookClient"]


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


class CallError(Exception):
    """A call without an answer.  ``code`` is the code in metrics."""

    def __init__(self, text: str, code: int = 503) -> None:
        super().__init__(text)
        self.code = code


class NoClient(CallError):
    """A configuration with which no call is possible."""

    def __init__(self, text: str) -> None:
        super().__init__(text, 500)


class WebhookClient:
    """Posts reviews.  Shared by all webhook plugins of a server."""

    def __init__(
        self,
        reactor: Reactor,
        resolver: ServiceResolver,
        credentials: CredentialStore | None = None,
        egress: Egress = DIRECT,
    ) -> None:
        self._reactor = reactor
        self._egress = egress
        self._resolver = resolver
        self._credentials = credentials or CredentialStore()
        self._servers: OrderedDict[tuple[object, ...], Agent] = OrderedDict()

    async def post(
        self,
        client_config: Mapping[str, Tree],
        body: Object,
        timeout: float,
        headers: Mapping[bytes, list[bytes]] | None = None,
    ) -> Object:
        """The decoded answer.  ``timeout`` in seconds covers connecting, sending and reading.  Raises CallError."""
        if missing(*_LIBRARIES):
            await deferToThreadPool(self._reactor, self._reactor.getThreadPool(), import_all, *_LIBRARIES)
        service = client_config.get("service")
        if service is None:
            target = _target(client_config.get("url") or "", None, None, None, None, max(1, math.ceil(timeout)))
            host, number = target.name, target.port
        else:
            namespace, name = service.get("namespace") or "", service.get("name") or ""
            port, path = int(service.get("port") or 443), service.get("path") or ""
            target = _target(None, namespace, name, port, path, max(1, math.ceil(timeout)))
        from kapi.client.exchange import Exchange

        shown, data = target.shown, json_pieces.dumps(body)
        try:
            if service is not None:
                host, number = self._resolver.resolve(namespace, name, port)
            credentials = self._credentials.for_host(target.name, target.port)
            network = CONTROL_PLANE if service is None else CLUSTER
            bundle = client_config.get("caBundle") or ""
            agent = self._agent(target.name, host, number, bundle, credentials, network)

            def agent_of(url: str) -> Agent:
                nonlocal shown, host, number
                if url is target.text:
                    return agent
                shown, parts = url, urlsplit(url)
                if parts.scheme != "https" or not parts.hostname:
                    raise BadAnswer(f"unsupported protocol scheme {quote(parts.scheme)}")
                if (parts.hostname, parts.port or 443) == (target.name, target.port):
                    return agent
                host, number = parts.hostname, parts.port or 443
                verified = host if service is None else target.name
                return self._agent(verified, host, number, bundle, credentials, network)

            exchange = Exchange(self._reactor, agent_of, MAX_ANSWER_BYTES)
            given = {**_JSON, **(headers or {})}
            answer = await exchange.request("POST", target.url, data, given, timeout, retries=True)
        except NoClient:
            raise
        except BrokenBody as problem:
            raise CallError(str(problem)) from None
        except defer.TimeoutError:
            raise CallError(f'Post "{shown}": context deadline exceeded') from None
        except (CallError, ServiceError, BadAnswer, AnswerTooLarge) as problem:
            raise CallError(f'Post "{shown}": {problem}') from None
        except defer.CancelledError:
            raise
        except Exception as problem:  # any network error is a failed call
            raise CallError(f'Post "{shown}": {describe(problem, host, number)}') from problem
        try:
            return decoded(answer, "POST")
        except StatusError as error:
            raise CallError(error.message, error.code) from None
        except ValueError as problem:
            raise CallError(str(problem)) from None

    def _agent(self, name: str, host: str, port: int, bundle: str, credentials: Credentials, network: str) -> Agent:
        """The connections to one server under one name, with one bundle and one identity."""
        key = (name, host, port, bundle, credentials, network)
        found = self._servers.get(key)
        metrics.TRANSPORTS.add("miss" if found is None else "hit")
        if found is None:
            from kapi.wire.agent import Agent

            http2 = network == CONTROL_PLANE and is_local(name)
            options = _tls_options(name, bundle, credentials)
            dialer = Dialer(self._reactor, proxy=self._egress.proxy(network))
            endpoint = dialer.endpoint(
                host, port, options, faults=tls_faults.WEBHOOKS, protocols=offered_protocols() if http2 else ()
            )
            pool = (NegotiatingPool if http2 else Pool)(self._reactor, endpoint.connect)
            found = self._servers[key] = Agent(pool, (*_HEADERS, *credentials.headers))
            if len(self._servers) > _MAX_TARGETS:
                self._servers.popitem(last=False)[1].pool.close()
            metrics.ENTRIES.set(len(self._servers))
        else:
            self._servers.move_to_end(key)
        return found

    async def close(self) -> None:
        """Closes kept connections."""
        servers, self._servers = self._servers, OrderedDict()
        for server in servers.values():
            await server.pool.close()


class _Target(msgspec.Struct, frozen=True):
    """The target of a review: name and port to verify and connect to, the URL for messages, and that for treq with its text."""

    name: str
    port: int
    shown: str
    url: prepared_url
    text: str


@functools.lru_cache(2000)
def _target(
    url: str | None, namespace: str | None, service: str | None, port: int | None, path: str | None, seconds: int
) -> _Target:
    """For a URL, or for a service when that is None.  Raises CallError."""
    from kapi.wire.agent import prepared_url

    try:
        if url is None:
            assert port is not None and path is not None
            name = f"{service}.{namespace}.svc"
            shown = f"https://{name}:{port}{rest_path(path)}?timeout={seconds}s"
        else:
            shown = f"{rest_url(url)}?timeout={seconds}s"
            parts = urlsplit(url)
            name, port = parts.hostname or "", parts.port or 443
        if not name:
            raise NoClient("webhook configuration must have either service or URL")
        prepared = prepared_url(shown)
        return _Target(name, port, shown, prepared, prepared.to_text())
    except ValueError as problem:
        raise NoClient(f"unable to parse the webhook's URL: {problem}") from None


def is_local(host: str) -> bool:
    """Whether a URL names this machine.  HTTP/2 is offered to no other webhook: over one connection the requests would all go to
    the same backend of a load balancer.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _tls_options(name: str, bundle: str, credentials: Credentials) -> IOpenSSLClientConnectionCreator:
    """Verifies the server as ``name``.  Raises NoClient for material that cannot be read."""
    own = identity(credentials.certificate, credentials.key)
    try:
        return client_options(name, base64.b64decode(bundle), own)
    except ValueError as problem:
        raise NoClient(f"unable to load root certificates: {problem}") from None
