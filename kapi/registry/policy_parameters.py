"""Authorization of admission policies with parameters: their author must be allowed to read these (KEP-3488).

Upstream: ``pkg/registry/admissionregistration/*/authz.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from kapi.authorization.interface import Attributes, Decision
from kapi.machinery.field import Path, forbidden
from kapi.machinery.gvk import GroupResource, GroupVersionKind
from kapi.machinery.tree import Object
from kapi.registry.environment import Environment
from kapi.registry.registry import Registry
from kapi.request.user import SYSTEM_MASTERS, UserInfo
from kapi.resources.definition import Resource, StrategyContext

#: kind -> plural of the resource that serves it now; "" when there is none
Resolve = Callable[[GroupVersionKind], str]
GROUP = "admissionregistration.k8s.io"
_SPEC = Path("spec")


class _Unresolved(ValueError):
    """The resource of a policy's parameters is unknown: (beginning of upstream's text, attributes to authorize)."""


def resolver(rows: Callable[[], Iterable[Resource]]) -> Resolve:
    """A Resolve over the rows that are served."""

    def resolve(kind: GroupVersionKind) -> str:
        return next((row.plural for row in rows() if (row.group, row.version, row.kind) == kind), "")

    return resolve


async def _refused(environment: Environment, asked: Attributes) -> str | None:
    """The authorizer's error, which may be ""; None when the user is allowed."""
    verdict = await environment.authorize(asked)
    return None if verdict is None or verdict.decision is Decision.ALLOW else verdict.error


def _is_exempt(user: UserInfo | None) -> bool:
    """Whether no check is needed: writes of the server itself and of system:masters."""
    return user is None or SYSTEM_MASTERS in user.groups


class PolicyGuard:
    """Checks that a policy's author may get all objects of its ``paramKind``."""

    def __init__(self, environment: Environment, resolve: Resolve) -> None:
        self._environment = environment
        self._resolve = resolve

    async def __call__(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        """Adds an error to ``ctx.guard_errors``; validation reports it when nothing else is wrong."""
        kind = (obj.get("spec") or {}).get("paramKind")
        if ctx.subresource or kind is None or _is_exempt(ctx.user):
            return
        if old is not None and kind == (old.get("spec") or {}).get("paramKind"):
            return
        user = ctx.user
        assert user is not None
        asked = Attributes(user, "get", group="*", version="*", resource="*", namespace="*", name="*")
        found = _kind_of(kind)
        if found is not None:
            asked = msgspec.structs.replace(
                asked, group=found.group, version=found.version, resource=self._resolve(found) or "*"
            )
        error = await _refused(self._environment, asked)
        if error is not None:
            text = (
                f'user {shown(user)} must have "get" permission on all objects of the referenced paramKind '
                f"(kind={kind.get('kind', '')}, apiVersion={kind.get('apiVersion', '')})"
            )
            ctx.guard_errors.append(forbidden(_SPEC.child("paramKind"), error or text))


class BindingGuard:
    """Checks that a binding's author may read the parameters of its ``paramRef``."""

    def __init__(self, environment: Environment, resolve: Resolve, policy: Callable[[str], Object | None]) -> None:
        self._environment = environment
        self._resolve = resolve
        self._policy = policy

    async def __call__(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        """Adds an error to ``ctx.guard_errors``; validation reports it when nothing else is wrong.

        As upstream, every update checks again, even when the reference stays.
        """
        spec = obj.get("spec") or {}
        reference = spec.get("paramRef")
        if reference is None or _is_exempt(ctx.user):
            return
        user = ctx.user
        assert user is not None
        name, namespace = reference.get("name") or "", reference.get("namespace") or ""
        verb = "get" if name else "list"
        asked = Attributes(user, verb, group="*", version="*", resource="*", namespace=namespace, name=name)
        # upstream has the verb and the user in the wrong places
        text = f'user {verb} does not have "{shown(user)}" permission on the object referenced by paramRef'
        try:
            asked = self._narrowed(asked, spec.get("policyName") or "")
        except _Unresolved as why:
            asked = why.args[1]
            text = (
                f"{why.args[0]} to determine minimum required permissions and user {shown(user)} does not have "
                f'"{verb}" permission for all groups, versions and resources'
            )
        error = await _refused(self._environment, asked)
        if error is not None:
            ctx.guard_errors.append(forbidden(_SPEC.child("paramRef"), error or text))

    def _narrowed(self, asked: Attributes, name: str) -> Attributes:
        """The attributes with the resource of the policy's parameters.  Raises _Unresolved."""
        policy = self._policy(name)
        if policy is None:
            raise _Unresolved(f"unable to get policy {name}", asked)
        kind = (policy.get("spec") or {}).get("paramKind")
        if kind is None:
            return asked
        written = f"&{{{kind.get('apiVersion', '')} {kind.get('kind', '')}}}"
        found = _kind_of(kind)
        if found is None:
            raise _Unresolved(f"unable to parse paramKind {written}", asked)
        asked = msgspec.structs.replace(asked, group=found.group, version=found.version)
        plural = self._resolve(found)
        if not plural:
            raise _Unresolved(f"unable to resolve paramKind {written}", asked)
        return msgspec.structs.replace(asked, resource=plural)


def _kind_of(reference: Object) -> GroupVersionKind | None:
    """The kind of a ``paramKind``; None when its ``apiVersion`` has too many parts."""
    text = reference.get("apiVersion") or ""
    if text.count("/") > 1:
        return None
    group, _, version = text.rpartition("/")
    return GroupVersionKind(group, version, reference.get("kind") or "")


def shown(user: UserInfo) -> str:
    """A user as Go prints its record."""
    extra = " ".join(f"{key}:[{' '.join(user.extra[key])}]" for key in sorted(user.extra))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"


def install_parameter_checks(registry: Registry, resolve: Resolve) -> None:
    """Call it once, after the built-in rows were added."""
    environment = registry.environment
    for prefix in ("validating", "mutating"):
        policies, bindings = (GroupResource(GROUP, f"{prefix}admissionpolic{end}") for end in ("ies", "ybindings"))
        registry.amend(policies, lambda: {"guard": PolicyGuard(environment, resolve)})

        def guard(policies: GroupResource = policies) -> dict[str, object]:
            if policies not in registry.stores:
                return {}
            lister = registry.client.resource(*policies).lister
            return {"guard": BindingGuard(environment, resolve, lambda name: lister.get("", name))}

        registry.amend(bindings, guard)
