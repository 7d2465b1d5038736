"""The client library, and outgoing HTTP of the server (upstream: ``k8s.io/client-go``).

Here belong the public library (``config`` and ``clientcmd`` say where a server is, ``rest`` sends requests, everything else
stands on these two; ``docs/client.rst`` is its manual), and for the server kubeconfig files of webhooks and outgoing HTTP:
the dialer, TLS, kept connections, retries.  The library knows none of the server's packages, and the server does not load
it.  Not here: what controllers are made of (``kapi.runtime``), and the protocols over such connections: webhooks, providers
and aggregated servers have packages of their own.
Start reading with ``config.py`` and ``rest.py``.

The names below are public.  They are loaded when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.machinery.lazy_names import lazy_names

if TYPE_CHECKING:
    from kapi.client.clientcmd import Kubeconfig, Overrides, load_config
    from kapi.client.config import Config, ConfigError, Impersonation
    from kapi.client.content import JSON_CONTENT, Content
    from kapi.client.discovery import APIGroup, APIResource, Discovered, Discovery
    from kapi.client.discovery_cache import CachedDiscovery
    from kapi.client.dynamic import DynamicClient, ResourceInterface, condition_is
    from kapi.client.errors import (
        ClientError,
        ConnectionFailed,
        Gone,
        NoMatch,
        RequestTimeout,
        ServerTimeout,
        UnexpectedAnswer,
    )
    from kapi.client.limiter import Backoff
    from kapi.client.mapper import RESTMapper
    from kapi.client.portforward import PortForward
    from kapi.client.protobuf_content import PROTOBUF_CONTENT
    from kapi.client.remotecommand import RemoteCommand
    from kapi.client.rest import Request, RESTClient
    from kapi.client.session import Session, connect
    from kapi.client.three_way import OpenAPISchema, three_way_patch
    from kapi.client.watching import Watch, WatchEvent
    from kapi.machinery.status import (
        AlreadyExists,
        BadRequest,
        Conflict,
        Expired,
        Forbidden,
        InternalError,
        Invalid,
        MethodNotAllowed,
        NotFound,
        ServiceUnavailable,
        StatusError,
        Timeout,
        TooManyRequests,
        Unauthorized,
    )
    from kapi.wire.transport import Transport
    from kapi.wire.websocket import WebSocket, WebSocketClosed

__all__ = [
    "APIGroup",
    "APIResource",
    "AlreadyExists",
    "Backoff",
    "BadRequest",
    "CachedDiscovery",
    "ClientError",
    "Config",
    "ConfigError",
    "Conflict",
    "ConnectionFailed",
    "Content",
    "Discovered",
    "Discovery",
    "DynamicClient",
    "Expired",
    "Forbidden",
    "Gone",
    "Impersonation",
    "InternalError",
    "Invalid",
    "JSON_CONTENT",
    "Kubeconfig",
    "MethodNotAllowed",
    "NoMatch",
    "NotFound",
    "OpenAPISchema",
    "Overrides",
    "PROTOBUF_CONTENT",
    "PortForward",
    "RESTClient",
    "RESTMapper",
    "RemoteCommand",
    "Request",
    "RequestTimeout",
    "ResourceInterface",
    "ServerTimeout",
    "ServiceUnavailable",
    "Session",
    "StatusError",
    "Timeout",
    "TooManyRequests",
    "Transport",
    "Unauthorized",
    "UnexpectedAnswer",
    "Watch",
    "WatchEvent",
    "WebSocket",
    "WebSocketClosed",
    "condition_is",
    "connect",
    "load_config",
    "three_way_patch",
]
_PLACES = {
    "Backoff": "kapi.client.limiter",
    "Kubeconfig": "kapi.client.clientcmd",
    "Overrides": "kapi.client.clientcmd",
    "load_config": "kapi.client.clientcmd",
    "Config": "kapi.client.config",
    "ConfigError": "kapi.client.config",
    "Impersonation": "kapi.client.config",
    "JSON_CONTENT": "kapi.client.content",
    "Content": "kapi.client.content",
    "APIGroup": "kapi.client.discovery",
    "APIResource": "kapi.client.discovery",
    "Discovered": "kapi.client.discovery",
    "Discovery": "kapi.client.discovery",
    "CachedDiscovery": "kapi.client.discovery_cache",
    "DynamicClient": "kapi.client.dynamic",
    "ResourceInterface": "kapi.client.dynamic",
    "condition_is": "kapi.client.dynamic",
    "ClientError": "kapi.client.errors",
    "ConnectionFailed": "kapi.client.errors",
    "Gone": "kapi.client.errors",
    "NoMatch": "kapi.client.errors",
    "RequestTimeout": "kapi.client.errors",
    "ServerTimeout": "kapi.client.errors",
    "UnexpectedAnswer": "kapi.client.errors",
    "RESTMapper": "kapi.client.mapper",
    "PortForward": "kapi.client.portforward",
    "PROTOBUF_CONTENT": "kapi.client.protobuf_content",
    "RemoteCommand": "kapi.client.remotecommand",
    "Request": "kapi.client.rest",
    "RESTClient": "kapi.client.rest",
    "Session": "kapi.client.session",
    "connect": "kapi.client.session",
    "OpenAPISchema": "kapi.client.three_way",
    "three_way_patch": "kapi.client.three_way",
    "Watch": "kapi.client.watching",
    "WatchEvent": "kapi.client.watching",
    "AlreadyExists": "kapi.machinery.status",
    "BadRequest": "kapi.machinery.status",
    "Conflict": "kapi.machinery.status",
    "Expired": "kapi.machinery.status",
    "Forbidden": "kapi.machinery.status",
    "InternalError": "kapi.machinery.status",
    "Invalid": "kapi.machinery.status",
    "MethodNotAllowed": "kapi.machinery.status",
    "NotFound": "kapi.machinery.status",
    "ServiceUnavailable": "kapi.machinery.status",
    "StatusError": "kapi.machinery.status",
    "Timeout": "kapi.machinery.status",
    "TooManyRequests": "kapi.machinery.status",
    "Unauthorized": "kapi.machinery.status",
    "Transport": "kapi.wire.transport",
    "WebSocket": "kapi.wire.websocket",
    "WebSocketClosed": "kapi.wire.websocket",
}
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
