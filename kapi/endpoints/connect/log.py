"""The log of a container, from its node (upstream: ``pkg/registry/core/pod/rest/log.go``, ``rest/streamer.go``)."""

from __future__ import annotations

from msgspec.structs import replace

from kapi.endpoints.connect.kubelet import Kubelets, container_of
from kapi.endpoints.connect.options import log_options, log_query
from kapi.endpoints.connect.transport import UNVERIFIED, Target, Transport, Unreachable, beginning
from kapi.endpoints.passing import piped
from kapi.endpoints.scope import RequestScope, request_name
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
        by_stream = enabled(scope.store.environment.features, "PodLogsQuerySplitStreams")
        options = log_options(ctx, name, by_stream)
        pod = (await read.get(scope.store, info.namespace, name)).object
        container = container_of(pod, options.get("container", ""))
        node = pod["spec"].get("nodeName")
        if not node:
            return Response(204, b"", b"")  # the pod is not scheduled, so there is no log
        path = f"/containerLogs/{info.namespace}/{name}/{container}".encode()
        target = await self._kubelets.target(node, path, log_query(options))
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
