"""What a program adds to its server has its place in it; names that are taken and what comes too late are refused."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from kapi.assembly.prepared import PreparedServer
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.servers.additions import Additions, APIGroup, APIGroupResource, APIVersion, HookContext
from kapi.serving.routing import Routes
from tests.assembly.assembled import assembled

GARDEN: Additions = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "howto" / "garden_server.py"))["ADDITIONS"]
VASE = APIGroupResource(kind="Vase", plural="vases", versions=[APIVersion(name="v1", schema={"type": "object"})])


async def wait(context: HookContext) -> None:
    """Does nothing."""


class Page:
    app = Routes()

    @app.route("/page")
    def page(self, ctx: RequestContext) -> Response:
        return Response(200, b"", b"text/plain")


class Elsewhere:
    """Takes paths of other servers: of the outermost one, and of one behind it."""

    app = Routes()

    @app.route("/version")
    def version(self, ctx: RequestContext) -> Response:
        return Response(200, b"", b"text/plain")


class Documents(Elsewhere):
    app = Routes()

    @app.route("/openid/v1/jwks")
    def keys(self, ctx: RequestContext) -> Response:
        return Response(200, b"", b"text/plain")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> PreparedServer:
    return assembled(tmp_path_factory.mktemp("data"), additions=GARDEN)


def test_a_group_is_served_by_the_core_server(server: PreparedServer) -> None:
    core = server.chain.core
    assert "garden.example.com" in core.fixed_groups
    assert {row.plural for row in core.table.rows("garden.example.com")} == {"beds", "plants"}
    assert ("garden.example.com", "beds", True) in server.storage.registry.client.resources()


def test_paths_are_listed(server: PreparedServer) -> None:
    listed = server.chain.aggregator.listed_paths()
    assert {"/garden/rules", "/apis/garden.example.com/v1alpha1", "/readyz/poststarthook/plant-the-first"} <= {*listed}


def test_filters_stand_before_and_after_those_of_the_server(tmp_path: Path) -> None:
    def first(ctx: RequestContext) -> None: ...
    def last(ctx: RequestContext) -> None: ...

    made = assembled(tmp_path, additions=Additions(outer_filters=[first], filters=[last]))
    filters = made.handler_chain().filters
    assert (filters[0], filters[-1]) == (first, last) and len(filters) > 10


@pytest.mark.parametrize(
    ("additions", "why"),
    [
        ({"post_start_hooks": {"bootstrap-controller": wait}}, "post-start hook bootstrap-controller is there already"),
        ({"post_start_hooks": {"crd-informer-synced": wait}}, "post-start hook crd-informer-synced is there already"),
        ({"post_start_hooks": {"": wait}}, "a post-start hook has no name"),
        ({"pre_shutdown_hooks": {"bootstrap-controller": wait}}, "pre-shutdown hook bootstrap-controller is there already"),
        ({"routes": [Elsewhere()]}, "/version is served already"),
        ({"routes": [Documents()]}, "/openid/v1/jwks is served already"),
        ({"routes": [Page(), Page()]}, "/page is served already"),
        ({"groups": [APIGroup(name="apps", resources=[VASE])]}, "the API group apps is served already"),
        ({"groups": [APIGroup(name="", resources=[VASE])]}, "the API group core is served already"),
        ({"groups": [APIGroup(name="apiextensions.k8s.io", resources=[VASE])]}, "apiextensions.k8s.io is served already"),
    ],
)  # fmt: skip
def test_names_that_are_taken(tmp_path: Path, additions: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        assembled(tmp_path, additions=Additions(**additions))


def test_what_comes_too_late(tmp_path: Path) -> None:
    made = assembled(tmp_path, additions=Additions(routes=[Page()]))

    async def hook() -> None: ...

    for server in (made.chain.aggregator, made.chain.core, made.chain.extensions):
        with pytest.raises(ValueError, match="post-start hook late comes too late: the server is prepared"):
            server.add_post_start_hook("late", hook)
        with pytest.raises(ValueError, match="pre-shutdown hook late comes too late"):
            server.add_pre_shutdown_hook("late", hook)
