"""The routes of one server of the chain, and the look-up that is compiled from the routes of all its servers.

Each server has a Klein app.  Its last branch is the next server, so that the apps are one tree.  ``LookUp`` is a short cut
through the tree: it finds in a dict what Klein finds with regular expressions, server by server.

Upstream: apiserver ``server/handler.go`` (APIServerHandler, director) and ``server/mux`` (PathRecorderMux).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from klein import Klein
from klein.resource import KleinResource
from twisted.python.failure import Failure
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET
from werkzeug.exceptions import HTTPException
from werkzeug.routing import BaseConverter, Rule

from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.response import Response

#: None passes the request on
Answer = Response | Awaitable[Response] | None
#: takes a RequestContext, and the values of a route's converters
Handler = Callable[..., Answer]
_BELOW = "<path:__rest__>"  # Klein's rule for everything below a branch
Function = TypeVar("Function", bound=Handler)


class Rendered(Protocol):
    """A request whose resource is rendered."""

    context: RequestContext
    prepath: list[bytes]
    postpath: list[bytes]


class Rest(BaseConverter):
    """The rest of a path: may be empty, and may begin with a slash (werkzeug's ``path`` may not)."""

    part_isolating = False
    regex = "(?s:.*)"


class _Rule(Rule):
    """A rule that cannot build URLs: compiling the functions for it would take most of a rule's time, and no code uses them."""

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        return _no_url


def _no_url(rule: Rule, **values: object) -> tuple[str, str]:
    raise NotImplementedError("URLs are not made from routes")


class Endpoint(NamedTuple):
    """What a Klein app keeps for a rule."""

    handler: Handler
    segment_count: int = 0  # of twisted.web's ``postpath`` that the rule takes: the next server matches the whole path


class Route(NamedTuple):
    """A route of a method: ``options`` are the arguments of ``Routes.route``."""

    url: str
    method: str
    options: Mapping[str, Any]


class Routes(Klein):
    """A Klein app whose handlers take a RequestContext, and the values of the URL's converters; they return an answer.

    The answer None passes a request on to ``mounted``, the resource of the next server.

    As an attribute of a class it only collects the routes of the methods; ``include`` adds them to the app of a server.
    """

    def __init__(self, mounted: Callable[[], IResource] | None = None, inherited: Routes | None = None) -> None:
        super().__init__()
        self.url_map.converters["path"] = Rest
        self.url_map.merge_slashes = False
        self._of_methods: list[Route] = [] if inherited is None else list(inherited._of_methods)
        #: paths that are listed at /
        self.listed: list[str] = []
        #: a look-up was compiled from the routes, so that no more can be added
        self.compiled = False
        self._mounted = mounted
        if mounted is not None:
            self._add(f"/{_BELOW}", _pass_on)
            self.handle_errors(HTTPException)(lambda request, failure: mounted())

    def route(  # type: ignore[override]  # Klein's handlers take a request, and its routes all options of werkzeug
        self, url: str, *, branch: bool = False, methods: Iterable[str] = (), listed: bool = True
    ) -> Callable[[Function], Function]:
        """Adds a route for ``url``; a ``branch`` also has all paths below it without a route of their own.

        A method that is not in ``methods`` is answered 405; without ``methods`` all are allowed.  Raises ValueError.
        """

        def add(function: Function) -> Function:
            allowed = frozenset(methods)
            self._of_methods.append(
                Route(url, function.__name__, {"branch": branch, "methods": allowed, "listed": listed})
            )
            handler = _only(allowed, function) if allowed else function
            self._add(url, handler)
            if branch:
                self._add(f"{url}/{_BELOW}", handler)
            if listed:
                self.listed.append(url)
            return function

        return add

    def _add(self, rule: str, handler: Handler) -> None:
        if rule in self.served:
            raise ValueError(f"{rule} is served already")
        if self.compiled:
            raise ValueError(f"{rule} comes too late: the look-up is compiled")
        self.served[rule] = Endpoint(handler)
        self.url_map.add(_Rule(rule, endpoint=rule))

    @property
    def urls(self) -> list[str]:
        """The URLs of the collected routes."""
        return [route.url for route in self._of_methods]

    def include(self, part: object) -> None:
        """Adds the routes of the methods of ``part``, whose class has collected them in ``app``.  Raises ValueError."""
        collected: Routes = type(part).app  # type: ignore[attr-defined]
        for url, method, options in collected._of_methods:
            self.route(url, **options)(getattr(part, method))

    def __get__(self, instance: object, owner: object) -> Routes:
        """What a class has collected is not bound by access, but by ``include``."""
        return self

    @property
    def served(self) -> dict[str, Endpoint]:
        """The handlers by rule."""
        return cast("dict[str, Endpoint]", self.endpoints)

    def execute_endpoint(  # type: ignore[override]
        self, endpoint: str, request: Rendered, *args: object, **kwargs: object
    ) -> IResource:
        """Called by Klein for the rule that matches; returns the resource to render after it."""
        kwargs.pop("__rest__", None)
        ctx = request.context
        _answer(ctx, self.served[endpoint].handler, **kwargs)
        return self._mounted() if ctx.answer is None and self._mounted is not None else _ANSWERED

    def resource(self) -> KleinResource:
        return _WholePath(self)


def _only(methods: frozenset[str], handler: Handler) -> Handler:
    def handle(ctx: RequestContext, **values: object) -> Answer:
        if ctx.method not in methods:
            raise status.method_not_allowed()
        return handler(ctx, **values)

    return handle


def _pass_on(ctx: RequestContext) -> None:
    """The branch of the next server."""


def _answer(ctx: RequestContext, handler: Handler, **values: object) -> None:
    """Sets the answer of a handler.  Raises nothing: Klein would write an answer of its own."""
    try:
        ctx.answer = handler(ctx, **values)
    except BaseException:
        ctx.answer = Failure()


class _WholePath(KleinResource):
    """The resource of an app, which matches the whole path also when it is mounted."""

    def render(self, request: Rendered) -> object:  # type: ignore[override]
        path = request.context.path
        request.prepath, request.postpath = [], path.removeprefix("/").encode().split(b"/")
        return super().render(request)  # type: ignore[arg-type]


class Leaf(Resource):
    """A resource that sets the answer of ``handler``."""

    isLeaf = True

    def __init__(self, handler: Handler) -> None:
        super().__init__()
        self.handler = handler

    def render(self, request: Rendered) -> int:
        _answer(request.context, self.handler)
        return NOT_DONE_YET


class _Answered(Resource):
    """Renders nothing: the answer is set."""

    isLeaf = True

    def render(self, request: Rendered) -> int:
        return NOT_DONE_YET


_ANSWERED = _Answered()


class Found(Resource):
    """The handlers of a path, those of the outermost server first.  The first answer counts.  Raises what a handler raises."""

    isLeaf = True

    def __init__(self, handlers: tuple[Handler, ...]) -> None:
        super().__init__()
        self._handlers = handlers

    def render(self, request: Rendered) -> int:
        ctx = request.context
        for handler in self._handlers:
            answer = handler(ctx)
            if answer is not None:
                ctx.answer = answer
                break
        return NOT_DONE_YET


class LookUp:
    """Finds the handlers of a path in the routes of a chain of servers, outermost first; ``end`` is the resource after them."""

    def __init__(self, apps: Sequence[Routes], end: Leaf) -> None:
        self._end = end.handler
        self._tables = [_table(app) for app in apps]
        exact = {path for table, _ in self._tables for path in table}
        below = {prefix for _, prefixes in self._tables for prefix in prefixes}
        self._exact = {path: self._found(path) for path in exact}
        #: by the first segment of a path, the longest prefix first
        self._below: dict[str, list[tuple[str, Found | None]]] = {}
        for prefix in sorted(below - {"/"}, key=len, reverse=True):
            found = self._found(prefix, exactly=False)
            self._below.setdefault(_first_segment(prefix), []).append((prefix, found))
        self._others = self._found("/", exactly=False)

    def find(self, path: str) -> Found | None:
        """None for a path that may match a route with converters: the tree finds it."""
        if path in self._exact:
            return self._exact[path]
        for prefix, found in self._below.get(path[: path.find("/", 1) + 1], ()):  # by the first segment
            if path.startswith(prefix):
                return found
        return self._others

    def _found(self, path: str, *, exactly: bool = True) -> Found | None:
        """The handlers of a path, or with ``exactly=False`` of the paths below a prefix."""
        handlers = []
        for exact, below in self._tables:
            if exactly and path in exact:
                handlers.append(exact[path])
                continue
            prefixes = [prefix for prefix in below if path.startswith(prefix)]
            if prefixes:
                handler = below[max(prefixes, key=len)]
                if handler is None:
                    return None
                handlers.append(handler)
        return Found((*handlers, self._end))


def _first_segment(path: str) -> str:
    """With both slashes; "" when there is no second one."""
    return path[: path.find("/", 1) + 1]


def _table(app: Routes) -> tuple[dict[str, Handler], dict[str, Handler | None]]:
    """The handlers of paths, and of the paths below prefixes; None: a rule with converters decides."""
    exact: dict[str, Handler] = {}
    below: dict[str, Handler | None] = {}
    app.compiled = True
    for rule in app.url_map.iter_rules():
        prefix, mark, _ = rule.rule.partition("<")
        handler = app.served[rule.endpoint].handler
        if not mark:
            exact[rule.rule] = handler
        elif rule.rule != prefix + _BELOW:
            below[prefix[: prefix.rfind("/") + 1]] = None
        elif handler is not _pass_on:
            below.setdefault(prefix, handler)
    return exact, below
