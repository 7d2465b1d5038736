"""MutatingAdmissionPolicy: expressions that change objects (upstream: apiserver ``admission/plugin/policy/mutating``)."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from dataclasses import dataclass

from kapi.admission.cel import AuthorizationChecks, Bindings
from kapi.admission.interface import Attributes, denied
from kapi.admission.policy.dispatcher import PolicyPlugin
from kapi.admission.policy.evaluation import (
    Compiled,
    Evaluation,
    compiled,
    condition_counter,
    conditions_hold,
    error_type,
    namespace_of,
)
from kapi.admission.policy.patches import MutationError, apply_configuration, apply_json_patch, json_patch
from kapi.admission.policy.source import Binding, Policy
from kapi.admission.versions import in_version, to_storage
from kapi.admission.webhook.mutating import begin_pass, decoded
from kapi.cel.types import list_of
from kapi.machinery import tree
from kapi.machinery.each import costly, elements
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.resources.admissionregistration.expressions import (
    JSON_PATCH,
    OBJECT,
    CompileError,
    Composition,
    EvaluationError,
)
from kapi.resources.admissionregistration.policies import MUTATING, MUTATING_BINDING
from kapi.schema.builtin import names_by_kind, type_of
from kapi.schema.types import Type


class MutatingPolicy(Policy):
    def __init__(self, obj: Object, bindings: list[Binding]) -> None:
        super().__init__(obj, bindings)
        spec = self.spec
        self.reinvoke = spec.get("reinvocationPolicy") == "IfNeeded"
        self.composition = Composition(params=self.param_kind is not None, patches=True)
        self.composition.add_all(spec.get("variables") or ())
        env, conditions = self.composition.environment, spec.get("matchConditions") or ()
        self.conditions = [compiled(c.get("expression", ""), self.composition.plain) for c in conditions]
        #: (it is a JSON patch, expression)
        self.mutations: list[tuple[bool, Compiled]] = []
        for mutation in spec.get("mutations") or ():
            is_json = mutation.get("patchType") == "JSONPatch"
            given = mutation.get("jsonPatch" if is_json else "applyConfiguration") or {}
            result_type = list_of(JSON_PATCH) if is_json else OBJECT
            self.mutations.append((is_json, compiled(given.get("expression", "").strip(), env, (result_type,))))


@dataclass(frozen=True, slots=True)
class _Invocation:
    """A policy to evaluate, with one binding and parameter."""

    policy: MutatingPolicy
    binding: Binding
    kind: GroupVersionKind
    resource: GroupVersionResource
    param: Object | None

    @property
    def key(self) -> str:
        metadata = (self.param or {}).get("metadata") or {}
        return f"{self.policy.name}/{self.binding.name}/{metadata.get('namespace', '')}/{metadata.get('name', '')}"


@dataclass(frozen=True, slots=True)
class _Failure:
    policy: MutatingPolicy
    binding: Binding | None
    why: str
    reason: str = ""

    @property
    def text(self) -> str:
        if self.binding is None:
            return f'policy "{self.policy.name}" denied request: {self.why}'
        return f"policy '{self.policy.name}' with binding '{self.binding.name}' denied request: {self.why}"


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result of a policy for an object.  ``ran``: a mutation was evaluated without an error, with a change or without."""

    changed: bool
    ran: bool


