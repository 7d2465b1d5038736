"""The delegation chain as a tree of Klein resources (upstream: apiserver ``server/handler.go``, APIServerHandler and director).

Each server of the chain has a Klein app; its routes are what it serves, and its last branch is the next server's resource.  A
request has passed the filters before it enters the tree.  An endpoint stores its answer in it as a value, and the caller of the
tree writes the answer.  So errors, deadlines and waiting are the same with and without the tree.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from klein import Klein
from klein.interfaces import IKleinRequest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET
from werkzeug.routing import BaseConverter
from zope.interface import implementer

from kapi.request.context import RequestContext
from kapi.server.delegation import Answer, Delegate, Handler


class Rest(BaseConverter):
    """The rest of a path: may be empty, and may begin with a slash (werkzeug's ``path`` may not)."""

    part_isolating = False
    regex = "(?s:.*)"


@implementer(IKleinRequest)
class RoutedRequest:
    """The request as Klein sees it, with the endpoint's answer."""

    def __init__(self, ctx: RequestContext) -> None:
        self.ctx = ctx
        self.method = ctx.method.encode()
        self.prepath: list[bytes] = []
        self.postpath: list[bytes] = []
        self.mapper: Any = None  # Klein's URL mapper of the current resource
        self.branch_segments = [""]
        self.answer: Answer = None
        self.failure: Failure | None = None

    def render(self, resource: Any) -> None:
        """Renders a resource; each server of the chain sees the whole path."""
        self.prepath, self.postpath = [], self.ctx.path.removeprefix("/").encode().split(b"/")
        resource.render(self)

    def url_for(
        self,
        endpoint: str,
        values: Mapping[str, Any] | None = None,
        method: str | None = None,
        force_external: bool = False,
        append_unknown: bool = True,
    ) -> str:
        url: str = self.mapper.build(endpoint, values, method, force_external, append_unknown)
        return url

    def getRequestHostname(self) -> bytes:
        return b"kapi"

    def getHost(self) -> None:
        """Routes do not depend on the address."""

    def isSecure(self) -> bool:
        return False

    def notifyFinish(self) -> Deferred[None]:
        """Never fires: an answer exists at once, or is awaited outside of the tree."""
        return Deferred()

    def finish(self) -> None:
        """Does nothing: the answer is a value."""

    def processingFailed(self, failure: Failure) -> None:
        self.failure = failure


class End(Resource):
    """The leaf after the last server."""

    isLeaf = True

    def __init__(self, handler: Handler) -> None:
        super().__init__()
        self._handler = handler

    def render(self, request: IRequest) -> int:
        routed = cast(RoutedRequest, request)
        routed.answer = self._handler(routed.ctx)
        return NOT_DONE_YET


class Served(Protocol):
    """A server of the chain, as its Klein app sees it."""

    delegate: Delegate
    exact: dict[str, Handler]
    below: dict[str, Handler]

    def api(self, ctx: RequestContext) -> Answer:
        """Answers paths below /api and /apis."""


def klein_app(server: Served) -> Klein:
    """An app whose routes are what the server serves, and whose last branch is the next server."""
    app = Klein()
    app.url_map.converters = {**app.url_map.converters, "rest": Rest}

    def add(rule: str, find: Callable[[], Handler]) -> None:
        def endpoint(request: RoutedRequest, rest: str = "") -> IResource | None:
            request.answer = answer = find()(request.ctx)
            return server.delegate.resource() if answer is None else None

        # our endpoints take a RoutedRequest, where Klein's type is twisted.web's request
        app.route(rule, strict_slashes=True, merge_slashes=False, endpoint=rule)(cast(Any, endpoint))

    for prefix in ("/api", "/apis"):
        add(prefix, lambda: server.api)
        add(f"{prefix}/<rest:rest>", lambda: server.api)
    for path in server.exact:
        add(path, functools.partial(server.exact.__getitem__, path))
    for path in server.below:
        add(f"{path}<rest:rest>", functools.partial(server.below.__getitem__, path))
    add("/<rest:rest>", lambda: _pass_on)
    return app


def _pass_on(ctx: RequestContext) -> None:
    """Passes a request to the next server."""


def descend(outermost: Delegate, ctx: RequestContext) -> Answer:
    """The answer of the tree.  Raises what its endpoint raises."""
    routed = RoutedRequest(ctx)
    # no route begins with two slashes, but werkzeug would merge them into one
    routed.render(outermost.end() if ctx.path.startswith("//") else outermost.resource())
    if routed.failure is not None:
        routed.failure.raiseException()
    return routed.answer
