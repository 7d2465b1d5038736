"""The base of both policy plugins: finds the policies that match a request, with their bindings and parameters.

Upstream: apiserver ``admission/plugin/policy/generic/policy_dispatcher.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic

from kapi.admission.initializer import Initializer
from kapi.admission.interface import Attributes, Plugin
from kapi.admission.manifests import manifests_of
from kapi.admission.policy.source import Binding, P, PolicySource
from kapi.admission.versions import in_version, row_of
from kapi.machinery import status
from kapi.machinery.checkpoint import engage
from kapi.machinery.each import elements
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.selectors import from_label_selector
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import Resource


class PolicyPlugin(Plugin, Generic[P]):
    """The policies of a kind, from the API and from files."""

    configured = True
    rows: ClassVar[tuple[Resource, Resource]]  # policies, bindings
    make: Callable[[Object, list[Binding]], P]

    def __init__(self, initializer: Initializer, configuration: Tree = None) -> None:
        self.initializer = initializer
        self._kinds = ParamKinds(initializer)
        manifests = manifests_of(type(self).__name__, initializer, configuration, self.rows)
        self.source: PolicySource[P] = PolicySource(initializer, *self.rows, self.make, manifests)

    def reload(self) -> None:
        self.source.reload()

    def reloaded_files(self) -> Sequence[str]:
        return self.source.reloaded_files()

    async def meant(
        self, policy: P, attributes: Attributes, refuse: Callable[[P, Binding | None, str], None]
    ) -> tuple[GroupVersionKind, GroupVersionResource] | None:
        """The kind and resource under which a policy matches a request, if it does; ``refuse`` is called with an error."""
        try:
            meant = await policy.match.find(self.initializer, attributes)
        except status.StatusError as error:
            refuse(policy, None, f"failed to configure policy: {error.message}")
            return None
        if meant is not None and policy.param_kind is not None:
            kind = _kind(policy.param_kind)
            if self._kinds.find(kind) is None:
                shown = f"{kind.group}/{kind.version}, Kind={kind.kind}"
                why = f"failed to find resource referenced by paramKind: '{shown}'"
                refuse(policy, None, f"failed to configure policy: {why}")
                return None
        return meant

    async def params(
        self, policy: P, binding: Binding, attributes: Attributes, refuse: Callable[[P, Binding | None, str], None]
    ) -> Sequence[Object | None]:
        """The parameters of a binding, if it matches a request; ``refuse`` is called with an error."""
        try:
            if binding.match is not None and await binding.match.find(self.initializer, attributes) is None:
                return ()
            return collect_params(self._kinds, policy.param_kind, binding, attributes.namespace_of_request)
        except (status.StatusError, ParamError) as error:
            refuse(policy, binding, f"failed to configure binding: {error}")
            return ()


class ParamError(ValueError):
    """The binding's parameters are missing; the text is upstream's."""


class ParamKinds:
    """The resources of parameters' kinds.  Custom kinds are looked up again only after a change of definitions."""

    def __init__(self, initializer: Initializer) -> None:
        self.initializer = initializer
        self._changes: object = None
        self._custom: dict[GroupVersionKind, tuple[str, str, bool] | None] = {}

    def find(self, kind: GroupVersionKind) -> tuple[str, str, bool] | None:
        """(group, plural, namespaced) of a built-in or custom kind; None for an unknown kind."""
        row = row_of(kind)
        if row is not None:
            return row.storage_resource.group, row.plural, row.namespaced
        try:
            definitions = self.initializer.lister("apiextensions.k8s.io", "customresourcedefinitions")
        except status.StatusError:
            return None
        if definitions.changes != self._changes:
            self._custom, self._changes = {}, definitions.changes
        custom = self._custom
        if kind not in custom:
            custom[kind] = _custom_resource(definitions.list(), kind)
        return custom[kind]


def collect_params(
    kinds: ParamKinds, param_kind: Object | None, binding: Binding, namespace: str
) -> list[Object | None]:
    """The parameters of a binding; [None] for a policy without parameters.  Raises ParamError."""
    ref = binding.param_ref
    if param_kind is None or ref is None:
        return [None]
    kind = _kind(param_kind)
    found = kinds.find(kind)
    if found is None:
        shown = f"&ParamKind{{APIVersion:{param_kind.get('apiVersion', '')},Kind:{param_kind.get('kind', '')},}}"
        raise ParamError(f"paramKind kind `{shown}` not known")
    group, plural, namespaced = found
    where = ""
    if namespaced:
        where = ref.get("namespace") or namespace
        if not where:
            raise ParamError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    elif ref.get("namespace"):
        raise ParamError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    try:
        lister = kinds.initializer.lister(group, plural)
    except status.StatusError:
        raise ParamError(f"paramKind kind `{kind.kind}` not known") from None
    params: list[Object | None]
    if ref.get("name"):
        one = lister.get(where, ref["name"])
        params = [] if one is None else [in_version(one, kind)]
    elif ref.get("selector") is not None:
        engage()  # there may be any number of objects
        selector = from_label_selector(ref["selector"])
        params = [
            in_version(obj, kind)
            for obj in elements(lister.labelled(ref["selector"].get("matchLabels") or {}, where))
            if selector is not None and selector.matches(obj["metadata"].get("labels") or {})
        ]
    else:
        raise ParamError("one of name or selector must be provided")
    if not params and ref.get("parameterNotFoundAction") == "Deny":
        raise ParamError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return params


def _kind(param_kind: Object) -> GroupVersionKind:
    group, _, version = str(param_kind.get("apiVersion", "")).rpartition("/")
    return GroupVersionKind(group, version, param_kind.get("kind", ""))


def _custom_resource(definitions: list[Object], kind: GroupVersionKind) -> tuple[str, str, bool] | None:
    for definition in elements(definitions):
        spec = definition.get("spec") or {}
        if spec.get("group") == kind.group and (spec.get("names") or {}).get("kind") == kind.kind:
            if any(
                version.get("name") == kind.version and version.get("served") for version in spec.get("versions") or ()
            ):
                return kind.group, spec["names"]["plural"], spec.get("scope") == "Namespaced"
    return None
