"""The log of a container, from its node (upstream: ``pkg/registry/core/pod/rest/log.go``, ``rest/streamer.go``)."""

from __future__ import annotations

from typing import Any

from twisted.web.http_headers import Headers

from kapi.endpoints.connect.kubelet import Kubelets, container_of
from kapi.endpoints.connect.options import log_options, log_query
from kapi.endpoints.connect.transport import UNVERIFIED, Target, Transport, beginning
from kapi.endpoints.passing import pipe
from kapi.endpoints.scope import RequestScope, request_name
from kapi.machinery import status
from kapi.registry import read
from kapi.request.context import RequestContext
from kapi.request.response import Response, StreamResponse

_ERROR_LIMIT = 2048  # bytes of a kubelet's error that are told


class Log:
    """GET of ``pods/NAME/log``."""

    def __init__(self, kubelets: Kubelets, transport: Transport) -> None:
        self._kubelets = kubelets
        self._transport = transport

    async def __call__(self, ctx: RequestContext, scope: RequestScope) -> Response:
        info, name = ctx.info, request_name(ctx)
        assert info is not None
        options = log_options(ctx, name)
        pod = (await read.get(scope.store, info.namespace, name)).object
        container = container_of(pod, options.get("container", ""))
        node = pod["spec"].get("nodeName")
        if not node:
            return Response(204, b"", b"")  # nothing was ever written anywhere
        path = f"/containerLogs/{info.namespace}/{name}/{container}".encode()
        target = await self._kubelets.target(node, path, log_query(options))
        if options.get("insecureSkipTLSVerifyBackend"):
            target = Target(target.scheme, target.host, target.port, path, target.query, UNVERIFIED)
        answer = await self._transport.fetch(ctx, target, b"GET", Headers({b"Accept": [b"text/plain"]}))
        if not 200 <= answer.code <= 206:
            raise await _refused(answer, name)
        return StreamResponse(lambda http: pipe(answer, http), 200, b"text/plain")


async def _refused(answer: Any, name: str) -> status.StatusError:
    """What the kubelet complains about, as upstream tells it."""
    text = (await beginning(answer, _ERROR_LIMIT)).decode("utf-8", "replace")
    details = {
        "name": name,
        "kind": "pods/log",
        "causes": [{"reason": "UnexpectedServerResponse", "message": text}],
    }
    reasons = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable"}
    if answer.code == 404:
        message = f"the server could not find the requested resource ( pods/log {name})"
    elif answer.code >= 500:
        message = f"an error on the server ({text!r}) has prevented the request from succeeding ( pods/log {name})"
    else:
        message = text or f"the server responded with the status code {answer.code}"
    return status.StatusError(
        message, code=answer.code, reason=reasons.get(answer.code, "InternalError"), details=details
    )
