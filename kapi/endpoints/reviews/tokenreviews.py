"""TokenReview: whose token is this? (upstream: ``pkg/registry/authentication/tokenreview``)."""

from __future__ import annotations

import inspect

from kapi.authentication.bearer import INVALID_TOKEN
from kapi.authentication.interface import Authenticated, AuthenticationError, with_authenticated_group
from kapi.endpoints.reviews.posted_review import ReviewServices, read_review
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import user_tree


async def token_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    """The review with its status.  Only here clients get the reason why a token is invalid."""
    posted = await read_review(ctx, scope, services)
    obj = posted.obj
    spec = obj.get("spec") or {}
    token = spec.get("token", "")
    if not token:
        raise status.bad_request("token is required for TokenReview in authentication")
    await posted.validate()
    outcome = await _authenticate(
        services, _first_word(token), tuple(spec.get("audiences") or ()) or services.api_audiences
    )
    given = obj.get("status") or {}
    answer: Object = {}
    if isinstance(outcome, Authenticated):
        answer["authenticated"] = True
        answer["user"] = user_tree(with_authenticated_group(outcome.user))
        if outcome.audiences:
            answer["audiences"] = list(outcome.audiences)
        if given.get("error"):
            answer["error"] = given["error"]
    else:
        answer["user"] = given.get("user") or {}
        if given.get("audiences"):
            answer["audiences"] = given["audiences"]
        if outcome or given.get("error"):
            answer["error"] = outcome or given["error"]
    review = {key: value for key, value in obj.items() if key != "status"}
    review["status"] = answer
    return posted.answer(review)


def _first_word(token: str) -> str:
    """The token up to the first space, as it would be read from an Authorization header."""
    return (token.split() or [""])[0]


async def _authenticate(services: ReviewServices, token: str, audiences: tuple[str, ...]) -> Authenticated | str:
    """The user, or why there is none ("" without any authenticator)."""
    if services.tokens is None:
        return ""
    try:
        answer = services.tokens.authenticate_token(token, audiences)
        if inspect.isawaitable(answer):
            answer = await answer
    except AuthenticationError as error:
        return str(AuthenticationError(INVALID_TOKEN, *error.texts))
    return answer if answer is not None else INVALID_TOKEN
