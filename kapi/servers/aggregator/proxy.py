"""The proxy to the servers behind APIServices (upstream: kube-aggregator ``handler_proxy.go``).

The backend reads the user from request headers, which it trusts because of the proxy's client certificate.  Redirects are
neither followed nor sent to the client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import NoReturn

from twisted.internet.defer import Deferred

from kapi.endpoints.proxy_handler import PLAIN, Destination, NotPassedOn, ProxyHandler
from kapi.process.reactor import Reactor
from kapi.request.context import RequestContext
from kapi.request.response import Response, StreamResponse
from kapi.request.user import UserInfo
from kapi.servers.aggregator.backend import Backend, Backends
from kapi.wire.head import Header

UNAVAILABLE = b"service unavailable\n"
#: the most servers that a request may have passed.  Two servers that aggregate each other pass a request on in a circle, with a
#: connection for each round, until a probe finds out
MAX_HOPS = 16
#: for the whole answer to a request for the resources of a group version: clients wait for all of them
DISCOVERY_SECONDS = 5.0
LOOP = b"the request has come through too many servers: APIServices of these servers lead in a circle\n"


def unavailable() -> Response:
    """The answer (503) while no endpoint of the service is available."""
    return Response(503, UNAVAILABLE, PLAIN, ((b"x-content-type-options", b"nosniff"),))


def not_passed_on(problem: NotPassedOn) -> Response:
    """The answer (503) when no endpoint has answered."""
    return Response(503, f"{problem}\n".encode(), PLAIN)


def destination(ctx: RequestContext, backend: Backend, user: UserInfo, *more: Header) -> Destination:
    """One of the targets of a server, with the headers for a request of this user."""
    target = backend.pick()
    return Destination(
        uri=ctx.http.uri,
        host=backend.name.encode(),
        dialed=(target.host, target.port),
        connect=lambda: backend.endpoint(target),
        pool=lambda: backend.pool(target),
        user=user,
        more=[(b"Audit-ID", ctx.audit_id.encode()), *more],
        forwarded=[(b"X-Forwarded-Proto", b"https"), (b"X-Forwarded-Uri", ctx.http.uri.partition(b"?")[0])],
        not_back=frozenset([b"audit-id"]),
    )


def _late(result: object, seconds: float) -> NoReturn:
    text = "error trying to reach service: context deadline exceeded"
    raise NotPassedOn(text, TimeoutError(text))


class ReverseProxy:
    """Proxies requests.  ``backends`` has the server of each APIService, by its name.

    ``failed`` is called with the name of an APIService whose server could not be reached; ``rejects_redirects``: a redirect of
    the server is an error.
    """

    def __init__(
        self,
        reactor: Reactor,
        backends: Backends,
        failed: Callable[[str], None] = lambda key: None,
        rejects_redirects: bool = True,
        sends_uid: bool = True,
    ) -> None:
        self._handler = ProxyHandler(reactor, rejects_redirects=rejects_redirects)
        self._reactor = reactor
        self._failed = failed
        self._sends_uid = sends_uid
        self.backends = backends

    def close(self) -> Deferred[list[None]]:
        return self.backends.close()

    def handle(self, ctx: RequestContext, key: str) -> Response | Awaitable[Response]:
        """The backend's answer; 503 when it cannot be reached, 508 when the request came through too many servers."""
        backend = self.backends.get(key)
        if backend is None or ctx.user is None:
            return unavailable()
        if (ctx.header("x-forwarded-for") or "").count(",") >= MAX_HOPS:
            return Response(508, LOOP, PLAIN, ((b"x-content-type-options", b"nosniff"),))
        user = ctx.user if self._sends_uid else replace(ctx.user, uid="")
        return self._pass_on(ctx, key, destination(ctx, backend, user))

    async def _pass_on(self, ctx: RequestContext, key: str, destination: Destination) -> Response:
        answer = self._handler.handle(ctx, destination)
        try:
            if ctx.path.strip("/").count("/") != 2:
                return await answer
            return await self._in_time(ctx, answer)
        except NotPassedOn as problem:
            if problem.is_backends_fault:
                self._failed(key)
            return not_passed_on(problem)

    async def _in_time(self, ctx: RequestContext, answer: Coroutine[Deferred[object], object, Response]) -> Response:
        """An answer that begins and ends within DISCOVERY_SECONDS; a body that does not ends the client's connection."""
        end = self._reactor.seconds() + DISCOVERY_SECONDS
        response = await Deferred.fromCoroutine(answer).addTimeout(DISCOVERY_SECONDS, self._reactor, _late)
        if isinstance(response, StreamResponse):
            late = self._reactor.callLater(max(0.0, end - self._reactor.seconds()), ctx.http.abort)

            def finish(ctx: RequestContext, code: int) -> None:
                if late.active():
                    late.cancel()

            ctx.finishers.append(finish)
        return response
