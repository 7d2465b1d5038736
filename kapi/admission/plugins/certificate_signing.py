"""CertificateSigning: writing a request's status needs the permission to ``sign`` for its signer."""

from __future__ import annotations

from collections.abc import Awaitable

from kapi.admission.initializer import Initializer
from kapi.admission.interface import UPDATE, Attributes, Plugin, denied
from kapi.admission.plugins.signers import may


class CertificateSigning(Plugin):
    operations = frozenset({UPDATE})
    resources = frozenset({"certificatesigningrequests"})

    def __init__(self, initializer: Initializer) -> None:
        self.initializer = initializer

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        if attributes.subresource != "status" or attributes.resource.resource != "certificatesigningrequests":
            return None
        before = (attributes.old or {}).get("status") or {}
        after = (attributes.obj or {}).get("status") or {}
        if before.get("certificate") == after.get("certificate") and (before.get("conditions") or []) == (
            after.get("conditions") or []
        ):
            return None
        return self._check(attributes)

    async def _check(self, attributes: Attributes) -> None:
        signer = ((attributes.old or {}).get("spec") or {}).get("signerName", "")
        if not await may(self.initializer, attributes.user, "sign", signer):
            raise denied(attributes, f'user not permitted to sign requests with signerName "{signer}"')


def make(initializer: Initializer, configuration: object) -> Plugin:
    return CertificateSigning(initializer)
