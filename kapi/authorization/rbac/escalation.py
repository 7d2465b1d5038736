"""Users may grant only permissions that they hold (upstream: ``pkg/registry/rbac/escalation_check.go`` and ``*/policybased``).

The registry calls ``EscalationCheck.check`` before it validates the object, so a refusal is reported before a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable

from kapi.authorization.interface import Attributes, Authorizer, Decision, decided
from kapi.authorization.rbac.authorizer import RBACAuthorizer
from kapi.authorization.rbac.covers import missing_compacted, missing_rules
from kapi.authorization.rbac.index import GROUP, RoleMissing
from kapi.authorization.rbac.policy import PolicyRule, quoted_list, rules_of
from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.golang import aggregate, quote
from kapi.machinery.gvk import GroupResource
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.request.user import SYSTEM_MASTERS, UserInfo

MAX_MISSING_LENGTH = 1024 * 1024  # characters of the missing rules in a refusal
_FULL_AUTHORITY = (PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), urls=("*",)))


def escalation_text(
    resource: GroupResource,
    user: UserInfo,
    held: list[PolicyRule],
    requested: Iterable[PolicyRule],
    errors: list[RoleMissing],
) -> str:
    """ "" when the user holds all permissions; else upstream's text, which lists the missing ones.

    The text names a missing role by the resource of the request.
    """
    missing, complete = missing_compacted(held, requested, MAX_MISSING_LENGTH)
    if not missing:
        return ""
    lines = ordered({rule.compact() for rule in elements(missing)})
    if not complete:
        lines.append("and more")
    text = (
        f"user {quote(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant RBAC permissions "
        "not currently held:\n" + "\n".join(lines)
    )
    if not errors:
        return text
    missing_roles = aggregate(
        f"{resource} {quote(error.role)} not found" if error.role else str(error) for error in errors
    )
    return f"{text}; resolution errors: [{missing_roles}]"


def only_garbage_collection_changes(obj: Object, old: Object) -> bool:
    """Whether an update changes only owner references and finalizers, for which the garbage collector needs no permissions.

    The update must contain all other fields, even the resourceVersion, as the result of a patch does.
    """

    def stripped(tree: Object, without: tuple[str, ...]) -> Object:
        return {key: value for key, value in tree.items() if key not in without and value not in ({}, [], None, "")}

    def compared(tree: Object) -> tuple[Object, Object]:
        metadata = stripped(tree["metadata"], ("ownerReferences", "finalizers", "managedFields", "selfLink"))
        return metadata, stripped(tree, ("kind", "apiVersion", "metadata"))

    return compared(obj) == compared(old)


class EscalationCheck:
    """The checks of one server."""

    def __init__(self, rbac: RBACAuthorizer, authorizer: Authorizer | None) -> None:
        self.rbac = rbac
        self.authorizer = authorizer

    async def check(
        self, resource: GroupResource, user: UserInfo, namespace: str, name: str, obj: Object, old: Object | None
    ) -> None:
        """Checks a write to any of the four RBAC resources.  Raises Forbidden (or NotFound for a missing role)."""
        if resource.group != GROUP:
            return
        if resource.resource in ("roles", "clusterroles"):
            await self.check_role(resource, user, namespace, name, obj, old)
        elif resource.resource in ("rolebindings", "clusterrolebindings"):
            await self.check_binding(resource, user, namespace, obj, old)

    async def check_role(
        self, resource: GroupResource, user: UserInfo, namespace: str, name: str, obj: Object, old: Object | None
    ) -> None:
        if SYSTEM_MASTERS in user.groups or await self._allowed(user, "escalate", resource.resource, namespace, name):
            return
        if old is not None and only_garbage_collection_changes(obj, old):
            return
        own_name = obj["metadata"].get("name", "")
        held, errors = self.rbac.held_rules(user, namespace)
        text = escalation_text(resource, user, held, rules_of(obj), errors)
        if text:
            raise status.forbidden(resource, own_name, text)
        if _aggregates(obj) or (old is not None and _aggregates(old)):
            if missing_rules(held, _FULL_AUTHORITY):
                raise status.forbidden(
                    resource, own_name, "must have cluster-admin privileges to use the aggregationRule"
                )

    async def check_binding(
        self, resource: GroupResource, user: UserInfo, namespace: str, obj: Object, old: Object | None
    ) -> None:
        if SYSTEM_MASTERS in user.groups:
            return
        if old is not None and only_garbage_collection_changes(obj, old):
            return
        ref = obj.get("roleRef") or {}
        plural = {"ClusterRole": "clusterroles", "Role": "roles"}.get(ref.get("kind", ""))
        role_name = ref.get("name", "")
        if plural and await self._allowed(user, "bind", plural, namespace, role_name, ref.get("apiGroup", "")):
            return
        try:
            granted = self.rbac.index.role_rules(ref.get("kind") or "", role_name, namespace).rules
        except RoleMissing as error:
            if plural is None:
                raise status.generic(str(error)) from None
            raise status.not_found(resource, role_name) from None
        held, errors = self.rbac.held_rules(user, namespace)
        text = escalation_text(resource, user, held, granted, errors)
        if text:
            raise status.forbidden(resource, obj["metadata"].get("name", ""), text)

    async def _allowed(
        self, user: UserInfo, verb: str, resource: str, namespace: str, name: str, group: str = GROUP
    ) -> bool:
        if self.authorizer is None:
            return False
        asked = Attributes(user, verb, group=group, version="*", resource=resource, namespace=namespace, name=name)
        verdict = await decided(self.authorizer, asked)
        return verdict.decision is Decision.ALLOW


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))
