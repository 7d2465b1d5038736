"""The default policy, its bindings, and its reconciliation with the store at start (upstream: ``pkg/registry/rbac/rest``).

Additions of an administrator stay.  Missing rules and subjects are added again, unless the object has ``autoupdate: "false"``.
Upstream of the bindings: ``bootstrappolicy/{policy,controller_policy}.go``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from twisted.logger import Logger

from kapi.authorization.rbac.bootstrap_roles import AUTOUPDATE, DEFAULT_GATES, GROUP, default_policy
from kapi.authorization.rbac.covers import missing_rules
from kapi.authorization.rbac.policy import PolicyRule, rules_of
from kapi.machinery.status import AlreadyExists, Conflict, NotFound
from kapi.machinery.tree import Object, copy
from kapi.runtime.interface import Client, ResourceClient
from kapi.runtime.persistent import Refusals, all_of

log = Logger()
_MAX_ATTEMPTS = 5
#: roles that became aggregated ones: an administrator's changes to the first role are kept in the second
_AGGREGATED = {
    "admin": "system:aggregate-to-admin",
    "edit": "system:aggregate-to-edit",
    "view": "system:aggregate-to-view",
}
#: the second binding was split from the first one, and gets its subjects
_SPLIT = {"system:discovery": "system:public-info-viewer"}


@functools.cache
def node_rules(gates: frozenset[str] = DEFAULT_GATES) -> tuple[PolicyRule, ...]:
    """The static rules of the Node authorizer, which are the rules of ``system:node``."""
    return next(
        rules_of(role) for role in default_policy(gates).cluster_roles if role["metadata"]["name"] == "system:node"
    )


def _tree(rule: PolicyRule) -> Object:
    tree: Object = {"verbs": list(rule.verbs)}
    for key, values in (
        ("apiGroups", rule.groups),
        ("resources", rule.resources),
        ("resourceNames", rule.names),
        ("nonResourceURLs", rule.urls),
    ):
        if values:
            tree[key] = list(values)
    return tree


def _merged_metadata(existing: Object, expected: Object) -> bool:
    """Adds missing labels and annotations; True when there were any."""
    changed = False
    for key in ("labels", "annotations"):
        have = existing["metadata"].get(key) or {}
        merged = {**(expected["metadata"].get(key) or {}), **have}
        if merged != have:
            existing["metadata"][key] = merged
            changed = True
    return changed


def _protected(existing: Object) -> bool:
    return (existing["metadata"].get("annotations") or {}).get(AUTOUPDATE) == "false"


def reconciled_role(existing: Object, expected: Object) -> Object | None:
    """The existing role with the missing rules, and an aggregation only where one is expected; None when it is right."""
    if _protected(existing):
        return None
    role: Object = copy(existing)
    changed = _merged_metadata(role, expected)
    same = role.get("rules") == expected.get("rules")  # as at nearly every start
    missing = [] if same else missing_rules(rules_of(role), rules_of(expected))
    if missing and not expected.get("aggregationRule"):
        role["rules"] = [*(role.get("rules") or ()), *(_tree(rule) for rule in missing)]
        changed = True
    if expected.get("aggregationRule") is None and role.pop("aggregationRule", None) is not None:
        changed = True  # or the aggregation would write the rules
    selectors = (expected.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    have = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    added = [selector for selector in selectors if selector not in have]
    if added:
        role["aggregationRule"] = {"clusterRoleSelectors": [*have, *added]}
        changed = True
    return role if changed else None


def reconciled_binding(existing: Object, expected: Object) -> Object | None:
    """The existing binding with the missing subjects, or None when none are missing."""
    if _protected(existing):
        return None
    binding: Object = copy(existing)
    changed = _merged_metadata(binding, expected)
    have = binding.get("subjects") or []
    added = [subject for subject in expected.get("subjects") or () if subject not in have]
    if added:
        binding["subjects"] = [*have, *added]
        changed = True
    return binding if changed else None


async def reconcile_policy(
    client: Client, gates: frozenset[str] = DEFAULT_GATES, progress: Callable[[], None] = lambda: None
) -> None:
    """Creates or completes every default role and binding.  Raises StatusError after the last one if the registry refused any.

    ``gates``: the enabled feature gates.  ``progress`` is called after each role and binding.
    """
    refusals = Refusals()
    policy = default_policy(gates)
    bindings = policy.role_bindings
    with refusals:
        await _inherit(client)
    with refusals:
        await _reconcile_all(
            client, "clusterroles", (*policy.cluster_roles, *policy.controller_roles), reconciled_role, progress
        )
    with refusals:
        await _reconcile_all(client, "clusterrolebindings", policy.cluster_role_bindings, reconciled_binding, progress)
    if client.has("", "namespaces"):
        for namespace in sorted({each["metadata"]["namespace"] for each in (*policy.roles, *bindings)}):
            with refusals:
                await _ensure_namespace(client, namespace)
        with refusals:
            await _reconcile_all(client, "roles", policy.roles, reconciled_role, progress)
        with refusals:
            await _reconcile_all(client, "rolebindings", bindings, reconciled_binding, progress)
    refusals.check()


async def _inherit(client: Client) -> None:
    """Creates objects that an older release had under another name, with the administrator's changes.

    Upstream: ``primeAggregatedClusterRoles``, ``primeSplitClusterRoleBindings``.
    """
    if client.has(GROUP, "clusterroles"):
        roles = client.resource(GROUP, "clusterroles")
        for old, new in _AGGREGATED.items():
            source = roles.lister.get("", old)
            if source is not None and not source.get("aggregationRule"):
                await _create_missing(roles, {**_template(source, new), "rules": source.get("rules")})
    if client.has(GROUP, "clusterrolebindings"):
        bindings = client.resource(GROUP, "clusterrolebindings")
        for old, new in _SPLIT.items():
            source = bindings.lister.get("", old)
            if source is not None:
                role = {"apiGroup": GROUP, "kind": "ClusterRole", "name": new}
                await _create_missing(
                    bindings, {**_template(source, new), "subjects": source.get("subjects"), "roleRef": role}
                )


def _template(source: Object, name: str) -> Object:
    metadata = {key: source["metadata"][key] for key in ("labels", "annotations") if key in source["metadata"]}
    return {"apiVersion": source["apiVersion"], "kind": source["kind"], "metadata": {"name": name, **metadata}}


async def _create_missing(resource: ResourceClient, obj: Object) -> None:
    if resource.lister.get("", obj["metadata"]["name"]) is None:
        try:
            await resource.create(copy(obj))
        except AlreadyExists:
            pass  # another server was faster


async def _ensure_namespace(client: Client, name: str) -> None:
    namespaces = client.resource("", "namespaces")
    if namespaces.lister.get("", name) is not None:
        return
    try:
        await namespaces.create({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})
    except AlreadyExists:
        pass


async def _reconcile_all(
    client: Client,
    plural: str,
    objects: Iterable[Object],
    merge: Callable[[Object, Object], Object | None],
    progress: Callable[[], None],
) -> None:
    """Reconciles all objects concurrently: the store commits them together, with one write to its disk instead of many."""
    if not client.has(GROUP, plural):
        return
    resource = client.resource(GROUP, plural)

    async def one(expected: Object) -> None:
        await _reconcile(resource, expected, merge)
        progress()

    await all_of(map(one, objects))


async def _reconcile(
    resource: ResourceClient, expected: Object, merge: Callable[[Object, Object], Object | None]
) -> None:
    name, namespace = expected["metadata"]["name"], expected["metadata"].get("namespace", "")
    for _ in range(_MAX_ATTEMPTS):
        existing = resource.lister.get(namespace, name)
        try:
            if existing is None:
                await resource.create(copy(expected), namespace)
                return
            if existing.get("roleRef") != expected.get("roleRef") and not _protected(existing):
                await resource.delete(name, namespace, {"preconditions": {"uid": existing["metadata"]["uid"]}})
                await resource.create(copy(expected), namespace)
                return
            merged = merge(existing, expected)
            if merged is not None:
                await resource.update(merged, namespace)
                log.info("Completed the default {kind} {name}", kind=expected["kind"], name=name)
            return
        except (AlreadyExists, Conflict, NotFound) as error:
            passing = error  # another server does the same: read the object again
    raise passing
