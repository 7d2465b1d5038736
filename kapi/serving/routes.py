"""The fixed paths of the outermost server: / and /version (upstream: apiserver ``server/routes``)."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from kapi.codecs.accept import route_accepts
from kapi.machinery import status
from kapi.machinery.lifecycles import EffectiveVersion
from kapi.machinery.version import version_info
from kapi.request.context import RequestContext
from kapi.request.response import JSON, Response
from kapi.serving.routing import Routes


class Version:
    """The version of the API that is served."""

    app = Routes()

    def __init__(self, version: EffectiveVersion) -> None:
        self._body = orjson.dumps(version_info(version), option=orjson.OPT_INDENT_2)

    @app.route("/version", branch=True)
    def version(self, ctx: RequestContext) -> Response:
        if ctx.path.rstrip("/") != "/version":
            raise status.no_such_resource()
        if ctx.method != "GET":
            raise status.method_not_allowed()
        if not route_accepts(ctx.header("accept") or "", ("application/json",)):
            raise status.NotAcceptable("406: Not Acceptable\n\nAvailable representations: application/json", details={})
        return Response(200, self._body, JSON)


class Index:
    """The list of all paths; ``paths`` returns them."""

    app = Routes()

    def __init__(self, paths: Callable[[], list[str]]) -> None:
        self._paths = paths

    @app.route("/", listed=False)
    @app.route("/index.html", listed=False)
    def index(self, ctx: RequestContext) -> Response:
        return Response(200, orjson.dumps({"paths": self._paths()}, option=orjson.OPT_INDENT_2), JSON)
