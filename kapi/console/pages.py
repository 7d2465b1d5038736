"""``/kapi/console``: static files, the same for every user; the page calls the API with its user's credentials.

The API does not tell which user wrote an object.  The page gets it from ``/kapi/console/authors``, if its user may GET it.

All files come from this server, which the Content-Security-Policy enforces: only scripts and styles of this server, no frames.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from kapi.console.changes import Changes
from kapi.registry.environment import Authors
from kapi.registry.registry import Registry
from kapi.request.context import RequestContext
from kapi.request.response import JSON, Response
from kapi.serving.generic import GenericServer

ROOT = "/kapi/console"
_MODULES = (
    "api", "changes", "edit", "graph", "kubeconfig", "login", "logs", "main", "metrics", "object", "overview", "page", "queues",
    "requests", "resources", "summary", "tree",
)  # fmt: skip
_FILES = {
    "index.html": b"text/html; charset=utf-8",
    "console.css": b"text/css; charset=utf-8",
    **dict.fromkeys((f"{name}.js" for name in _MODULES), b"text/javascript; charset=utf-8"),
}
_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)  # fmt: skip
#: paths without data, which anonymous users may read; and the changes, whose handler authorizes each resource
PATHS = (ROOT, f"{ROOT}/", f"{ROOT}/changes", *(f"{ROOT}/{name}" for name in _FILES))


def install_console(server: GenericServer, registry: Registry, authors: Authors) -> None:
    static = Path(__file__).with_name("static")
    for name, kind in _FILES.items():
        page = _Page((static / name).read_bytes(), kind)
        for path in ("", name) if name == "index.html" else (name,):
            server.app.route(f"{ROOT}/{path}", methods=("GET", "HEAD"), listed=False)(page.handle)

    @server.app.route(ROOT, methods=("GET", "HEAD"), listed=False)
    def to_the_page(ctx: RequestContext) -> Response:
        """Redirects to the path with a slash, since the page's links are relative to it."""
        return Response(301, b"", b"text/plain", ((b"location", ROOT.encode() + b"/"),))

    server.app.route(f"{ROOT}/changes", methods=("GET",), listed=False)(Changes(registry).handle)

    @server.app.route(f"{ROOT}/authors", methods=("GET",), listed=False)
    def show_authors(ctx: RequestContext) -> Response:
        """{"items": [{"resource": "deployments.apps", "resourceVersion": "7", "user": "admin"}]}, oldest first."""
        items = [
            {"resource": str(resource), "resourceVersion": str(revision), "user": user}
            for resource, revision, user in authors
        ]
        return Response(200, orjson.dumps({"items": items}), JSON)


class _Page:
    def __init__(self, body: bytes, kind: bytes) -> None:
        self._answer = Response(200, body, kind, _HEADERS)

    def handle(self, ctx: RequestContext) -> Response:
        return self._answer
