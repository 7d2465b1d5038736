"""The review endpoints by the handler names of the catalogue; SelfSubjectReview, SelfSubjectRulesReview and TokenReview.

``kubectl auth whoami`` uses the first (KEP-3325), ``kubectl auth can-i --list`` the second.  TokenReview says whose token it is
(upstream: ``pkg/registry/authentication/tokenreview``).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from kapi.authentication.bearer import INVALID_TOKEN, bearer_token
from kapi.authentication.build import ANONYMOUS_USER
from kapi.authentication.interface import Authenticated, AuthenticationError, with_authenticated_group
from kapi.authorization.interface import NonResourceRule, ResourceRule, RuleSet
from kapi.endpoints.reviews.accessreviews import (
    local_subject_access_review,
    self_subject_access_review,
    subject_access_review,
)
from kapi.endpoints.reviews.posted_review import ReviewServices, read_review
from kapi.endpoints.reviews.token import create_token
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.golang import aggregate
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import user_tree

Endpoint = Callable[[RequestContext, RequestScope], Awaitable[Response]]


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


async def self_subject_rules_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    """The rules of the effective user in a namespace, as far as the authorizers can list them."""
    posted = await read_review(ctx, scope, services)
    namespace = (posted.obj.get("spec") or {}).get("namespace", "")
    if not namespace:
        raise status.bad_request("no namespace on request")
    await posted.validate()
    assert ctx.user is not None
    rules = services.rules.rules_for(ctx.user, namespace) if services.rules is not None else RuleSet()
    answer: Object = {
        "resourceRules": [_resource_rule(rule) for rule in elements(rules.resource_rules)],
        "nonResourceRules": [_path_rule(rule) for rule in elements(rules.non_resource_rules)],
        "incomplete": rules.incomplete,
    }
    if rules.errors:
        answer["evaluationError"] = aggregate(rules.errors)
    return posted.answer(
        {
            "kind": "SelfSubjectRulesReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": {},
            "status": answer,
        }
    )


def _resource_rule(rule: ResourceRule) -> Object:
    tree: Object = {"verbs": list(rule.verbs)}
    for key, values in (("apiGroups", rule.groups), ("resources", rule.resources), ("resourceNames", rule.names)):
        if values:
            tree[key] = list(values)
    return tree


def _path_rule(rule: NonResourceRule) -> Object:
    return {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)}


async def token_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    """The review with its status.  Only here clients get the reason why a token is invalid.

    As upstream the token is read from an Authorization header that is made of it: one that begins with a space is none, so that
    its user is the anonymous one.
    """
    posted = await read_review(ctx, scope, services)
    obj = posted.obj
    spec = obj.get("spec") or {}
    token = spec.get("token", "")
    if not token:
        raise status.bad_request("token is required for TokenReview in authentication")
    await posted.validate()
    outcome = await _authenticate(
        services, bearer_token(f"Bearer {token}"), tuple(spec.get("audiences") or ()) or services.api_audiences
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


async def _authenticate(services: ReviewServices, token: str, audiences: tuple[str, ...]) -> Authenticated | str:
    """The user, or why there is none ("" without any authenticator)."""
    if services.tokens is None:
        return ""
    if not token:
        return Authenticated(ANONYMOUS_USER, audiences) if services.anonymous else ""
    try:
        answer = services.tokens.authenticate_token(token, audiences)
        if inspect.isawaitable(answer):
            answer = await answer
    except AuthenticationError as error:
        return str(AuthenticationError(INVALID_TOKEN, *error.texts))
    return answer if answer is not None else INVALID_TOKEN


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
