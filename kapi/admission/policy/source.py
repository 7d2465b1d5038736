"""Compiled policies and their bindings, and the policies that match a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kapi.admission.initializer import Initializer
from kapi.admission.interface import Attributes
from kapi.admission.manifests import Manifests
from kapi.admission.source import GROUP, Source
from kapi.admission.webhook.matching import Rule, by_rules, namespace_matches, object_matches
from kapi.machinery.checkpoint import engage
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupResource, GroupVersionKind, GroupVersionResource
from kapi.machinery.selectors import EVERYTHING, LabelSelector, from_label_selector
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource


@dataclass(frozen=True, slots=True)
class _NamedRule:
    rule: Rule
    names: frozenset[str]

    @classmethod
    def read_all(cls, rules: Iterable[Object] | None) -> tuple[_NamedRule, ...]:
        return tuple(cls(Rule.read(rule), frozenset(rule.get("resourceNames") or ())) for rule in elements(rules))


class Match:
    """matchConstraints of a policy, or matchResources of a binding."""

    __slots__ = ("rules", "excluded", "equivalent", "namespaces", "objects")

    def __init__(self, given: Object) -> None:
        def selector(name: str) -> LabelSelector:
            found = given.get(name)
            return EVERYTHING if not found else from_label_selector(found) or EVERYTHING

        self.rules = _NamedRule.read_all(given.get("resourceRules"))
        self.excluded = _NamedRule.read_all(given.get("excludeResourceRules"))
        self.equivalent = given.get("matchPolicy", "Equivalent") == "Equivalent"
        self.namespaces = selector("namespaceSelector")
        self.objects = selector("objectSelector")

    async def find(
        self, initializer: Initializer, attributes: Attributes
    ) -> tuple[GroupVersionKind, GroupVersionResource] | None:
        """The kind and resource under which the request matches, or None.  Raises NotFound for a missing namespace."""
        if not object_matches(self, attributes) or self._by(self.excluded, initializer, attributes) is not None:
            return None
        found = self._by(self.rules, initializer, attributes) if self.rules else (attributes.kind, attributes.resource)
        if found is None or not await namespace_matches(self, initializer, attributes):
            return None
        return found

    def may_mean(self, initializer: Initializer, attributes: Attributes) -> bool:
        """Whether the rules name the request's resource and operation, regardless of the object."""
        rules = [named.rule for named in self.rules]
        return not rules or by_rules(rules, self.equivalent, initializer, attributes) is not None

    def _by(
        self, rules: tuple[_NamedRule, ...], initializer: Initializer, attributes: Attributes
    ) -> tuple[GroupVersionKind, GroupVersionResource] | None:
        meant = [named.rule for named in rules if not named.names or attributes.name in named.names]
        return by_rules(meant, self.equivalent, initializer, attributes) if meant else None


@dataclass(slots=True, eq=False)
class Binding:
    """A binding of a policy; ``match`` is None when it restricts nothing."""

    name: str
    param_ref: Object | None
    match: Match | None
    actions: tuple[str, ...]
    spec: Object


def _binding(obj: Object) -> Binding:
    spec = obj.get("spec") or {}
    match = spec.get("matchResources")
    actions = tuple(spec.get("validationActions") or ())
    return Binding(
        obj["metadata"]["name"], spec.get("paramRef"), None if match is None else Match(match), actions, spec
    )


class Policy:
    """The common part of both kinds of policies.  Each kind adds its expressions."""

    def __init__(self, obj: Object, bindings: list[Binding]) -> None:
        spec = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        self.static = False  # from a file of the server
        self.spec = spec
        self.bindings = bindings
        self.ignore_failures = spec.get("failurePolicy") == "Ignore"
        self.param_kind: Object | None = spec.get("paramKind")
        self.match = Match(spec.get("matchConstraints") or {})


P = TypeVar("P", bound=Policy)


class PolicyReader(Generic[P]):
    """Reads all policies of a kind that have bindings, by name; unchanged ones are not read again."""

    def __init__(
        self,
        policies: Callable[[], list[Object]],
        bindings: Callable[[], list[Object]],
        make: Callable[[Object, list[Binding]], P],
    ) -> None:
        self._policies = policies
        self._bindings = bindings
        self._make = make
        self._made: dict[str, tuple[str, P]] = {}
        self._bound: dict[str, tuple[str, Binding]] = {}

    def __call__(self) -> tuple[P, ...]:
        engage()
        bindings = self._bindings()
        return tuple(self._read(self._policies(), bindings)) if bindings else ()

    def _read(self, policies: list[Object], bindings: list[Object]) -> list[P]:
        by_policy: dict[str, list[Binding]] = {}
        bound_before, bound_now = self._bound, {}
        for obj in elements(sorted(bindings, key=lambda obj: str(obj["metadata"]["name"]))):
            name, version = obj["metadata"]["name"], obj["metadata"].get("resourceVersion", "")
            read = bound_before.get(name)
            if read is None or read[0] != version:
                read = version, _binding(obj)
            bound_now[name] = read
            by_policy.setdefault(read[1].spec.get("policyName", ""), []).append(read[1])
        self._bound = bound_now
        before = self._made
        made: dict[
            str, tuple[str, P]
        ] = {}  # other requests may use the source meanwhile: expressions are compiled in slices
        for obj in elements(sorted(policies, key=lambda obj: str(obj["metadata"]["name"]))):
            name, version = obj["metadata"]["name"], obj["metadata"].get("resourceVersion", "")
            bound = by_policy.get(name)
            if not bound:
                continue
            known = before.get(name)
            if known is not None and known[0] == version:
                policy = known[1]
                policy.bindings = bound
            else:
                policy = self._make(obj, bound)
            made[name] = (version, policy)
        self._made = made
        return [policy for _, policy in made.values()]


