"""Connections to the servers behind APIServices: address, TLS name, trust and our own certificate.

The server is dialled at an endpoint's address but must prove that it is ``<service>.<namespace>.svc``.
"""

from __future__ import annotations

import base64
from typing import Any

from twisted.internet import ssl
from twisted.internet.endpoints import wrapClientTLS
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from kapi.aggregator.availability import Target
from kapi.client.dialer import Dialer
from kapi.client.egress import CLUSTER
from kapi.client.tls_client import counted
from kapi.client.tls_faults import AGGREGATOR
from kapi.client.tls_trust import NoCertificates, authorities, unverified_options, verified_options
from kapi.machinery.tree import Object


class Backend:
    """One server: how to reach it."""

    def __init__(self, target: Target, spec: Object, identity: ssl.PrivateCertificate | None) -> None:
        self.target = target
        self._creator = _creator(target.name, spec, identity)

    def endpoint(self, reactor: Any) -> IStreamClientEndpoint:
        plain = Dialer(reactor, network=CLUSTER).endpoint(self.target.host, self.target.port)
        wrapped: IStreamClientEndpoint = wrapClientTLS(self._creator, plain)
        return wrapped


def _creator(name: str, spec: Object, identity: ssl.PrivateCertificate | None) -> Any:
    """Raises ValueError for a CA bundle that is none."""
    if spec.get("insecureSkipTLSVerify"):
        return unverified_options(name, identity)
    trust: Any = None
    if spec.get("caBundle"):
        try:
            trust = authorities(base64.b64decode(spec["caBundle"]))
        except NoCertificates:
            raise ValueError("unable to load root certificates: no certificate in caBundle") from None
        except ValueError as error:
            raise ValueError(f"unable to load root certificates: {error}") from None
    return counted(verified_options(name, trust, identity), AGGREGATOR)


@implementer(IAgentEndpointFactory)
class Backends:
    """Chooses the endpoint of an Agent's request by the name in its URI."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._known: dict[bytes, Backend] = {}

    def set(self, key: str, backend: Backend) -> None:
        self._known[key.encode()] = backend

    def remove(self, key: str) -> None:
        self._known.pop(key.encode(), None)

    def get(self, key: str) -> Backend | None:
        return self._known.get(key.encode())

    def endpointForURI(self, uri: Any) -> IStreamClientEndpoint:
        return self._known[uri.host].endpoint(self._reactor)
