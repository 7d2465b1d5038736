"""The look-up and the tree of Klein apps choose the same server and the same handler."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from klein import Klein
from twisted.internet.task import Clock
from twisted.web.resource import IResource

from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery.status import BadRequest, MethodNotAllowed, NotFound
from kapi.request.context import RequestContext
from kapi.request.parse import parse_request_info
from kapi.request.response import Response
from kapi.resources.catalogue import BUILT_IN
from kapi.servers.core.install import install
from kapi.serving.generic import GenericServer
from kapi.serving.generic import NotFound as NotServed
from kapi.serving.routing import Answer, Endpoint, Handler
from kapi.serving.site import Site
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI
from tests.assembly.assembled import assembled

MOUNT = "/<path:__rest__>"  # of the next server
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
    server = assembled(directory, "--testbed", "--enable-fault-injection").chain.aggregator
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


def site(server: GenericServer, short_cut: bool) -> Site:
    """Requests take the look-up, or go from app to app."""
    made = Site(server, Clock())
    made.short_cut = short_cut
    return made


WAYS = pytest.mark.parametrize("short_cut", [True, False], ids=["look-up", "tree"])


class Asked:
    """Who is asked on the way down, in place of the handlers: each answers, or each passes the request on."""

    def __init__(self, outermost: GenericServer, patch: pytest.MonkeyPatch, *, passes: bool) -> None:
        self.outermost = outermost
        self.seen: list[str] = []
        self._passes = passes
        for server in chain(outermost):
            for rule, endpoint in list(server.app.endpoints.items()):
                if rule != MOUNT and endpoint.handler != server.api:
                    patch.setitem(server.app.endpoints, rule, Endpoint(self._handler(f"{server.name} {rule}")))
            if server.discovery is not None:
                patch.setattr(server, "discovery", self._handler(f"{server.name} discovery"))
            patch.setattr(server.table, "handle", self._table(server.name, server.table))
        self._sites = {short_cut: site(outermost, short_cut) for short_cut in (True, False)}
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

    def by(self, short_cut: bool, method: str, path: str) -> list[str] | None:
        """The names of those who were asked, and how it ended; None for a request that gets no further than its filters."""
        ctx = RequestContext(MemoryRequest(method, "/"), method, path, {})
        try:
            ctx.info = parse_request_info(method, path, {})
        except BadRequest:
            return None
        self.seen = []
        try:
            answer = self._sites[short_cut].answer(ctx)
        except NotFound as error:
            return [*self.seen, error.message]
        assert isinstance(answer, Response) and isinstance(answer.body, bytes)
        return [*self.seen, answer.body.decode()]


def served_paths(outermost: GenericServer) -> Iterator[str]:
    """Of every kind that a server of the chain has: all paths that its row allows, and some it does not."""
    yield from outermost.listed_paths()
    for server in chain(outermost):
        for rule in server.app.endpoints:
            prefix, below, _ = rule.partition("<")
            yield from (prefix, prefix + "x", prefix + "x/y") if below else (rule,)
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
            found = [asked.by(short_cut, method, path) for short_cut in (True, False)]
            if found[0] != found[1]:
                different.append(f"{method} {path!r}: {found}")
    assert not different, "\n".join(different)
    assert len(paths) > 1_200


@WAYS
def test_each_server_answers_what_is_its_own(
    server: GenericServer, short_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(server, monkeypatch, passes=False)

    def last(path: str) -> Any:
        found = asked.by(short_cut, "GET", path)
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


def ask(server: GenericServer, short_cut: bool, path: str, method: str = "GET") -> Any:
    """The answer.  Raises what its handler raises."""
    ctx = RequestContext(MemoryRequest(method, path, {"Host": "a..b"}), method, path, {})
    ctx.info = parse_request_info(method, path, {})
    return site(server, short_cut).answer(ctx)


@WAYS
def test_what_a_handler_raises_is_raised(short_cut: bool) -> None:
    server = GenericServer("test", NotServed())

    @server.app.route("/broken")
    def broken(ctx: RequestContext) -> Answer:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask(server, short_cut, "/broken")


@WAYS
def test_routes_may_have_converters(short_cut: bool) -> None:
    """A path below their fixed part takes its way through the tree; all others are looked up."""
    last = GenericServer("last", NotServed())
    first = GenericServer("first", last)

    @first.app.route("/things/<int:number>")
    def thing(ctx: RequestContext, number: int) -> Answer:
        return Response(200, b"thing %d" % number)

    @first.app.route("/files/<name>.txt")
    def text(ctx: RequestContext, name: str) -> Answer:
        return Response(200, name.encode()) if name != "secret" else None

    @last.app.route("/things", branch=True)
    def things(ctx: RequestContext) -> Answer:
        return Response(200, f"all {ctx.path}".encode())

    def body(path: str) -> bytes:
        found: bytes = ask(first, short_cut, path).body
        return found

    assert body("/things/12") == b"thing 12"
    assert body("/things/a") == b"all /things/a" and body("/things") == b"all /things"
    assert body("/files/a.txt") == b"a"
    assert body("/files/secret.txt") == body("/files/a") == body("/none") == b"404 page not found\n"


def test_a_server_knows_the_resources_of_those_behind_it_as_well() -> None:
    last = GenericServer("last", NotServed())
    first = GenericServer("first", last)
    for server, group in ((first, "apps"), (last, "batch")):
        install(server.table, MemoryAPI(()).registry, [row for row in BUILT_IN if row.group == group])
    served = [("apps", "v1", "deployments", "scale"), ("batch", "v1", "jobs", "")]
    assert [first.serves_resource(*each) for each in served] == [True, True]
    assert [last.serves_resource(*each) for each in served] == [False, True]
    assert not first.serves_resource("apps", "v1", "deployments", "binding")


@WAYS
def test_a_route_may_have_methods(short_cut: bool) -> None:
    server = GenericServer("test", NotServed())

    @server.app.route("/one", methods=["GET"])
    def one(ctx: RequestContext) -> Answer:
        return Response(200, b"one")

    assert ask(server, short_cut, "/one").body == b"one"
    with pytest.raises(MethodNotAllowed):
        ask(server, short_cut, "/one", "POST")


@WAYS
def test_a_slash_at_the_end_makes_another_path(short_cut: bool) -> None:
    server = GenericServer("test", NotServed())
    server.app.route("/with/")(lambda ctx: Response(200, b"with"))
    server.app.route("/without")(lambda ctx: Response(200, b"without"))
    assert ask(server, short_cut, "/with/").body == b"with" and ask(server, short_cut, "/with").status == 404
    assert ask(server, short_cut, "/without").body == b"without" and ask(server, short_cut, "/without/").status == 404


def test_a_path_is_served_once() -> None:
    server = GenericServer("test", NotServed())
    server.app.route("/one")(lambda ctx: None)
    with pytest.raises(ValueError, match="/one is served already"):
        server.app.route("/one")(lambda ctx: None)
    assert ask(server, True, "/one").status == 404
    with pytest.raises(ValueError, match="/two comes too late"):
        server.app.route("/two")(lambda ctx: None)


def test_the_tree_is_made_of_klein_apps(server: GenericServer) -> None:
    for each in chain(server):
        assert isinstance(each.app, Klein) and IResource.providedBy(each.resource())
        rules = {rule.rule for rule in each.app.url_map.iter_rules()}
        assert {"/api/<path:__rest__>", "/apis/<path:__rest__>", MOUNT} <= rules