Matching = tuple[tuple[P, Sequence[Binding]], ...]
Dispatch = Callable[[tuple[P, ...], Attributes], Awaitable[None]]


class PolicySource(Source[tuple[P, ...]]):
    """All policies of a kind that have bindings, by name: first the policies of files, which are bound by files."""

    def __init__(
        self,
        initializer: Initializer,
        policies: Resource,
        bindings: Resource,
        make: Callable[[Object, list[Binding]], P],
        manifests: Manifests | None = None,
    ) -> None:
        read = PolicyReader(
            lambda: initializer.lister(GROUP, policies.plural).list(),
            lambda: initializer.lister(GROUP, bindings.plural).list(),
            make,
        )
        super().__init__(initializer, (policies.plural, bindings.plural), read, manifests)
        if manifests is None:
            return

        def make_static(obj: Object, bound: list[Binding]) -> P:
            policy = make(obj, bound)
            policy.static = True
            return policy

        read_static = PolicyReader(lambda: manifests.of(policies), lambda: manifests.of(bindings), make_static)
        self._make = lambda: (*read_static(), *read())

    def run(self, attributes: Attributes, dispatch: Dispatch[P]) -> Awaitable[None] | None:
        """Dispatches a request to all policies; None when there is nothing to wait for."""
        policies = self.get()
        if policies is None:
            if self.manifests is None and _unseen(attributes):
                return None
            return self._run_when_read(attributes, dispatch)
        if not policies:
            return None
        seen = self._seeing(policies, attributes)
        return dispatch(seen, attributes) if seen else None

    async def _run_when_read(self, attributes: Attributes, dispatch: Dispatch[P]) -> None:
        seen = self._seeing(await self.wait(), attributes)
        if seen:
            await dispatch(seen, attributes)

    def _seeing(self, policies: tuple[P, ...], attributes: Attributes) -> tuple[P, ...]:
        """The policies that may see a request (upstream: ``pkg/kubeapiserver/admission/exclusion``)."""
        if not _unseen(attributes):
            return policies
        if self.manifests is None or attributes.resource.group_resource not in _POLICIES:
            return ()
        return tuple(policy for policy in policies if policy.static)

    def matching(self, policies: tuple[P, ...], attributes: Attributes) -> Matching[P]:
        """The policies whose rules match a request, each with the bindings whose rules match it."""
        initializer = self._initializer

        def find(policies: tuple[P, ...]) -> Matching[P]:
            return tuple(
                (policy, _named(policy.bindings, initializer, attributes))
                for policy in elements(policies)
                if policy.match.may_mean(initializer, attributes)
            )

        return self.cached(attributes, find, policies)


#: reviews of authentication and authorization, where a wrong answer may break the cluster
_UNSEEN = frozenset(
    {
        GroupResource("authentication.k8s.io", "selfsubjectreviews"),
        GroupResource("authentication.k8s.io", "tokenreviews"),
        GroupResource("authorization.k8s.io", "localsubjectaccessreviews"),
        GroupResource("authorization.k8s.io", "selfsubjectaccessreviews"),
        GroupResource("authorization.k8s.io", "selfsubjectrulesreviews"),
        GroupResource("authorization.k8s.io", "subjectaccessreviews"),
    }
)


#: policies and their bindings are never subject to policies of the API: a bad one could not be repaired
_POLICIES = frozenset(
    GroupResource(GROUP, f"{kind}admission{plural}")
    for kind in ("mutating", "validating")
    for plural in ("policies", "policybindings")
)


def _unseen(attributes: Attributes) -> bool:
    """Whether policies of the API never apply to a request."""
    resource = attributes.resource.group_resource
    return resource in _POLICIES or resource in _UNSEEN


def _named(bindings: list[Binding], initializer: Initializer, attributes: Attributes) -> Sequence[Binding]:
    found = [
        binding
        for binding in elements(bindings)
        if binding.match is None or binding.match.may_mean(initializer, attributes)
    ]
    return bindings if len(found) == len(bindings) else found  # one shared list for all requests
