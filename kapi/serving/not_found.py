"""The delegate of the chain's last server: answers 404 (upstream: apiserver ``server/genericapiserver.go``, emptyDelegate)."""

from __future__ import annotations

from collections.abc import Sequence

from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.delegation import PostStartHook, PreShutdownHook
from kapi.serving.health import PLAIN, Check
from kapi.serving.routing import Answer, Leaf, Routes


class NotFound:
    """The end of the chain."""

    name = "not-found"

    def resource(self) -> Leaf:
        return self.end()

    def apps(self) -> Sequence[Routes]:
        return ()

    def end(self) -> Leaf:
        return Leaf(self.handle)

    def handle(self, ctx: RequestContext) -> Answer:
        return Response(404, b"404 page not found\n", PLAIN, ((b"x-content-type-options", b"nosniff"),))

    def post_start_hooks(self) -> dict[str, PostStartHook]:
        return {}

    def hook_steps(self) -> dict[str, str]:
        return {}

    def pre_shutdown_hooks(self) -> dict[str, PreShutdownHook]:
        return {}

    def closing_hooks(self) -> dict[str, PreShutdownHook]:
        return {}

    def health_checks(self) -> dict[str, Check]:
        return {}

    def seal(self) -> None:
        """It has no hooks."""

    def listed_paths(self) -> list[str]:
        return []

    def serves_group_version(self, group: str, version: str) -> bool:
        return False

    def serves_resource(self, group: str, version: str, plural: str, subresource: str) -> bool:
        return False
