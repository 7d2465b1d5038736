"""Values of the variables of expressions about requests, and their evaluation (upstream: apiserver ``admission/plugin/cel``)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from kapi.admission.interface import Attributes
from kapi.authorization import interface as authorization
from kapi.authorization.interface import Verdict
from kapi.cel.library.authorizer import Authorizer, Check, Decision, resource_check
from kapi.cel.types import Value
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.selectors import SelectorError, parse_fields, parse_labels
from kapi.machinery.tree import Object, Tree
from kapi.request.user import UserInfo
from kapi.resources.admissionregistration.expressions import Expression


def request_object(attributes: Attributes, kind: GroupVersionKind, resource: GroupVersionResource) -> Object:
    """What ``request`` is: the AdmissionRequest without its objects."""
    user = attributes.user
    asked: Object = {
        "kind": _named(kind, "kind"),
        "resource": _named(resource, "resource"),
        "requestKind": _named(attributes.kind, "kind"),
        "requestResource": _named(attributes.resource, "resource"),
        "name": attributes.name,
        "namespace": attributes.namespace_of_request,
        "operation": attributes.operation,
        "userInfo": {
            "username": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
        },
        "dryRun": attributes.dry_run,
        "options": attributes.options or None,
        "subResource": attributes.subresource,
        "requestSubResource": attributes.subresource,
    }
    return asked


def _named(name: Tree, last: str) -> Object:
    return {"group": name[0], "version": name[1], last: name[2]}


class _Unanswered(Exception):
    """The authorizer has to be waited for."""

    def __init__(self, question: Check, answer: Awaitable[Verdict]) -> None:
        self.question = question
        self.answer = answer


class Questions:
    """What expressions of one request ask the authorizer.  Expressions run synchronously: one that needs an answer that
    takes time is stopped, and run again when the answer is there."""

    def __init__(self, authorizer: authorization.Authorizer | None, user: UserInfo) -> None:
        self._authorizer = authorizer
        self._user = user
        self._answers: dict[Check, Decision] = {}

    def decide(self, question: Check) -> Decision:
        known = self._answers.get(question)
        if known is not None:
            return known
        assert self._authorizer is not None
        verdict = self._authorizer.authorize(self._attributes(question))
        if not isinstance(verdict, Verdict):
            raise _Unanswered(question, verdict)
        return self._note(question, verdict)

    def _note(self, question: Check, verdict: Verdict) -> Decision:
        allowed = verdict.decision is authorization.Decision.ALLOW
        answer = self._answers[question] = Decision(allowed, verdict.reason, verdict.error)
        return answer

    async def learn(self, missing: _Unanswered) -> None:
        self._note(missing.question, await missing.answer)

    def _attributes(self, question: Check) -> authorization.Attributes:
        user = self._user
        if question.service_account is not None:
            namespace, name = question.service_account
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
            user = UserInfo(name=f"system:serviceaccount:{namespace}:{name}", groups=groups)
        asked = authorization.Attributes(
            user=user,
            verb=question.verb,
            is_resource=not question.path,
            path=question.path,
            group=question.group,
            version="" if question.path else "*",
            resource=question.resource,
            subresource=question.subresource,
            namespace=question.namespace,
            name=question.name,
        )
        if question.field_selector is not None:
            try:
                terms = parse_fields(question.field_selector).requirements
                asked.field_requirements = tuple((term.key, term.operator, term.value) for term in terms)
            except SelectorError as error:
                asked.field_selector_error = str(error)
        if question.label_selector is not None:
            try:
                labels = parse_labels(question.label_selector).requirements
                asked.label_requirements = tuple(
                    (term.key, term.operator, tuple(sorted(term.values))) for term in labels
                )
            except SelectorError as error:
                asked.label_selector_error = str(error)
        return asked


class Bindings:
    """The values of the variables for one request."""

    __slots__ = ("values", "questions", "operation")

    def __init__(
        self,
        attributes: Attributes,
        kind: GroupVersionKind,
        resource: GroupVersionResource,
        obj: Object | None,
        old: Object | None,
        authorizer: authorization.Authorizer | None,
        namespace: Object | None = None,
    ) -> None:
        self.operation = attributes.operation
        questions = self.questions = Questions(authorizer, attributes.user)
        self.values: dict[str, Value] = {
            "object": obj,
            "oldObject": old,
            "request": request_object(attributes, kind, resource),
            "namespaceObject": namespace_object(namespace),
            "authorizer": Authorizer(questions.decide),
            "authorizer.requestResource": resource_check(
                questions.decide,
                Check(
                    group=resource.group,
                    resource=resource.resource,
                    subresource=attributes.subresource,
                    namespace=attributes.namespace_of_request,
                    name=attributes.name,
                ),
            ),
        }

    async def evaluate(
        self, expression: Expression, budget: int, values: Mapping[str, Tree] | None = None
    ) -> tuple[Value, int]:
        """The value and what it cost.  Raises EvaluationError."""
        while True:
            try:
                return expression.evaluate(self.values if values is None else values, budget)
            except _Unanswered as missing:
                await self.questions.learn(missing)


_NAMESPACE_METADATA = (
    "name", "generateName", "namespace", "labels", "annotations", "UID", "creationTimestamp", "deletionGracePeriodSeconds",
    "deletionTimestamp", "generation", "resourceVersion", "finalizers",
)  # fmt: skip


def namespace_object(namespace: Object | None) -> Object | None:
    """``namespaceObject``: the part of a namespace that policies may see."""
    if namespace is None:
        return None
    metadata = namespace["metadata"]
    return {
        "metadata": {
            field: metadata[field.lower() if field == "UID" else field]
            for field in _NAMESPACE_METADATA
            if (field.lower() if field == "UID" else field) in metadata
        },
        "spec": namespace.get("spec") or {},
        "status": namespace.get("status") or {},
    }
