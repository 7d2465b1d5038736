"""SelfSubjectReview: who am I? (KEP-3325; ``kubectl auth whoami``)."""

from __future__ import annotations

from kapi.endpoints.reviews.posted_review import ReviewServices, read_review
from kapi.endpoints.scope import RequestScope
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import user_tree


async def self_subject_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    """The effective user: after impersonation, the impersonated one."""
    posted = await read_review(ctx, scope, services)
    await posted.validate()
    assert ctx.user is not None
    return posted.answer(
        {
            "kind": "SelfSubjectReview",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": services.environment.now()},
            "status": {"userInfo": user_tree(ctx.user)},
        }
    )
