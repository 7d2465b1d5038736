"""CertificateApproval: approving a request needs the permission to ``approve`` for its signer."""

from __future__ import annotations

from collections.abc import Awaitable

from kapi.admission.initializer import Initializer
from kapi.admission.interface import UPDATE, Attributes, Plugin, denied
from kapi.admission.plugins.signers import may


class CertificateApproval(Plugin):
    operations = frozenset({UPDATE})
    resources = frozenset({"certificatesigningrequests"})

    def __init__(self, initializer: Initializer) -> None:
        self.initializer = initializer

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        if attributes.subresource != "approval" or attributes.resource.resource != "certificatesigningrequests":
            return None
        return self._check(attributes)

    async def _check(self, attributes: Attributes) -> None:
        signer = ((attributes.old or {}).get("spec") or {}).get("signerName", "")
        if not await may(self.initializer, attributes.user, "approve", signer):
            raise denied(attributes, f'user not permitted to approve requests with signerName "{signer}"')


def make(initializer: Initializer, configuration: object) -> Plugin:
    return CertificateApproval(initializer)
