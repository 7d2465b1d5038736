"""Authorization to issue a pod's certificate: the permission to ``sign`` for its signer (KEP-4317).

Upstream: ``pkg/registry/certificates/podcertificaterequest`` (StatusStrategy.ValidateUpdate).
"""

from __future__ import annotations

from kapi.authorization.interface import Attributes, Decision
from kapi.machinery.field import Path, forbidden
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.registry.environment import Environment
from kapi.registry.registry import Registry
from kapi.resources.definition import StrategyContext

REQUESTS = GroupResource("certificates.k8s.io", "podcertificaterequests")


class SigningGuard:
    """Checks updates of a request's status with the authorizer of ``environment``."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    async def __call__(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        """Adds an error to ``ctx.guard_errors``; validation reports it when nothing else is wrong."""
        if ctx.subresource != "status" or old is None or ctx.user is None:
            return
        new, before = ((one.get("status") or {}).get("certificateChain") or "" for one in (obj, old))
        if new == before:
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