class MutatingAdmissionPolicy(PolicyPlugin[MutatingPolicy]):
    gate = "MutatingAdmissionPolicy"
    rows = (MUTATING, MUTATING_BINDING)
    make = MutatingPolicy

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        return self.source.run(attributes, self._dispatch)

    async def _dispatch(self, policies: tuple[MutatingPolicy, ...], attributes: Attributes) -> None:
        failures: list[_Failure] = []
        invocations = await self._invocations(policies, attributes, failures)
        if invocations:
            await self._run(invocations, attributes, failures)
        counted = [failure for failure in failures if not failure.policy.ignore_failures]
        if counted:
            raise _refusal(attributes, counted)

    async def _invocations(
        self, policies: tuple[MutatingPolicy, ...], attributes: Attributes, failures: list[_Failure]
    ) -> list[_Invocation]:
        found: list[_Invocation] = []

        def refuse(policy: MutatingPolicy, binding: Binding | None, why: str) -> None:
            failures.append(_Failure(policy, binding, why))

        for policy, bindings in costly(self.source.matching(policies, attributes)):
            meant = await self.meant(policy, attributes, refuse)
            if meant is None:
                continue
            for binding in elements(bindings):
                params = await self.params(policy, binding, attributes, refuse)
                found.extend(_Invocation(policy, binding, *meant, param) for param in params)
        return found

    async def _run(self, invocations: list[_Invocation], attributes: Attributes, failures: list[_Failure]) -> None:
        passes, again = begin_pass(self.name, attributes)
        checks = AuthorizationChecks(self.initializer.authorizer, attributes.user)
        ran = False
        try:
            namespace = await namespace_of(self.initializer, attributes)
            for invocation in costly(invocations):
                if again and invocation.key not in passes.to_reinvoke:
                    continue
                outcome = await self._mutate(invocation, attributes, checks, namespace, failures)
                if outcome is None:
                    continue
                if outcome.changed:
                    passes.changed(attributes)
                if invocation.policy.reinvoke:
                    passes.may_reinvoke.add(invocation.key)
                ran = ran or outcome.ran
            if ran:  # even without a change; then the policy that ran last may run again, too
                passes.changed(attributes)
        finally:
            if passes.may_reinvoke and not again:  # otherwise it is not needed
                passes.last_output = None if attributes.obj is None else tree.copy(attributes.obj)

    def _count(self, invocation: _Invocation, error: str, start: float) -> None:
        meter, took = self.initializer.meter, time.perf_counter() - start
        if meter is not None:
            meter.policy("mutating", invocation.policy.name, invocation.binding.name, error, took)

    async def _mutate(
        self,
        invocation: _Invocation,
        attributes: Attributes,
        checks: AuthorizationChecks,
        namespace: Object | None,
        failures: list[_Failure],
    ) -> _Outcome | None:
        """The outcome of a policy; None when its conditions do not hold."""
        policy, kind = invocation.policy, invocation.kind
        obj, old = in_version(attributes.obj, kind, attributes), in_version(attributes.old, kind, attributes)

        def bindings(current: Object | None) -> Bindings:
            return Bindings(attributes, kind, invocation.resource, current, old, checks, namespace)

        def failed(error: Exception) -> None:
            failures.append(_Failure(policy, invocation.binding, str(error), "Invalid"))

        try:
            count = condition_counter(self.initializer, policy.name, attributes.operation)
            if not await conditions_hold(
                policy.conditions, bindings(obj), policy.composition, invocation.param, policy.ignore_failures, count
            ):
                return None
        except EvaluationError as error:
            failed(error)
            return None
        if obj is None or attributes.obj is None:
            return _Outcome(changed=False, ran=False)
        before, ran = obj, False
        known = obj if obj is attributes.obj else None  # otherwise it comes from a conversion
        for is_json, expression in policy.mutations:
            start = time.perf_counter()
            try:
                if isinstance(expression, CompileError):
                    raise MutationError(str(expression))
                evaluation = Evaluation(bindings(obj), policy.composition, invocation.param)
                value = await evaluation.run(expression)
                operations = None
                if is_json:
                    operations = json_patch(value)
                    patched = apply_json_patch(obj, operations)
                else:
                    patched = apply_configuration(obj, value, _type(kind, invocation.resource, attributes))
                if patched is not obj:
                    obj = known = decoded(patched, kind, known, operations)
            except (EvaluationError, MutationError) as error:
                failed(error)
                self._count(invocation, error_type(str(error)), start)
                continue
            except StatusError as error:  # reported whatever the policy's failurePolicy is
                self._count(invocation, error_type(error.message), start)
                raise
            self._count(invocation, "no_error", start)
            ran = True
        if tree.equal(obj, before):
            return _Outcome(changed=False, ran=ran)
        attributes.obj = to_storage(obj, kind, attributes.obj, attributes)
        return _Outcome(changed=True, ran=ran)


def _type(kind: GroupVersionKind, resource: GroupVersionResource, attributes: Attributes) -> Type | None:
    """The type of an object in the version of a kind; None if it is not known.

    Raises MutationError for a kind like Scale, which is only served below resources of other groups: the OpenAPI document of its
    own group does not have it.
    """
    if kind.group_version != resource.group_version:
        why = f"failed to convert patch object to typed object: no corresponding type for {kind.group_version}, Kind={kind.kind}"
        raise MutationError(f"error applying patch: {why}")
    row = attributes.custom_resource
    if row is None:
        return type_of(kind) if kind in names_by_kind() else None
    if row.version == kind.version:
        return None if row.schema is None else row.schema()
    other = None if row.other_versions is None else row.other_versions().get(str(kind.group_version))
    return None if other is None else other[0]


def _refusal(attributes: Attributes, failures: list[_Failure]) -> StatusError:
    error = denied(attributes, "admission request denied by policy")
    first = failures[0]
    error.message = first.text
    if first.reason:
        error.reason = first.reason
    error.details = {**(error.details or {}), "causes": [{"message": failure.text} for failure in failures]}
    return error
