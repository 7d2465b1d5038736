"""The review endpoints by the handler names of the catalogue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kapi.endpoints.reviews.accessreviews import (
    local_subject_access_review,
    self_subject_access_review,
    subject_access_review,
)
from kapi.endpoints.reviews.posted_review import ReviewServices
from kapi.endpoints.reviews.selfsubjectreviews import self_subject_review
from kapi.endpoints.reviews.selfsubjectrulesreviews import self_subject_rules_review
from kapi.endpoints.reviews.token import create_token
from kapi.endpoints.reviews.tokenreviews import token_review
from kapi.endpoints.scope import RequestScope
from kapi.request.context import RequestContext
from kapi.request.response import Response

Endpoint = Callable[[RequestContext, RequestScope], Awaitable[Response]]
_REVIEWS: dict[str, Callable[[RequestContext, RequestScope, ReviewServices], Awaitable[Response]]] = {
    "tokenreviews": token_review,
    "selfsubjectreviews": self_subject_review,
    "subjectaccessreviews": subject_access_review,
    "localsubjectaccessreviews": local_subject_access_review,
    "selfsubjectaccessreviews": self_subject_access_review,
    "selfsubjectrulesreviews": self_subject_rules_review,
    "token": create_token,
}


def review_handlers(services: ReviewServices) -> dict[str, Endpoint]:
    """For ``ResourceTable.handlers``."""

    def bind(
        review_endpoint: Callable[[RequestContext, RequestScope, ReviewServices], Awaitable[Response]],
    ) -> Endpoint:
        def endpoint(ctx: RequestContext, scope: RequestScope) -> Awaitable[Response]:
            return review_endpoint(ctx, scope, services)

        return endpoint

    return {name: bind(review_endpoint) for name, review_endpoint in _REVIEWS.items()}
