"""SelfSubjectRulesReview: what may I do here? (``kubectl auth can-i --list``)."""

from __future__ import annotations

from kapi.authorization.interface import NonResourceRule, ResourceRule, RuleSet
from kapi.endpoints.reviews.posted_review import ReviewServices, read_review
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.golang import aggregate
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.response import Response


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
