"""exec, attach and portforward: the client's connection becomes a tunnel to the kubelet.

Upstream: ``pkg/registry/core/pod/rest/subresources.go``, KEP-4006 Transition from SPDY to WebSockets.  Since 1.36 the gate
``ExtendWebSocketsToKubelet`` is on: a kubelet that declares it in ``status.declaredFeatures``, as those of 1.36 do, speaks
v5.channel.k8s.io and SPDY tunnelled through a WebSocket (port-forward) itself, and the request is only passed
through.  SPDY and v4.channel.k8s.io are passed through to kubelets of any version, as upstream.  For an older kubelet upstream
translates v5 and the tunnel to SPDY; here that kubelet refuses them, and kubectl then tries SPDY.
"""

from __future__ import annotations

from kapi.endpoints.authorization import create_check
from kapi.endpoints.connect.kubelet import Kubelets, container_of
from kapi.endpoints.connect.options import admit, forwarded_ports, refuse_dry_run, stream_options, stream_query
from kapi.endpoints.connect.transport import Transport
from kapi.endpoints.scope import RequestScope, request_name
from kapi.endpoints.tunnel import wants_upgrade
from kapi.machinery import status
from kapi.registry import read
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.shared.features import enabled


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
        target = await self._kubelets.target(node, path.encode(), query)
        if not wants_upgrade(ctx):
            raise status.bad_request("Upgrade request required")
        return await self._transport.pass_on(ctx, target)


def _forwarding(ctx: RequestContext) -> dict[str, list[int]]:
    ports = forwarded_ports(ctx)
    return {"ports": ports} if ports else {}
