"""The servers behind APIServices: connections to them, and GET requests of this server itself.

A connection goes to an endpoint's address, but the certificate must be for ``<service>.<namespace>.svc``.  Requests are
bounded in time and size.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from twisted.internet.defer import CancelledError, Deferred, TimeoutError, gatherResults
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IReactorTime, IStreamClientEndpoint

from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor
from kapi.request.user import LOOPBACK_USER, UserInfo
from kapi.servers.aggregator.availability import Target
from kapi.wire.collected import Collected
from kapi.wire.dial import Dialer
from kapi.wire.egress import CLUSTER, DIRECT, Egress
from kapi.wire.head import identity_headers
from kapi.wire.http2.pool import NegotiatingPool, offered_protocols
from kapi.wire.pool import Pool
from kapi.wire.tls.faults import AGGREGATOR
from kapi.wire.tls.trust import Identity, client_options


class Backend:
    """One server, with one or more ``targets`` (addresses) that have the same TLS name."""

    def __init__(self, dialer: Dialer, targets: Sequence[Target], spec: Object, identity: Identity | None) -> None:
        self._dialer = dialer
        self.targets = tuple(targets)
        self.name = self.targets[0].name
        self.insecure = bool(spec.get("insecureSkipTLSVerify"))
        self._tls = _options(self.name, spec, identity, insecure=self.insecure)
        self._trust = (spec.get("caBundle"), self.insecure, identity)
        self._pools: dict[Target, Pool] = {}

    def pick(self) -> Target:
        return random.choice(self.targets)

    def endpoint(self, target: Target, protocols: Sequence[bytes] = (b"http/1.1",)) -> IStreamClientEndpoint:
        """For a connection over which the server may choose one of the protocols."""
        faults = None if self.insecure else AGGREGATOR
        return self._dialer.endpoint(target.host, target.port, self._tls, faults=faults, protocols=protocols)

    def pool(self, target: Target) -> Pool:
        """The connections to a target."""
        found = self._pools.get(target)
        if found is None:
            connect = self.endpoint(target, offered_protocols()).connect
            found = self._pools[target] = NegotiatingPool(self._dialer.reactor, connect)
        return found

    def take_over(self, other: Backend) -> None:
        """Takes the connections of its predecessor, if they were made with the same certificates; ends the others."""
        same = self._trust == other._trust and self.name == other.name
        for target, pool in other._pools.items():
            if same and target in self.targets:
                self._pools[target] = pool
            else:
                pool.close()

    def forget(self) -> None:
        for pool in self._pools.values():
            pool.forget()

    def close(self) -> list[Deferred[None]]:
        """Closes idle connections at once and busy ones after their answer."""
        return [pool.close() for pool in self._pools.values()]


def _options(name: str, spec: Object, identity: Identity | None, *, insecure: bool) -> IOpenSSLClientConnectionCreator:
    """Raises ValueError for an invalid CA bundle."""
    try:
        bundle = base64.b64decode(spec.get("caBundle") or "")
        return client_options(name, bundle, identity, insecure=insecure)
    except ValueError as error:
        raise ValueError(f"unable to load root certificates: {error}") from None


class Backends:
    """The servers of APIServices, by the APIServices' names; or other servers by other names.  ``network`` is theirs."""

    def __init__(self, reactor: Reactor, egress: Egress = DIRECT, network: str = CLUSTER) -> None:
        self._dialer = Dialer(reactor, proxy=egress.proxy(network))
        self._known: dict[str, Backend] = {}

    def set(self, key: str, targets: Sequence[Target], spec: Object, identity: Identity | None) -> Backend:
        """Raises ValueError for certificates that cannot be used."""
        backend = Backend(self._dialer, targets, spec, identity)
        before = self._known.get(key)
        if before is not None:
            backend.take_over(before)
        self._known[key] = backend
        return backend

    def remove(self, key: str) -> None:
        before = self._known.pop(key, None)
        if before is not None:
            before.close()

    def forget(self, key: str) -> None:
        """Lets new requests to a server have new connections: the ones that it has may be broken."""
        backend = self._known.get(key)
        if backend is not None:
            backend.forget()

    def get(self, key: str) -> Backend | None:
        return self._known.get(key)

    def pool(self, key: str) -> tuple[Pool, bytes]:
        """The connections to a random target, for a request of the server's own; the header Host.  Raises KeyError."""
        backend = self._known[key]
        return backend.pool(backend.pick()), backend.name.encode()

    def close(self) -> Deferred[list[None]]:
        """Fires when no connection is open."""
        return gatherResults([closed for backend in self._known.values() for closed in backend.close()])


MAX_ANSWER_BYTES = 16 * 1024 * 1024  # size of an OpenAPI document
# size of a group version's APIResourceList, which becomes part of this server's discovery
MAX_DISCOVERY_BYTES = 1024 * 1024


class BackendAnswer(NamedTuple):
    """The answer of a server, with some of its headers, "" when they are missing."""

    code: int
    body: bytes
    content_type: str = ""
    etag: str = ""


class BackendClient:
    """Requests are made as ``user``.  ``backends`` has the server of each APIService, by its name."""

    def __init__(self, reactor: IReactorTime, backends: Backends, user: UserInfo = LOOPBACK_USER) -> None:
        self._reactor: IReactorTime = reactor
        self._backends = backends
        self._user = user

    async def ask(
        self,
        key: str,
        path: str,
        seconds: float,
        limit: int = MAX_ANSWER_BYTES,
        accept: str = "application/json",
        etag: str = "",
    ) -> BackendAnswer:
        """The answer, with a body of at most ``limit`` bytes; an empty one with 304 when the document still has this ``etag``.

        Raises any error of the network, and TimeoutError after ``seconds``.
        """
        request: Deferred[BackendAnswer] = Deferred.fromCoroutine(self._ask(key, path, limit, accept, etag))
        request.addTimeout(seconds, self._reactor, _late)
        try:
            return await request
        except CancelledError:
            raise
        except Exception:
            self._backends.forget(key)
            raise

    async def _ask(self, key: str, path: str, limit: int, accept: str, etag: str) -> BackendAnswer:
        from kapi.wire.agent import Agent  # imported only when it is used

        pool, host = self._backends.pool(key)
        headers = identity_headers(self._user)
        if accept:
            headers.append((b"Accept", accept.encode()))
        if etag:
            headers.append((b"If-None-Match", etag.encode()))
        answer = await Agent(pool, headers).ask("GET", f"https://{host.decode()}{path}")
        collected = Collected(limit)
        answer.deliverBody(collected)
        body = await collected.done
        found = (answer.headers.getRawHeaders(name, [""])[0] for name in ("content-type", "etag"))
        return BackendAnswer(answer.code, body, *found)


def _late(_result: object, _seconds: float) -> NoReturn:
    """Raises TimeoutError in place of the agent's errors, which depend on the progress of the request."""
    raise TimeoutError("context deadline exceeded")
