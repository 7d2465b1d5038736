"""ValidatingAdmissionPolicy: expressions that must hold (upstream: apiserver ``admission/plugin/policy/validating``)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from functools import partial

import orjson

from kapi.admission.cel import AuthorizationChecks, Bindings
from kapi.admission.interface import Attributes, denied
from kapi.admission.policy.dispatcher import PolicyPlugin
from kapi.admission.policy.evaluation import (
    Evaluation,
    compiled,
    condition_counter,
    conditions_hold,
    error_type,
    namespace_of,
)
from kapi.admission.policy.source import Binding, Policy
from kapi.admission.versions import in_version
from kapi.cel.types import NULL, STRING
from kapi.machinery.each import costly, elements
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.resources.admissionregistration.expressions import Composition, EvaluationError
from kapi.resources.admissionregistration.policies import VALIDATING, VALIDATING_BINDING

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_MAX_MESSAGE_BYTES = 5 * 1024
_MAX_ANNOTATION_BYTES = 10 * 1024
_FAILURE_KEY = "validation.policy.admission.k8s.io/validation_failure"


class ValidatingPolicy(Policy):
    def __init__(self, obj: Object, bindings: list[Binding]) -> None:
        super().__init__(obj, bindings)
        spec = self.spec
        self.composition = Composition(params=self.param_kind is not None)
        self.composition.add_all(spec.get("variables") or ())
        env, bare = self.composition.environment, self.composition.bare()
        self.conditions = [compiled(c.get("expression", ""), env) for c in spec.get("matchConditions") or ()]
        self.validations = [
            (
                validation,
                compiled(validation.get("expression", ""), env),
                compiled(validation["messageExpression"], bare, (STRING,))
                if validation.get("messageExpression")
                else None,
            )
            for validation in spec.get("validations") or ()
        ]
        self.annotations = [
            (annotation["key"], compiled(annotation.get("valueExpression", "").strip(), env, (STRING, NULL)))
            for annotation in spec.get("auditAnnotations") or ()
        ]


#: what audit annotations may name but have no value for, as upstream
_HIDDEN = ("authorizer", "authorizer.requestResource")


@dataclass(frozen=True, slots=True)
class _Denial:
    """The reason to refuse a request, and its policy; ``index`` is the index of the validation."""

    policy: ValidatingPolicy
    binding: Binding | None
    message: str
    reason: str = "Invalid"
    index: int = 0
    #: a validation that does not hold or has failed: the binding's actions decide about the request
    by_validation: bool = False


class ValidatingAdmissionPolicy(PolicyPlugin[ValidatingPolicy]):
    rows = (VALIDATING, VALIDATING_BINDING)
    make = ValidatingPolicy

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        return self.source.run(attributes, self._dispatch)

    async def _dispatch(self, policies: tuple[ValidatingPolicy, ...], attributes: Attributes) -> None:
        denials: list[_Denial] = []
        checks = AuthorizationChecks(self.initializer.authorizer, attributes.user)
        for policy, bindings in costly(self.source.matching(policies, attributes)):
            found = await self.meant(policy, attributes, partial(_misconfigured, denials))
            if found is not None:
                await self._policy(policy, bindings, attributes, *found, checks, denials)
        if denials:
            raise _refusal(attributes, denials[0])

    async def _policy(
        self,
        policy: ValidatingPolicy,
        bound: Sequence[Binding],
        attributes: Attributes,
        kind: GroupVersionKind,
        resource: GroupVersionResource,
        checks: AuthorizationChecks,
        denials: list[_Denial],
    ) -> None:
        published: dict[str, dict[str, None]] = {}
        bindings: Bindings | None = None
        for binding in elements(bound):
            params = await self.params(policy, binding, attributes, partial(_misconfigured, denials))
            if bindings is None and params:
                obj, old = in_version(attributes.obj, kind, attributes), in_version(attributes.old, kind, attributes)
                namespace = await namespace_of(self.initializer, attributes)
                bindings = Bindings(attributes, kind, resource, obj, old, checks, namespace)
            for param in costly(params):
                assert bindings is not None
                start = time.perf_counter()
                for denial in await self._evaluate(policy, binding, bindings, param, published):
                    took = time.perf_counter() - start
                    if denial.by_validation:
                        for action in binding.actions:
                            _act(action, denial, attributes, denials)
                            self._count(denial, action.lower(), took)
                    else:
                        denials.append(denial)
                        self._count(denial, "deny", took)
        for key, values in published.items():
            attributes.annotate(f"{policy.name}/{key}", ", ".join(values))

    def _count(self, denial: _Denial, action: str, seconds: float) -> None:
        meter, binding = self.initializer.meter, denial.binding
        if meter is not None and binding is not None:
            kind = error_type(denial.message)
            meter.policy("validating", denial.policy.name, binding.name, kind, seconds, action)

    async def _evaluate(
        self,
        policy: ValidatingPolicy,
        binding: Binding,
        bindings: Bindings,
        param: Object | None,
        published: dict[str, dict[str, None]],
    ) -> list[_Denial]:
        """The results of the validations, in order; audit annotations go to ``published``."""
        fails = not policy.ignore_failures

        def failed(error: EvaluationError, index: int = 0) -> list[_Denial]:
            return [_Denial(policy, binding, str(error), "", index, by_validation=True)] if fails else []

        try:
            count = condition_counter(self.initializer, policy.name, bindings.operation)
            held = await conditions_hold(
                policy.conditions, bindings, policy.composition, param, policy.ignore_failures, count
            )
        except EvaluationError as error:
            return failed(error)
        if not held:
            return []
        evaluation = Evaluation(bindings, policy.composition, param)
        results: list[_Denial] = []
        refused: list[tuple[int, int]] = []  # (index of the validation, place in the results)
        for i, (_, expression, _) in enumerate(policy.validations):
            try:
                if await evaluation.run(expression) is not True:
                    refused.append((i, len(results)))
            except EvaluationError as error:
                if error.fatal:
                    return failed(error)
                results += failed(error, i)
        for shift, (i, place) in enumerate(refused):
            results.insert(place + shift, await self._refused(policy, binding, evaluation, i))
        evaluation = Evaluation(bindings, policy.composition, param, hidden=_HIDDEN)
        for key, expression in policy.annotations:
            try:
                value = await evaluation.run(expression)
            except EvaluationError as error:
                if fails:
                    results.append(_Denial(policy, binding, str(error), "", 0, error.fatal))
                continue
            text = value.strip() if isinstance(value, str) else ""
            if text:
                published.setdefault(key, {})[text.encode()[:_MAX_ANNOTATION_BYTES].decode(errors="ignore")] = None
        return results

    @staticmethod
    async def _refused(policy: ValidatingPolicy, binding: Binding, evaluation: Evaluation, index: int) -> _Denial:
        validation, _, message_expression = policy.validations[index]
        message = ""
        if message_expression is not None:
            try:
                value = await evaluation.run(message_expression)
            except EvaluationError as error:
                if error.fatal:
                    return _Denial(policy, binding, f"failed messageExpression: {error}", "", index, by_validation=True)
                value = None
            if isinstance(value, str):
                message = value.strip()
                if len(message.encode()) > _MAX_MESSAGE_BYTES or "\n" in message:
                    message = ""
        if not message:
            message = str(validation.get("message") or "").strip()
        if not message:
            message = f"failed expression: {validation['expression'].strip()}"
        return _Denial(policy, binding, message, validation.get("reason") or "Invalid", index, by_validation=True)


def _misconfigured(denials: list[_Denial], policy: ValidatingPolicy, binding: Binding | None, why: str) -> None:
    if not policy.ignore_failures:
        denials.append(_Denial(policy, binding, why))


def _act(action: str, denial: _Denial, attributes: Attributes, denials: list[_Denial]) -> None:
    """Takes one action of the binding for a validation that does not hold."""
    binding = denial.binding
    assert binding is not None
    if action == "Deny":
        denials.append(denial)
    elif action == "Warn":
        attributes.warn(
            f"Validation failed for ValidatingAdmissionPolicy '{denial.policy.name}' with binding "
            f"'{binding.name}': {denial.message}"
        )
    elif action == "Audit":
        said = {
            "message": denial.message,
            "policy": binding.spec.get("policyName", ""),
            "binding": binding.name,
            "expressionIndex": denial.index,
            "validationActions": list(binding.actions),
        }
        attributes.annotate(_FAILURE_KEY, orjson.dumps([said]).decode())


def _refusal(attributes: Attributes, denial: _Denial) -> StatusError:
    with_binding = "" if denial.binding is None else f" with binding '{denial.binding.name}'"
    message = f"ValidatingAdmissionPolicy '{denial.policy.name}'{with_binding} denied request: {denial.message}"
    error = denied(attributes, message)
    reason = denial.reason or "Invalid"
    error.reason, error.code = reason, _CODES.get(reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error
