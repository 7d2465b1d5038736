"""SelfSubjectReview: who am I? (KEP-3325; ``kubectl auth whoami``)."""

from __future__ import annotations

from kapi.endpoints.reviews.question import ReviewServices, read_question
from kapi.endpoints.scope import RequestScope
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import user_tree


async def self_subject_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    """The effective user: after impersonation, the impersonated one."""
    question = await read_question(ctx, scope, services)
    await question.validate()
    assert ctx.user is not None
    return question.answer(
        {
            "kind": "SelfSubjectReview",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": services.environment.now()},
            "status": {"userInfo": user_tree(ctx.user)},
        }
    )
