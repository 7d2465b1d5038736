"""Values of the variables of expressions about requests, and their evaluation (upstream: apiserver ``admission/plugin/cel``)."""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Mapping

import msgspec

from kapi.admission.interface import Attributes
from kapi.authentication.service_account import names
from kapi.authorization import interface as authorization
from kapi.authorization.interface import Verdict
from kapi.cel.library.authorizer import Authorizer, Check, Decision, resource_check
from kapi.cel.types import Value
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.tree import Object, Tree
from kapi.request.user import UserInfo, user_tree
from kapi.resources.admissionregistration.expressions import Expression


def request_object(attributes: Attributes, kind: GroupVersionKind, resource: GroupVersionResource) -> Object:
    """The variable ``request``: the AdmissionRequest without its objects, and without texts and lists that are empty."""
    request: Object = {
        "kind": _named(kind, "kind"),
        "resource": _named(resource, "resource"),
        "requestKind": _named(attributes.kind, "kind"),
        "requestResource": _named(attributes.resource, "resource"),
        "operation": attributes.operation,
        "userInfo": user_tree(attributes.user),
        "dryRun": attributes.dry_run,
        "options": attributes.options or None,
    }
    texts = {
        "name": attributes.name,
        "namespace": attributes.namespace_of_request,
        "subResource": attributes.subresource,
        "requestSubResource": attributes.subresource,
    }
    request.update((name, text) for name, text in texts.items() if text)
    return request


def _named(name: Tree, last: str) -> Object:
    return {"group": name[0], "version": name[1], last: name[2]}


_Key = tuple[Hashable, ...]


class _PendingDecision(Exception):
    """The authorizer decides asynchronously."""

    def __init__(self, key: _Key, answer: Awaitable[Verdict]) -> None:
        self.key = key
        self.answer = answer


class AuthorizationChecks:
    """The authorization checks of the expressions of one request.  A check that several policies make is made once;
    selectors are the same when their requirements are, and one that cannot be parsed is none.

    Expressions run synchronously: an expression that needs an asynchronous decision is stopped, and evaluated again when the
    decision is known.
    """

    def __init__(self, authorizer: authorization.Authorizer | None, user: UserInfo) -> None:
        self._authorizer = authorizer
        self._user = user
        self._decisions: dict[_Key, Decision] = {}

    def decide(self, check: Check) -> Decision:
        attributes = self._attributes(check)
        _, *parts, _, _ = msgspec.structs.astuple(attributes)  # without the user and the errors of selectors
        key = (check.service_account, *parts)
        known = self._decisions.get(key)
        if known is not None:
            return known
        assert self._authorizer is not None
        verdict = self._authorizer.authorize(attributes)
        if not isinstance(verdict, Verdict):
            raise _PendingDecision(key, verdict)
        return self._note(key, verdict)

    def _note(self, key: _Key, verdict: Verdict) -> Decision:
        allowed = verdict.decision is authorization.Decision.ALLOW
        answer = self._decisions[key] = Decision(allowed, verdict.reason, verdict.error)
        return answer

    async def wait_for(self, missing: _PendingDecision) -> None:
        self._note(missing.key, await missing.answer)

    def _attributes(self, check: Check) -> authorization.Attributes:
        user = self._user
        if check.service_account is not None:
            namespace, name = check.service_account
            user = UserInfo(names.username(namespace, name), groups=names.groups(namespace))
        attributes = authorization.Attributes(
            user=user,
            verb=check.verb,
            is_resource=not check.path,
            path=check.path,
            group=check.group,
            version="" if check.path else "*",
            resource=check.resource,
            subresource=check.subresource,
            namespace=check.namespace,
            name=check.name,
        )
        attributes.read_selectors(check.field_selector, check.label_selector)
        return attributes


class Bindings:
    """The values of the variables for one request."""

    __slots__ = ("values", "checks", "operation")

    def __init__(
        self,
        attributes: Attributes,
        kind: GroupVersionKind,
        resource: GroupVersionResource,
        obj: Object | None,
        old: Object | None,
        checks: AuthorizationChecks,
        namespace: Object | None = None,
    ) -> None:
        self.operation = attributes.operation
        self.checks = checks
        self.values: dict[str, Value] = {
            "object": obj,
            "oldObject": old,
            "request": request_object(attributes, kind, resource),
            "namespaceObject": namespace_object(namespace),
            "authorizer": Authorizer(checks.decide),
            "authorizer.requestResource": resource_check(
                checks.decide,
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
        """The value and its cost.  Raises EvaluationError."""
        while True:
            try:
                return expression.evaluate(self.values if values is None else values, budget)
            except _PendingDecision as missing:
                await self.checks.wait_for(missing)


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
