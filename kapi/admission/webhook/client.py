"""HTTPS calls to webhooks: one pool of kept connections per target, verified names, bounded time and size.

No redirect is followed.  Names are checked by service-identity; the trust roots are the configuration's caBundle,
without one those of the system.
"""

from __future__ import annotations

import base64
import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson
from treq.client import HTTPClient
from twisted.internet import defer, error, ssl
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import URI, Agent, HTTPConnectionPool, ResponseFailed, ResponseNeverReceived
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from kapi.admission.webhook.credentials import Credentials, CredentialStore
from kapi.admission.webhook.resolver import ServiceError, ServiceResolver

Object = dict[str, Any]
MAX_ANSWER = 3 * 1024 * 1024  # bytes
_MAX_TARGETS = 200
_PER_HOST = 25
_KEEP = 90  # seconds an idle connection is kept
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class CallError(Exception):
    """A call that did not bring an answer.  ``code`` is what metrics say."""

    def __init__(self, text: str, code: int = 503) -> None:
        super().__init__(text)
        self.code = code


@implementer(IAgentEndpointFactory)
class _Endpoints:
    """Connects to one host whatever the URI names, so that a service's name is verified at the service's address."""

    def __init__(self, reactor: Any, host: str, port: int, options: Any) -> None:
        self._reactor, self._host, self._port, self._options = reactor, host, port, options

    def endpointForURI(self, uri: URI) -> Any:
        endpoint = HostnameEndpoint(self._reactor, self._host.encode(), self._port)
        return wrapClientTLS(self._options, _Prompt(endpoint))


@implementer(IStreamClientEndpoint)
class _Prompt:
    """Connects without Nagle's algorithm: a review is written in pieces, none of which should wait for an answer."""

    def __init__(self, endpoint: IStreamClientEndpoint) -> None:
        self._endpoint = endpoint

    def connect(self, factory: Any) -> Any:
        def connected(protocol: Any) -> Any:
            transport = protocol.transport
            if transport is not None and hasattr(transport, "setTcpNoDelay"):
                transport.setTcpNoDelay(True)
            return protocol

        connecting: Any = self._endpoint.connect(factory)
        return connecting.addCallback(connected)


