"""SubjectAccessReview and its Self and Local kin: may somebody do something?

Upstream: ``pkg/registry/authorization/*accessreview``.  They ask the very authorizer that guards requests.
"""

from __future__ import annotations

import inspect

from kapi.authorization.interface import Decision
from kapi.endpoints.reviews.access_attributes import attributes_from, evaluation_error
from kapi.endpoints.reviews.access_validation import validate_local, validate_metadata, validate_spec
from kapi.endpoints.reviews.question import Question, ReviewServices, read_question
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
    question = await read_question(ctx, scope, services)
    spec = question.obj.setdefault("spec", {})
    _check(validate_spec(spec, own=False) + validate_metadata(question.obj["metadata"], local=False))
    return await _answer(question, services, _user(spec))


async def local_subject_access_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    question = await read_question(ctx, scope, services)
    obj = question.obj
    spec = obj.setdefault("spec", {})
    _check(validate_spec(spec, own=False) + validate_metadata(obj["metadata"], local=True) + validate_local(obj))
    return await _answer(question, services, _user(spec))


async def self_subject_access_review(ctx: RequestContext, scope: RequestScope, services: ReviewServices) -> Response:
    question = await read_question(ctx, scope, services)
    spec = question.obj.setdefault("spec", {})
    _check(validate_spec(spec, own=True) + validate_metadata(question.obj["metadata"], local=False))
    assert ctx.user is not None
    return await _answer(question, services, ctx.user)


def _check(errors: list[FieldError]) -> None:
    if errors:
        raise status.invalid(_KIND, "", errors)


def _user(spec: Object) -> UserInfo:
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return UserInfo(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


async def _answer(question: Question, services: ReviewServices, user: UserInfo) -> Response:
    await question.validate()
    if services.authorizer is None:
        raise status.internal("no authorizer")
    attributes = attributes_from(question.obj["spec"], user)
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
    review = {key: value for key, value in question.obj.items() if key != "status"}
    review["status"] = answer
    return question.answer(review)
