"""A program with a server of its own: ``python -m tests.integration.added_server NAME flags...``; ``ADDITIONS`` are the names."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from kapi import tap
from kapi.embedding import Additions, HookContext, RequestContext, Response, Routes

PROGRAM = "tests.integration.added_server"
_GARDEN = Path(__file__).parents[2] / "docs" / "howto" / "garden_server.py"


def outer(ctx: RequestContext) -> Response | None:
    """Answers for all users."""
    assert ctx.user is None
    return Response(418, b"outer\n", b"text/plain") if ctx.header("x-outer") else None


async def inner(ctx: RequestContext) -> Response | None:
    """Answers users that may make the request; its answer is not ready at once."""
    assert ctx.user is not None
    return Response(418, ctx.user.name.encode(), b"text/plain") if ctx.header("x-inner") else None


class Pages:
    app = Routes()

    @app.route("/pages", branch=True, methods=["GET"])
    def page(self, ctx: RequestContext) -> Response:
        return Response(200, ctx.path.encode(), b"text/plain")

    @app.route("/hidden", listed=False)
    async def hidden(self, ctx: RequestContext) -> Response:
        raise RuntimeError("broken page")


async def broken(context: HookContext) -> None:
    raise RuntimeError("it is broken")


async def stop(context: HookContext) -> None:
    """The API still answers then."""
    found = await context.client.resource("", "namespaces").get("kube-system")
    print("stopping beside", found["metadata"]["name"], flush=True)


def additions(name: str) -> Additions:
    if name == "garden":
        found: Additions = runpy.run_path(str(_GARDEN))["ADDITIONS"]
        return found
    if name == "broken":
        return Additions(post_start_hooks={"broken": broken})
    return Additions(outer_filters=[outer], filters=[inner], routes=[Pages()], pre_shutdown_hooks={"telling": stop})


def main() -> None:
    tap.main(sys.argv[2:], additions(sys.argv[1]))


if __name__ == "__main__":
    main()
