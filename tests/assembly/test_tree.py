"""The short cut through the chain and the tree of Klein resources choose the same server and the same handler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.web.resource import IResource

from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery.status import BadRequest, NotFound
from kapi.request.context import RequestContext
from kapi.request.parse import parse_request_info
from kapi.request.response import Response
from kapi.server.delegation import Answer, Handler
from kapi.server.generic import GenericServer
from kapi.server.not_found import NotFound as NotServed
from kapi.server.tree import descend
from kapi.testing.http import MemoryRequest
from tests.assembly.assembled import assembled

Way = Callable[[GenericServer, RequestContext], Answer]
REMOTE = "/apis/remote.example/v1"
UNKNOWN = [
    "/", "*", "/index.html", "/nothing", "/nothing/", "/nothing/at/all", "//", "//metrics", "//api/v1/pods", "///api", "/api",
    "/api/", "/api//", "/api//v1/pods", "/api/v1", "/api/v1/", "/api/v1//", "/api/v2", "/api/v2/pods", "/apifoo", "/api-v1/pods",
    "/apis", "/apis/", "/apis//", "/apis//v1/pods", "/apis/apps", "/apis/apps/", "/apis/apps/v1", "/apis/apps/v1/",
    "/apis/apps/v1//deployments", "/apis/apps/v2/deployments", "/apis/unknown.example", "/apis/unknown.example/v1",
    "/apis/unknown.example/v1/things", "/apis/apiextensions.k8s.io/v1/things", "/apis/apiregistration.k8s.io/v2",
    "/apis/apiregistration.k8s.io/v1/things", "/metrics/", "/metrics/more", "/healthz/nothing/at/all", "/version/a/b",
    "/openapi", "/openapi/v2/", "/openapi/v3/apis/apps/v1", "/debug/pprof/heap", "/debug", "/kapi", "/a\nb", "/api/v1/pods\n",
    "/healthz/\n", "/\u00e4", "/api/v1/n\u00e4mespaces", "/a b", "/version?", "/<rest:rest>", f"{REMOTE}/things", REMOTE,
    f"{REMOTE}/", "/apis/remote.example", "/apis/remote.example/v2/things",
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> GenericServer:
    directory: Path = tmp_path_factory.mktemp("data")
    server = assembled(directory, "--enable-fault-injection").chain.aggregator
    extensions = list(chain(server))[2]
    custom = next(scope.resource for scope in extensions.table.scopes())
    extensions.table.add(dataclasses.replace(custom, group="example.com"), None)
    return server


def chain(outermost: GenericServer) -> Iterator[GenericServer]:
    """The servers, outermost first."""
    server: Any = outermost
    while isinstance(server, GenericServer):
        yield server
        server = server.delegate


def short_cut(server: GenericServer, ctx: RequestContext) -> Answer:
    return server.handle(ctx)


WAYS: tuple[Way, Way] = (short_cut, descend)


class Asked:
    """Who is asked on the way down, in place of the handlers: each answers, or each passes the request on."""

    def __init__(self, outermost: GenericServer, patch: pytest.MonkeyPatch, *, passes: bool) -> None:
        self.outermost = outermost
        self.seen: list[str] = []
        self._passes = passes
        for server in chain(outermost):
            for table in (server.exact, server.below):
                for path in table:
                    patch.setitem(table, path, self._handler(f"{server.name} {path}"))
            if server.discovery is not None:
                patch.setattr(server, "discovery", self._handler(f"{server.name} discovery"))
            patch.setattr(server.table, "handle", self._table(server.name, server.table))
        patch.setattr(outermost, "_lister", SimpleNamespace(get=self._service))
        patch.setattr(outermost, "_proxy", SimpleNamespace(handle=lambda ctx, name: self._answer(f"proxy {name}")))

    def _service(self, namespace: str, name: str) -> Any:
        available = [{"type": "Available", "status": "True"}]
        found = {"metadata": {"name": name}, "spec": {"service": {}}, "status": {"conditions": available}}
        return found if name == "v1.remote.example" else None

    def _answer(self, name: str) -> Response:
        self.seen.append(name)
        return Response(200, name.encode())

    def _handler(self, name: str) -> Handler:
        def handler(ctx: RequestContext) -> Answer:
            answer = self._answer(name)
            return None if self._passes else answer

        return handler

    def _table(self, name: str, table: ResourceTable) -> Handler:
        def handle(ctx: RequestContext) -> Answer:
            info = ctx.info
            assert info is not None
            if table.scope(info.group, info.version, info.resource) is None:
                self.seen.append(f"{name} table")
                return None
            return self._answer(f"{name} {info.group} {info.version} {info.resource}")

        return handle

    def by(self, way: Way, method: str, path: str) -> list[str] | None:
        """The names of those who were asked, and how it ended; None for a request that gets no further than its filters."""
        ctx = RequestContext(MemoryRequest(method, "/"), method, path, {})
        try:
            ctx.info = parse_request_info(method, path, {})
        except BadRequest:
            return None
        self.seen = []
        try:
            answer = way(self.outermost, ctx)
        except NotFound as error:
            return [*self.seen, error.message]
        assert isinstance(answer, Response) and isinstance(answer.body, bytes)
        return [*self.seen, answer.body.decode()]


def served_paths(outermost: GenericServer) -> Iterator[str]:
    """Of every kind that a server of the chain has: all paths that its row allows, and some it does not."""
    yield from outermost.listed_paths()
    for server in chain(outermost):
        yield from server.exact
        for prefix in server.below:
            yield from (prefix, prefix + "x", prefix + "x/y")
        for scope in server.table.scopes():
            row = scope.resource
            base = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
            for prefix in (base, f"{base}/watch", f"{base}/namespaces/a"):
                yield from (f"{prefix}/{row.plural}", f"{prefix}/{row.plural}/", f"{prefix}/{row.plural}/b")
                yield from (f"{prefix}/{row.plural}/b/{sub.name}" for sub in row.subresources)
                yield f"{prefix}/{row.plural}/b/unknown/more"


@pytest.mark.parametrize("passes", [False, True])
def test_both_ways_ask_the_same(server: GenericServer, passes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(server, monkeypatch, passes=passes)
    different = []
    paths = {*served_paths(server), *UNKNOWN}
    for path in sorted(paths):
        for method in ("GET", "POST"):
            found = [asked.by(way, method, path) for way in WAYS]
            if found[0] != found[1]:
                different.append(f"{method} {path!r}: {found}")
    assert not different, "\n".join(different)
    assert len(paths) > 1_200


@pytest.mark.parametrize("way", WAYS)
def test_each_server_answers_what_is_its_own(server: GenericServer, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(server, monkeypatch, passes=False)

    def last(path: str) -> Any:
        found = asked.by(way, "GET", path)
        return found and found[-1]

    assert last("/api/v1/namespaces/a/pods/b") == "kube-apiserver  v1 pods"
    assert (
        last("/apis/apiregistration.k8s.io/v1/apiservices") == "kube-aggregator apiregistration.k8s.io v1 apiservices"
    )
    assert last("/apis/example.com/v1/customresourcedefinitions").startswith("apiextensions-apiserver example.com")
    assert last("/metrics") == "kube-aggregator /metrics"
    assert last("/kapi/settled") == "kube-apiserver /kapi/settled"
    assert last(f"{REMOTE}/things") == "proxy v1.remote.example"
    assert last("/nothing") == last("//metrics") == "404 page not found\n"
    assert last("/api/v2/pods") == "the server could not find the requested resource"


@pytest.mark.parametrize("way", WAYS)
def test_what_a_handler_raises_is_raised(way: Way) -> None:
    def broken(ctx: RequestContext) -> Answer:
        raise ZeroDivisionError

    server = GenericServer("test", NotServed())
    server.route("/broken", broken)
    ctx = RequestContext(MemoryRequest("GET", "/broken"), "GET", "/broken", {})
    ctx.info = parse_request_info("GET", "/broken", {})
    with pytest.raises(ZeroDivisionError):
        way(server, ctx)


def test_a_path_is_served_once() -> None:
    server = GenericServer("test", NotServed())
    server.route("/one", lambda ctx: None)
    with pytest.raises(ValueError, match="/one is served already"):
        server.route("/one", lambda ctx: None)
    server.resource()
    with pytest.raises(ValueError, match="/two comes too late"):
        server.route("/two", lambda ctx: None)


def test_the_tree_is_made_of_klein_resources(server: GenericServer) -> None:
    for each in chain(server):
        assert IResource.providedBy(each.resource())
        assert {"/api/<rest:rest>", "/apis/<rest:rest>", "/<rest:rest>"} <= {
            rule.rule for rule in each.app.url_map.iter_rules()
        }
