"""Authorization from inside an endpoint: of an update or patch that creates the object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kapi.authorization.forbidden import forbidden_error
from kapi.authorization.interface import Attributes, Decision, decided
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.request.context import RequestContext


def create_check(ctx: RequestContext, scope: RequestScope) -> Callable[[], Awaitable[None]]:
    """Returns a check to await before an update creates an object: it raises Forbidden unless the user may create it."""
    info, user = ctx.info, ctx.user
    assert info is not None and user is not None

    async def check() -> None:
        authorizer = scope.store.environment.authorizer
        if authorizer is None:
            raise status.internal("no authorizer provided, unable to authorize a create on update")
        attributes = Attributes(
            user=user,
            verb="create",
            path=info.path,
            group=scope.resource.group,
            version=scope.resource.version,
            resource=scope.resource.plural,
            subresource=scope.subresource.name if scope.subresource else "",
            namespace=info.namespace,
            name=info.name,
        )
        verdict = await decided(authorizer, attributes)
        if verdict.decision is not Decision.ALLOW:
            raise forbidden_error(attributes, verdict.reason)

    return check
