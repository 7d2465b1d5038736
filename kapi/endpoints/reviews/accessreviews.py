"""SubjectAccessReview, SelfSubjectAccessReview and LocalSubjectAccessReview: whether a user may do something.

Upstream: ``pkg/registry/authorization/*accessreview``.  They use the authorizer of the server's own requests.
"""

from __future__ import annotations

import inspect

from kapi.authorization.interface import Decision
from kapi.endpoints.reviews.access_attributes import attributes_from, evaluation_error
from kapi.endpoints.reviews.access_validation import validate_local, validate_metadata, validate_spec
from kapi.endpoints.reviews.posted_review import PostedReview, ReviewServices, read_review
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.field import FieldError
from kapi.machinery.gvk import GroupKind
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import UserInfo

#: upstream takes the kind from the decoded internal object, where it is empty
_KIND = GroupKind("authorization.k8s.io", "")


async def subject_access_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    posted = await read_review(ctx, scope, services)
    spec = posted.obj.setdefault("spec", {})
    _check(validate_spec(spec, own=False) + validate_metadata(posted.obj["metadata"], local=False))
    return await _answer(posted, services, _user(spec))


async def local_subject_access_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    posted = await read_review(ctx, scope, services)
    obj = posted.obj
    spec = obj.setdefault("spec", {})
    _check(validate_spec(spec, own=False) + validate_metadata(obj["metadata"], local=True) + validate_local(obj))
    return await _answer(posted, services, _user(spec))


async def self_subject_access_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    posted = await read_review(ctx, scope, services)
    spec = posted.obj.setdefault("spec", {})
    _check(validate_spec(spec, own=True) + validate_metadata(posted.obj["metadata"], local=False))
    assert ctx.user is not None
    return await _answer(posted, services, ctx.user)


def _check(errors: list[FieldError]) -> None:
    if errors:
        raise status.invalid(_KIND, "", errors)


def _user(spec: Object) -> UserInfo:
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return UserInfo(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


async def _answer(posted: PostedReview, services: ReviewServices, user: UserInfo) -> Response:
    await posted.validate()
    if services.authorizer is None:
        raise status.internal("no authorizer")
    attributes = attributes_from(posted.obj["spec"], user)
    verdict = services.authorizer.authorize(attributes)
    if inspect.isawaitable(verdict):
        verdict = await verdict
    answer: Object = {"allowed": verdict.decision is Decision.ALLOW}
    if verdict.decision is Decision.DENY:
        answer["denied"] = True
    if verdict.reason:
        answer["reason"] = verdict.reason
    error = evaluation_error(verdict.error, attributes)
    if error:
        answer["evaluationError"] = error
    review = {key: value for key, value in posted.obj.items() if key != "status"}
    review["status"] = answer
    return posted.answer(review)
