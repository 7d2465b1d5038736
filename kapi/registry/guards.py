"""Guards: permissions that a write needs in addition to its verb.

* Roles and bindings of RBAC: the checks for privilege escalation (upstream: ``rbac/*/policybased``).
* The status of a ResourceClaim (upstream: ``pkg/registry/resource/utils.go``, KEP-4817): to allocate or reserve a claim needs a
  permission for ``resourceclaims/binding``, to change the state of a driver's devices one for ``resourceclaims/driver`` with the
  driver's name; clients on the claim's own node use another verb.
* A pod's certificate: the permission to ``sign`` for its signer (KEP-4317; upstream:
  ``pkg/registry/certificates/podcertificaterequest`` StatusStrategy.ValidateUpdate).
"""

from __future__ import annotations

from kapi.authorization.forbidden import forbidden_error
from kapi.authorization.interface import Attributes, Decision
from kapi.authorization.rbac.escalation import EscalationCheck
from kapi.authorization.rbac.index import GROUP
from kapi.machinery import tree
from kapi.machinery.field import Path, forbidden
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupResource
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.registry.environment import Environment
from kapi.registry.registry import Registry
from kapi.resources.definition import StrategyContext
from kapi.resources.resource.resourceclaims import STATUS_STRATEGY, device_id
from kapi.resources.shared.features import gate
from kapi.resources.shared.names import subdomain_name
from kapi.resources.shared.rules import same

_RESOURCES = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
CLAIMS = GroupResource("resource.k8s.io", "resourceclaims")
_STATUS = Path("status")
_NODE_NAME = "authentication.kubernetes.io/node-name"
_GATE = "DRAResourceClaimGranularStatusAuthorization"
REQUESTS = GroupResource("certificates.k8s.io", "podcertificaterequests")


class EscalationGuard:
    """The guard of one of the resources."""

    def __init__(self, check: EscalationCheck, resource: GroupResource) -> None:
        self._check = check
        self._resource = resource

    async def __call__(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        """Raises Forbidden, or NotFound for a missing role."""
        if ctx.user is not None:
            await self._check.check(self._resource, ctx.user, ctx.namespace, ctx.name, obj, old)


def install_escalation_checks(registry: Registry, check: EscalationCheck) -> None:
    """Call it once, after the built-in rows were added."""
    for plural in _RESOURCES:
        resource = GroupResource(GROUP, plural)
        registry.amend(resource, lambda resource=resource: {"guard": EscalationGuard(check, resource)})  # type: ignore[misc]


class ClaimStatusGuard:
    """Checks updates of a claim's status with the authorizer of ``environment``."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def __call__(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        """Adds an error to ``ctx.guard_errors`` for each change that is not allowed; validation reports them."""
        if ctx.subresource != "status" or old is None or not gate(ctx, _GATE):
            return
        obj = tree.copy(obj)
        STATUS_STRATEGY.prepare_for_update(obj, old, ctx)
        status, before = obj.get("status") or {}, old.get("status") or {}
        if not all(same(status.get(part), before.get(part)) for part in ("allocation", "reservedFor")):
            refusal = await self._refusal(ctx, ctx.verb, "binding")
            if refusal:
                text = "changing status.allocation or status.reservedFor requires "
                text += f'resource="resourceclaims/binding", verb="{ctx.verb}" permission: {refusal}'
                ctx.guard_errors.append(forbidden(_STATUS.child("allocation"), text))
        if status.get("allocation") is None:
            return
        verbs = [f"arbitrary-node:{ctx.verb}"]
        if _runs_on(ctx, allocated_node(status["allocation"])):
            verbs.insert(0, f"associated-node:{ctx.verb}")
        for driver in ordered(_changed_drivers(obj, old)):
            refusals = []
            for verb in verbs:
                refusals.append(await self._refusal(ctx, verb, "driver", ctx.namespace, driver))
                if not refusals[-1]:
                    break
            else:
                text = 'changing status.devices requires resource="resourceclaims/driver", '
                text += f'verb="[{" ".join(verbs)}]" permission: {refusals[0]}'
                ctx.guard_errors.append(forbidden(_STATUS.child("devices"), text))

    async def _refusal(
        self, ctx: StrategyContext, verb: str, subresource: str, namespace: str = "", name: str = ""
    ) -> str:
        """The reason of a refusal; "" when the user is allowed."""
        if ctx.user is None:
            return ""
        asked = Attributes(
            ctx.user,
            verb,
            group=CLAIMS.group,
            version="v1",
            resource=CLAIMS.resource,
            subresource=subresource,
            namespace=namespace,
            name=name,
        )
        verdict = await self._environment.authorize(asked)
        if verdict is None or verdict.decision is Decision.ALLOW:
            return ""
        return forbidden_error(asked, ": ".join(part for part in (verdict.error, verdict.reason) if part)).message


def allocated_node(allocation: Object) -> str:
    """The name of the node, when the allocation selects exactly one by name; else ""."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions") or len(terms[0].get("matchFields") or []) != 1:
        return ""
    field = terms[0]["matchFields"][0]
    values = field.get("values") or []
    if field.get("key") != "metadata.name" or field.get("operator") != "In" or len(values) != 1:
        return ""
    return str(values[0])


def _runs_on(ctx: StrategyContext, node: str) -> bool:
    """Whether the user is a service account whose token is bound to a pod on the node."""
    user = ctx.user
    if not node or user is None:
        return False
    parts = user.name.split(":")
    if len(parts) != 4 or parts[:2] != ["system", "serviceaccount"]:
        return False
    names = user.extra.get(_NODE_NAME, ())
    return len(names) == 1 and not subdomain_name(names[0]) and names[0] == node


def _changed_drivers(obj: Object, old: Object) -> set[str]:
    """The drivers of devices whose state was added, changed or removed."""
    now = {device_id(device): device for device in (obj.get("status") or {}).get("devices") or ()}
    before = {device_id(device): device for device in (old.get("status") or {}).get("devices") or ()}
    return {key[0] for key in now.keys() | before.keys() if not same(now.get(key), before.get(key))}


def install_claim_checks(registry: Registry) -> None:
    """Call it once, after the built-in rows were added."""
    registry.amend(CLAIMS, lambda: {"guard": ClaimStatusGuard(registry.environment)})


class SigningGuard:
    """Checks updates of a request's status with the authorizer of ``environment``."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def __call__(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        """Adds an error to ``ctx.guard_errors``; validation reports it when nothing else is wrong."""
        if ctx.subresource != "status" or old is None or ctx.user is None:
            return
        if same(obj.get("status") or {}, old.get("status") or {}):
            return
        signer = (old.get("spec") or {}).get("signerName", "")
        for name in (signer, signer.partition("/")[0] + "/*"):
            asked = Attributes(ctx.user, "sign", group=REQUESTS.group, version="*", resource="signers", name=name)
            verdict = await self._environment.authorize(asked)
            if verdict is None or verdict.decision is Decision.ALLOW:
                return
        text = f'User {quote(ctx.user.name)} is not permitted to "sign" for signer {quote(signer)}'
        ctx.guard_errors.append(forbidden(Path("spec").child("signerName"), text))


def install_signing_checks(registry: Registry) -> None:
    """Call it once, after the built-in rows were added."""
    registry.amend(REQUESTS, lambda: {"guard": SigningGuard(registry.environment)})
