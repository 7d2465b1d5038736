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

if TYPE_CHECKING:  # what type checkers read
    from kapi.client.clientcmd import Kubeconfig as Kubeconfig
    from kapi.client.clientcmd import Overrides as Overrides
    from kapi.client.clientcmd import load_config as load_config
    from kapi.client.config import Config as Config
    from kapi.client.config import ConfigError as ConfigError
    from kapi.client.config import Impersonation as Impersonation
    from kapi.client.discovery import APIGroup as APIGroup
    from kapi.client.discovery import APIResource as APIResource
    from kapi.client.discovery import Discovered as Discovered
    from kapi.client.discovery import Discovery as Discovery
    from kapi.client.discovery_cache import CachedDiscovery as CachedDiscovery
    from kapi.client.dynamic import DynamicClient as DynamicClient
    from kapi.client.dynamic import ResourceInterface as ResourceInterface
    from kapi.client.dynamic import condition_is as condition_is
    from kapi.client.errors import ClientError as ClientError
    from kapi.client.errors import ConnectionFailed as ConnectionFailed
    from kapi.client.errors import Gone as Gone
    from kapi.client.errors import NoMatch as NoMatch
    from kapi.client.errors import RequestTimeout as RequestTimeout
    from kapi.client.errors import ServerTimeout as ServerTimeout
    from kapi.client.errors import UnexpectedAnswer as UnexpectedAnswer
    from kapi.client.limiter import Backoff as Backoff
    from kapi.client.mapper import RESTMapper as RESTMapper
    from kapi.client.portforward import PortForward as PortForward
    from kapi.client.protobuf_content import PROTOBUF_CONTENT as PROTOBUF_CONTENT
    from kapi.client.remotecommand import RemoteCommand as RemoteCommand
    from kapi.client.rest import JSON_CONTENT as JSON_CONTENT
    from kapi.client.rest import Content as Content
    from kapi.client.rest import Request as Request
    from kapi.client.rest import RESTClient as RESTClient
    from kapi.client.session import Session as Session
    from kapi.client.session import connect as connect
    from kapi.client.three_way import OpenAPISchema as OpenAPISchema
    from kapi.client.three_way import three_way_patch as three_way_patch
    from kapi.client.watching import Watch as Watch
    from kapi.client.watching import WatchEvent as WatchEvent
    from kapi.machinery.status import AlreadyExists as AlreadyExists
    from kapi.machinery.status import BadRequest as BadRequest
    from kapi.machinery.status import Conflict as Conflict
    from kapi.machinery.status import Expired as Expired
    from kapi.machinery.status import Forbidden as Forbidden
    from kapi.machinery.status import InternalError as InternalError
    from kapi.machinery.status import Invalid as Invalid
    from kapi.machinery.status import MethodNotAllowed as MethodNotAllowed
    from kapi.machinery.status import NotFound as NotFound
    from kapi.machinery.status import ServiceUnavailable as ServiceUnavailable
    from kapi.machinery.status import StatusError as StatusError
    from kapi.machinery.status import Timeout as Timeout
    from kapi.machinery.status import TooManyRequests as TooManyRequests
    from kapi.machinery.status import Unauthorized as Unauthorized
    from kapi.wire.transport import Transport as Transport
    from kapi.wire.upgrade import WebSocketClosed as WebSocketClosed
    from kapi.wire.websocket import WebSocket as WebSocket

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "kapi.client.clientcmd": "Kubeconfig Overrides load_config",
        "kapi.client.config": "Config ConfigError Impersonation",
        "kapi.client.discovery": "APIGroup APIResource Discovered Discovery",
        "kapi.client.discovery_cache": "CachedDiscovery",
        "kapi.client.dynamic": "DynamicClient ResourceInterface condition_is",
        "kapi.client.errors": "ClientError ConnectionFailed Gone NoMatch RequestTimeout ServerTimeout UnexpectedAnswer",
        "kapi.client.limiter": "Backoff",
        "kapi.client.mapper": "RESTMapper",
        "kapi.client.portforward": "PortForward",
        "kapi.client.protobuf_content": "PROTOBUF_CONTENT",
        "kapi.client.remotecommand": "RemoteCommand",
        "kapi.client.rest": "JSON_CONTENT Content Request RESTClient",
        "kapi.client.session": "Session connect",
        "kapi.client.three_way": "OpenAPISchema three_way_patch",
        "kapi.client.watching": "Watch WatchEvent",
        "kapi.machinery.status": "AlreadyExists BadRequest Conflict Expired Forbidden InternalError Invalid "
        "MethodNotAllowed NotFound ServiceUnavailable StatusError Timeout TooManyRequests Unauthorized",
        "kapi.wire.transport": "Transport",
        "kapi.wire.upgrade": "WebSocketClosed",
        "kapi.wire.websocket": "WebSocket",
    },
)
