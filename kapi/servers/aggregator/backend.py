"""Connections to the servers behind APIServices: address, TLS name, CA bundle and client certificate.

A connection goes to an endpoint's address, but the certificate must be for ``<service>.<namespace>.svc``.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from twisted.internet import ssl
from twisted.internet.endpoints import wrapClientTLS
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IReactorTime, IStreamClientEndpoint
from twisted.web.iweb import IAgent, IAgentEndpointFactory
from zope.interface import implementer

from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor
from kapi.servers.aggregator.availability import Target
from kapi.wire.dial import Dialer
from kapi.wire.egress import CLUSTER
from kapi.wire.tls.client import counted
from kapi.wire.tls.faults import AGGREGATOR
from kapi.wire.tls.trust import client_options

if TYPE_CHECKING:
    from twisted.web.client import URI


class Backend:
    """One server, with one or more ``targets`` (addresses) that have the same TLS name."""

    def __init__(self, targets: Sequence[Target], spec: Object, identity: ssl.PrivateCertificate | None) -> None:
        self.targets = tuple(targets)
        self.name = self.targets[0].name
        self._creator = _creator(self.name, spec, identity)

    def pick(self) -> Target:
        return random.choice(self.targets)

    def endpoint(self, reactor: Reactor, target: Target | None = None) -> IStreamClientEndpoint:
        """The endpoint of a target, by default of a random one."""
        target = target or self.pick()
        plain = Dialer(reactor, network=CLUSTER).endpoint(target.host, target.port)
        wrapped: IStreamClientEndpoint = wrapClientTLS(self._creator, plain)
        return wrapped


def _creator(name: str, spec: Object, identity: ssl.PrivateCertificate | None) -> IOpenSSLClientConnectionCreator:
    """Raises ValueError for an invalid CA bundle."""
    insecure = bool(spec.get("insecureSkipTLSVerify"))
    try:
        bundle = base64.b64decode(spec.get("caBundle") or "")
        options = client_options(name, bundle, identity, insecure=insecure)
    except ValueError as error:
        raise ValueError(f"unable to load root certificates: {error}") from None
    return options if insecure else counted(options, AGGREGATOR)


class _Known(NamedTuple):
    """A server, with the numbers of its targets in both directions."""

    backend: Backend
    numbers: dict[Target, int]
    targets: dict[int, Target]


@implementer(IAgentEndpointFactory)
class Backends:
    """The endpoints for an Agent's requests, selected by the name and the number in their URIs.

    An Agent pools connections by host and port.  Here the port is the number of a target, so that requests go to all targets and
    a pooled connection is only used for its own target.
    """

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._known: dict[bytes, _Known] = {}
        self._count = 0

    def set(self, key: str, backend: Backend) -> None:
        known = self._known.get(key.encode())
        before = known.numbers if known is not None else {}
        numbers: dict[Target, int] = {}
        for target in backend.targets:
            if target not in before:
                self._count += 1
            numbers[target] = before.get(target, self._count)
        targets = {number: target for target, number in numbers.items()}
        self._known[key.encode()] = _Known(backend, numbers, targets)

    def remove(self, key: str) -> None:
        self._known.pop(key.encode(), None)

    def get(self, key: str) -> Backend | None:
        known = self._known.get(key.encode())
        return None if known is None else known.backend

    def request(self, key: str, path: bytes, target: Target | None = None) -> tuple[bytes, bytes]:
        """(URI, Host header) of a request to a target, by default to a random one.  Raises KeyError."""
        known = self._known[key.encode()]
        number = known.numbers[target or known.backend.pick()]
        return b"https://%b:%d%b" % (key.encode(), number, path), known.backend.name.encode()

    def agent(self, reactor: IReactorTime) -> IAgent:
        """An Agent for requests of the server itself, each over a connection of its own."""
        from twisted.web.client import Agent, HTTPConnectionPool  # for those alone who use it

        pool = HTTPConnectionPool(reactor, persistent=False)
        agent: IAgent = Agent.usingEndpointFactory(reactor, self, pool)
        return agent

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        known = self._known[uri.host]
        return known.backend.endpoint(self._reactor, known.targets[uri.port])