class _Body(Protocol):
    """Collects an answer up to a limit."""

    def __init__(self, limit: int) -> None:
        self.done: Deferred[bytes] = Deferred(lambda _: self._abort())
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def _abort(self) -> None:
        """Nobody waits any more: the connection is of no use."""
        transport: Any = self.transport
        if transport is not None:
            # the proxy that bodies are delivered through can only close politely, which reads all that is sent
            producer = getattr(transport, "_producer", None) or transport
            getattr(producer, "abortConnection", producer.loseConnection)()

    def dataReceived(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limit:
            if not self.done.called:
                self._abort()
                self.done.errback(CallError(f"the answer is larger than {self._limit} bytes"))
            return
        self._parts.append(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if not self.done.called:
            if reason.check(error.ConnectionLost, ResponseFailed):
                self.done.errback(CallError("unexpected EOF"))
            else:
                self.done.callback(b"".join(self._parts))


class WebhookClient:
    """Posts reviews.  Shared by all webhook plugins of a server."""

    def __init__(self, reactor: Any, resolver: ServiceResolver, credentials: CredentialStore | None = None) -> None:
        self._reactor = reactor
        self._resolver = resolver
        self._credentials = credentials or CredentialStore()
        self._agents: OrderedDict[tuple[Any, ...], tuple[HTTPClient, HTTPConnectionPool]] = OrderedDict()

    async def post(self, client_config: Mapping[str, Any], body: Object, timeout: float) -> Object:
        """The decoded answer.  ``timeout`` in seconds covers connecting, sending and reading.  Raises CallError."""
        shown = max(1, int(-(-timeout // 1)))
        service = client_config.get("service")
        if service is not None:
            port = int(service.get("port") or 443)
            name = f"{service.get('name')}.{service.get('namespace')}.svc"
            path = service.get("path") or ""
            url = f"https://{name}:{port}{path if path.startswith('/') or not path else '/' + path}"
        else:
            url = client_config.get("url") or ""
            parts = urlsplit(url)
            if not parts.hostname:
                raise CallError("webhook configuration must have either service or URL")
            name, port = parts.hostname, parts.port or 443
        if service is not None and urlsplit(url).path == "":
            url += "/"
        asked = f"{url}?timeout={shown}s"
        try:
            host, number = name, port
            if service is not None:
                host, number = self._resolver.resolve(service.get("namespace", ""), service.get("name", ""), port)
            credentials = self._credentials.for_host(name, port)
            client = self._client(name, host, number, client_config.get("caBundle") or "", credentials)
            sent: Deferred[Any] = Deferred.fromCoroutine(self._send(client, asked, body, credentials))
            sent.addTimeout(timeout, self._reactor, _deadline)
            status, content = await sent
        except CallError as problem:
            raise CallError(f'Post "{asked}": {problem}', problem.code) from None
        except ServiceError as problem:
            raise CallError(f'Post "{asked}": {problem}') from None
        except defer.CancelledError:
            raise
        except Exception as problem:  # whatever the network brings is a failed call, and says so
            raise CallError(f'Post "{asked}": {_describe(problem, host, number)}') from problem
        if not 200 <= status < 300:
            raise CallError(*_status_text(status, content))
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError as problem:
            raise CallError(f"couldn't get version/kind; json parse error: {problem}") from None
        if not isinstance(answer, dict):
            raise CallError("couldn't get version/kind; json parse error: not an object")
        return answer

    async def _send(self, client: HTTPClient, url: str, body: Object, credentials: Credentials) -> tuple[int, bytes]:
        headers = Headers({b"Content-Type": [b"application/json"], b"Accept": [b"application/json, */*"]})
        headers.setRawHeaders(b"User-Agent", [b"kube-apiserver-admission"])
        for key, value in credentials.headers:
            headers.addRawHeader(key, value)
        data = orjson.dumps(body)
        response = await client.post(url, data=data, headers=headers, allow_redirects=False, unbuffered=True)
        collector = _Body(MAX_ANSWER)
        response.deliverBody(collector)
        return response.code, await collector.done

    def _client(self, name: str, host: str, port: int, bundle: str, credentials: Credentials) -> HTTPClient:
        key = (name, host, port, bundle, credentials)
        found = self._agents.get(key)
        if found is None:
            pool = HTTPConnectionPool(self._reactor, persistent=True)
            pool.maxPersistentPerHost = _PER_HOST
            pool.cachedConnectionTimeout = _KEEP
            pool.retryAutomatically = True
            options = _tls_options(name, bundle, credentials)
            agent = Agent.usingEndpointFactory(self._reactor, _Endpoints(self._reactor, host, port, options), pool)
            found = self._agents[key] = (HTTPClient(agent), pool)
            if len(self._agents) > _MAX_TARGETS:
                _, old = self._agents.popitem(last=False)[1]
                old.closeCachedConnections()
        else:
            self._agents.move_to_end(key)
        return found[0]

    async def close(self) -> None:
        """Closes kept connections."""
        agents, self._agents = self._agents, OrderedDict()
        for _, pool in agents.values():
            await pool.closeCachedConnections()


def _tls_options(name: str, bundle: str, credentials: Credentials) -> Any:
    """Verifies the server as ``name``.  Raises CallError for material that cannot be read."""
    trust = None
    if bundle:
        try:
            pem = base64.b64decode(bundle)
            roots = [ssl.Certificate.loadPEM(found) for found in _PEM.findall(pem)]
        except Exception as problem:
            raise CallError(f"unable to load root certificates: {problem}") from None
        if not roots:
            raise CallError("unable to load root certificates: unable to parse bytes as PEM block")
        trust = ssl.trustRootFromCertificates(roots)
    own = None
    if credentials.certificate:
        own = ssl.PrivateCertificate.loadPEM(credentials.key + b"\n" + credentials.certificate)
    return ssl.optionsForClientTLS(name, trustRoot=trust, clientCertificate=own)


def _deadline(result: Any, timeout: float) -> Any:
    raise CallError("context deadline exceeded", 504)


def _describe(problem: BaseException, host: str, port: int) -> str:
    """A network failure in the words of Go's net package."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if isinstance(problem, (ResponseFailed, ResponseNeverReceived)) and problem.reasons:
        return _describe(problem.reasons[0].value, host, port)
    if isinstance(problem, error.ConnectionRefusedError):
        return f"dial tcp {address}: connect: connection refused"
    if isinstance(problem, (error.TimeoutError, defer.TimeoutError)):
        return f"dial tcp {address}: i/o timeout"
    if isinstance(problem, error.DNSLookupError):
        return f"dial tcp: lookup {host}: no such host"
    if isinstance(problem, error.NoRouteError):
        return f"dial tcp {address}: connect: no route to host"
    if isinstance(problem, (error.ConnectionDone, error.ConnectionLost)):
        return "EOF"
    text = str(problem) or type(problem).__name__
    if "certificate verify failed" in text:
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    if type(problem).__name__ == "VerificationError" or "Mismatch" in text:
        return f"tls: failed to verify certificate: x509: certificate is not valid for {host}"
    return text


def _status_text(status: int, content: bytes) -> tuple[str, int]:
    """What a client says about an answer that is no success; a Status in the body speaks for itself."""
    try:
        answer = orjson.loads(content)
        if isinstance(answer, dict) and answer.get("kind") == "Status" and answer.get("message"):
            return str(answer["message"]), status
    except orjson.JSONDecodeError:
        pass
    said = content[:2048].decode("utf-8", "replace").strip()
    if status == 404:
        return "the server could not find the requested resource", status
    if status == 401:
        return "the server has asked for the client to provide credentials", status
    if status == 403:
        return f"unknown (post {said})" if said else "unknown", status
    if status >= 500:
        return f'an error on the server ("{said or "unknown"}") has prevented the request from succeeding', status
    return f"the server rejected our request for an unknown reason ({status})", status


__all__ = ["MAX_ANSWER", "CallError", "WebhookClient"]
