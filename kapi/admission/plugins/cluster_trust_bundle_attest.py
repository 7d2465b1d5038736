"""ClusterTrustBundleAttest: writing a signer's bundle needs the permission to ``attest`` for it (beta, off by default)."""

from __future__ import annotations

from collections.abc import Awaitable

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin, denied
from kapi.admission.plugins.signers import may
from kapi.machinery.tree import Object


class ClusterTrustBundleAttest(Plugin):
    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"clustertrustbundles"})

    def __init__(self, initializer: Initializer) -> None:
        self.initializer = initializer

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        if attributes.resource.resource != "clustertrustbundles" or attributes.resource.group != "certificates.k8s.io":
            return None
        signer = ((attributes.obj or {}).get("spec") or {}).get("signerName", "")
        if not signer or attributes.operation == UPDATE and _only_collection_fields(attributes):
            return None
        return self._check(attributes, signer)

    async def _check(self, attributes: Attributes, signer: str) -> None:
        if not await may(self.initializer, attributes.user, "attest", signer):
            raise denied(attributes, f'user not permitted to attest for signerName "{signer}"')


def _only_collection_fields(attributes: Attributes) -> bool:
    """Whether nothing but what the garbage collector edits has changed."""
    own = ("ownerReferences", "finalizers", "managedFields")

    def rest(obj: Object | None) -> object:
        obj = obj or {}
        metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in own}
        return {**obj, "metadata": metadata}

    return bool(rest(attributes.obj) == rest(attributes.old))


def make(initializer: Initializer, configuration: object) -> Plugin:
    return ClusterTrustBundleAttest(initializer) if initializer.feature("ClusterTrustBundle") else Plugin()
