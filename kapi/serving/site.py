"""The site of a server: its resources are the tree of Klein apps (upstream: apiserver ``server/handler.go``, APIServerHandler).

A request has passed the filters when its resource is looked for.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cached_property

from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure
from twisted.web import server
from twisted.web.resource import IResource

from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.generic import Delegate
from kapi.serving.request import APIRequest
from kapi.serving.routing import LookUp, Rendered
from kapi.serving.runner import RequestRunner


class Site(server.Site):
    """A site whose root is the outermost server of a chain."""

    #: tests switch it off: then every request goes through the Klein apps
    short_cut = True

    runner: RequestRunner  # from ``run_by`` on
    requestFactory: type[APIRequest]

    def __init__(self, outermost: Delegate, reactor: IReactorTime) -> None:
        super().__init__(outermost.resource(), reactor=reactor)
        self._outermost = outermost

    def run_by(self, runner: RequestRunner) -> None:
        """Has requests run by ``runner``: the filters, which call ``answer`` in the end."""
        self.runner = runner
        self.requestFactory = type("BoundRequest", (APIRequest,), {"runner": runner, "site": self})

    @cached_property
    def _look_up(self) -> LookUp:
        return LookUp(self._outermost.apps(), self._outermost.end())

    def getResourceFor(self, request: Rendered) -> IResource:
        """The resource of a request, and the one place where the tree is cut short."""
        path = request.context.path
        found = self._look_up.find(path) if self.short_cut else None
        if found is not None:
            return found
        if path.startswith("//"):  # matches no route, as upstream, though it is authorized like a path with one slash
            return self._outermost.end()
        resource: IResource = self.resource  # a leaf of twisted.web: each app matches the whole path
        return resource

    def answer(self, ctx: RequestContext) -> Response | Awaitable[Response]:
        """The answer of the tree to a request that has passed the filters.  Raises what its handler raises."""
        request = ctx.http
        before, request.context = request.context, ctx
        try:
            request.render(self.getResourceFor(request))  # type: ignore[arg-type]
        finally:
            request.context = before
        found, ctx.answer = ctx.answer, None
        if isinstance(found, Failure):
            found.raiseException()
        return found  # type: ignore[return-value]  # what a handler has returned
