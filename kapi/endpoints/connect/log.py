"""The log of a container, from its node (upstream: ``pkg/registry/core/pod/rest/log.go``, ``rest/streamer.go``)."""

from __future__ import annotations

from msgspec.structs import replace

from kapi.endpoints.connect.kubelet import Kubelets, container_of
from kapi.endpoints.connect.options import log_options, log_query
from kapi.endpoints.connect.transport import UNVERIFIED, Target, Transport, Unreachable, beginning
from kapi.endpoints.passing import piped
from kapi.endpoints.scope import RequestScope, request_name
from kapi.machinery import golang, status
from kapi.registry import read
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.shared.features import enabled
from kapi.wire.answer import Answer

_MAX_ERROR_BYTES = 50_000  # the most bytes of a kubelet's error that are shown
_REDIRECTS = frozenset([301, 302, 303, 307, 308])
_NO_MORE = "the server responded with the status code"
_LATER = "the server has received too many requests and has asked us to try again later"
_SLOW = "the server was unable to return a response in the time allotted, but may still be processing the request"
_KNOWN = {
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", ""),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    406: ("NotAcceptable", "the server was unable to respond with a content type that the client supports"),
    409: ("Conflict", "the server reported a conflict"),
    415: ("UnsupportedMediaType", ""),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: ("TooManyRequests", _LATER),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", _SLOW),
}


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
    """The API error for an error response of the kubelet (upstream: client-go ``NewGenericServerResponse``)."""
    text = (await beginning(answer, _MAX_ERROR_BYTES)).decode("utf-8", "replace")
    code = answer.code
    if code == 500:
        return status.internal(text)
    if code == 400:
        return status.bad_request(text)
    reason, message = _KNOWN.get(code, ("", f"{_NO_MORE} {code} but did not return more information"))
    if code in (403, 415):
        message = text
    elif code == 406 and text not in ("", "unknown"):
        message = text
    elif code > 500 and not reason:
        reason = "InternalError"
        message = f"an error on the server ({golang.quote(text)}) has prevented the request from succeeding"
    details = {"name": name, "kind": "pods/log"}
    return status.StatusError(f"{message} ( pods/log {name})", code=code, reason=reason, details=details)
