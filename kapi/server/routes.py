"""The fixed paths of the outermost server: /, /version, /metrics, health (upstream: apiserver ``server/routes``)."""

from __future__ import annotations

import platform

import orjson
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from kapi.codecs.accept import route_accepts
from kapi.machinery import status
from kapi.machinery.checkpoint import in_slices
from kapi.machinery.each import costly
from kapi.request.context import RequestContext
from kapi.request.response import JSON, Response
from kapi.server.generic import GenericServer
from kapi.server.health import HealthChecks
from kapi.server.metrics import Metrics

MAJOR, MINOR = "1", "36"
VERSION = {
    "major": MAJOR,
    "minor": MINOR,
    "emulationMajor": MAJOR,
    "emulationMinor": MINOR,
    "minCompatibilityMajor": MAJOR,
    "minCompatibilityMinor": "35",
    "gitVersion": f"v{MAJOR}.{MINOR}.2+kapi",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": f"python{platform.python_version()}",
    "compiler": platform.python_implementation().lower(),
    "platform": f"linux/{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }",
}


def nothing(ctx: RequestContext) -> Response:
    """Raises NotFound for a path below a fixed path, so that no delegate answers it."""
    raise status.no_such_resource()


def install_version(server: GenericServer) -> None:
    body = orjson.dumps(VERSION, option=orjson.OPT_INDENT_2)

    def version(ctx: RequestContext) -> Response:
        if not route_accepts(ctx.header("accept") or "", ("application/json",)):
            raise status.NotAcceptable("406: Not Acceptable\n\nAvailable representations: application/json", details={})
        return Response(200, body, JSON)

    server.route("/version", version, methods=("GET",))
    server.route("/version/", version, methods=("GET",), listed=False)
    server.route_below("/version", lambda ctx: nothing(ctx) if ctx.path.rstrip("/") != "/version" else version(ctx))


def install_health(server: GenericServer, endpoints: list[HealthChecks]) -> None:
    for checks in endpoints:
        server.route(checks.path, checks.handle)
        server.route_below(checks.path, checks.handle)
    server.more_paths.append(lambda: [path for checks in endpoints for path in checks.paths])


def install_metrics(server: GenericServer, metrics: Metrics) -> None:
    async def exposition(ctx: RequestContext) -> Response:
        await in_slices
        return Response(200, b"".join(costly(metrics.exposition())), CONTENT_TYPE_LATEST.encode())

    server.route("/metrics", exposition)


def install_index(server: GenericServer) -> None:
    """/ and /index.html list every path."""

    def index(ctx: RequestContext) -> Response:
        return Response(200, orjson.dumps({"paths": server.listed_paths()}, option=orjson.OPT_INDENT_2), JSON)

    server.route("/", index, listed=False)
    server.route("/index.html", index, listed=False)
