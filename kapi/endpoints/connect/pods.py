"""Subresources of a pod that its kubelet answers: log, exec, attach, portforward (upstream: ``pkg/registry/core/pod/rest``).

For exec, attach and portforward the client's connection becomes a tunnel to the kubelet (KEP-4006 Transition from SPDY to
WebSockets).  Since 1.36 the gate ``ExtendWebSocketsToKubelet`` is on: a kubelet that declares it in
``status.declaredFeatures``, as those of 1.36 do, speaks v5.channel.k8s.io and SPDY tunnelled through a WebSocket
(port-forward) itself, and the request is only passed through.  SPDY and v4.channel.k8s.io are passed through to kubelets of
any version, as upstream.  For an older kubelet upstream translates v5 and the tunnel to SPDY; here that kubelet refuses
them, and kubectl then tries SPDY.
"""

from __future__ import annotations

from msgspec.structs import replace

from kapi.codecs.negotiation import output_media_type
from kapi.endpoints.authorization import create_check
from kapi.endpoints.connect.kubelet import Kubelets, container_of
from kapi.endpoints.connect.options import (
    admit,
    forwarded_ports,
    log_options,
    log_query,
    refuse_dry_run,
    stream_options,
    stream_query,
)
from kapi.endpoints.connect.transport import UNVERIFIED, Target, Transport, Unreachable, beginning
from kapi.endpoints.passing import piped
from kapi.endpoints.scope import RequestScope, request_name
from kapi.endpoints.tunnel import wants_upgrade
from kapi.machinery import status
from kapi.registry import read
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.shared.features import enabled
from kapi.wire.answer import Answer

_MAX_ERROR_BYTES = 50_000  # the most bytes of a kubelet's error that are shown
_REDIRECTS = frozenset([301, 302, 303, 307, 308])


class Log:
    """GET of ``pods/NAME/log``."""

    def __init__(self, kubelets: Kubelets, transport: Transport) -> None:
        self._kubelets = kubelets
        self._transport = transport

    async def __call__(self, ctx: RequestContext, scope: RequestScope) -> Response:
        info, name = ctx.info, request_name(ctx)
        assert info is not None
        output_media_type(ctx, "log", tables=False)
        by_stream = enabled(scope.store.environment.features, "PodLogsQuerySplitStreams")
        options = log_options(ctx, name, by_stream)
        pod = (await read.get(scope.store, info.namespace, name)).object
        container = container_of(pod, options.get("container", ""))
        node = pod["spec"].get("nodeName")
        if not node:
            return Response(204, b"", b"")  # the pod is not scheduled, so there is no log
        path = f"/containerLogs/{info.namespace}/{name}/{container}".encode()
        target = await self._kubelets.target(node, path, log_query(options), scope.resource)
        if options.get("insecureSkipTLSVerifyBackend"):
            target = replace(target, tls=UNVERIFIED)
        try:
            answer = await self._transport.get(ctx, target)
        except Unreachable as error:
            raise status.generic(f'Get "{_url(target)}": {error}') from None
        if answer.code in _REDIRECTS and answer.headers.hasHeader(b"location"):
            answer.abort()
            raise status.generic(f'Get "{_url(target)}": redirects forbidden')
        if not 200 <= answer.code <= 206:
            raise await _refused(answer, name)
        return piped(ctx, answer, 200, b"text/plain")


def _url(target: Target) -> str:
    return f"{target.scheme}://{target.netloc.decode()}{target.uri.decode()}"


async def _refused(answer: Answer, name: str) -> status.StatusError:
    """The API error for an error response of the kubelet."""
    text = (await beginning(answer, _MAX_ERROR_BYTES)).decode("utf-8", "replace")
    code = answer.code
    if code == 500:
        return status.internal(text)
    if code == 400:
        return status.bad_request(text)
    reason, message = status.without_status(code, "GET", text)
    details = {"name": name, "kind": "pods/log"}
    return status.StatusError(f"{message} ( pods/log {name})", code=code, reason=reason, details=details)


class Streams:
    """GET and POST of ``pods/NAME/exec``, ``attach`` and ``portforward``; ``kind`` is that of the options."""

    def __init__(self, path: str, kind: str, kubelets: Kubelets, transport: Transport) -> None:
        self._path = path
        self._kind = kind
        self._kubelets = kubelets
        self._transport = transport

    async def __call__(self, ctx: RequestContext, scope: RequestScope) -> Response:
        info, name = ctx.info, request_name(ctx)
        assert info is not None
        refuse_dry_run(ctx)
        forward = self._kind == "PodPortForwardOptions"
        options = _forwarding(ctx) if forward else stream_options(ctx, self._kind)
        await admit(ctx, scope, self._kind, options)
        features = scope.store.environment.features
        if ctx.method == "GET" and enabled(features, "AuthorizePodWebsocketUpgradeCreatePermission"):
            # a WebSocket opens with GET, which alone must not be enough to run something
            await create_check(ctx, scope)()
        pod = (await read.get(scope.store, info.namespace, name)).object
        path = f"/{self._path}/{info.namespace}/{name}"
        query = b""
        if forward:
            if options:
                query = b"port=" + b"%2C".join(str(port).encode() for port in options["ports"])
        else:
            path += "/" + container_of(pod, str(options.get("container", "")))
            query = stream_query(options)
        node = pod["spec"].get("nodeName")
        if not node:
            raise status.bad_request(f"pod {name} does not have a host assigned")
        target = await self._kubelets.target(node, path.encode(), query, scope.resource)
        if not wants_upgrade(ctx):
            raise status.bad_request("Upgrade request required")
        return await self._transport.pass_on(ctx, target)


def _forwarding(ctx: RequestContext) -> dict[str, list[int]]:
    ports = forwarded_ports(ctx)
    return {"ports": ports} if ports else {}
