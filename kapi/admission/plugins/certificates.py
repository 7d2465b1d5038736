"""Plugins of certificates: rights to approve, sign or attest for a signer (upstream: ``pkg/apis/certificates/authorization``)."""

from __future__ import annotations

import base64
from collections.abc import Awaitable

from cryptography.x509.oid import NameOID

from kapi.admission.initializer import InitializedPlugin, Initializer
from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin, denied
from kapi.authorization.interface import Attributes as Question
from kapi.machinery.gvk import GroupResource
from kapi.machinery.pem import signing_request
from kapi.machinery.tree import Object

_SIGNER = "kubernetes.io/kube-apiserver-client"
_REQUESTS = GroupResource("certificates.k8s.io", "certificatesigningrequests")
_BUNDLES = GroupResource("certificates.k8s.io", "clustertrustbundles")


async def _check(initializer: Initializer, attributes: Attributes, verb: str, signer: str, doing: str) -> None:
    """Raises the refusal for a user with no right to the signer and to its whole domain (``example.com/*``)."""
    domain = signer.partition("/")[0] + "/*"
    for name in (signer, domain):
        question = Question(
            attributes.user, verb, group="certificates.k8s.io", version="*", resource="signers", name=name
        )
        if await initializer.is_allowed(question):
            return
    raise denied(attributes, f'user not permitted to {doing} signerName "{signer}"')


def _signer(obj: Object | None) -> str:
    signer: str = ((obj or {}).get("spec") or {}).get("signerName", "")
    return signer


class CertificateApproval(InitializedPlugin):
    """Approving a request needs the permission to ``approve`` for its signer."""

    operations = frozenset({UPDATE})
    resources = frozenset({"certificatesigningrequests"})

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        if attributes.subresource != "approval" or attributes.resource.group_resource != _REQUESTS:
            return None
        signer = _signer(attributes.old)
        return _check(self.initializer, attributes, "approve", signer, "approve requests with")


class CertificateSigning(InitializedPlugin):
    """Writing a request's status needs the permission to ``sign`` for its signer."""

    operations = frozenset({UPDATE})
    resources = frozenset({"certificatesigningrequests"})

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        if attributes.subresource != "status" or attributes.resource.group_resource != _REQUESTS:
            return None
        before = (attributes.old or {}).get("status") or {}
        after = (attributes.obj or {}).get("status") or {}
        if before.get("certificate") == after.get("certificate") and (before.get("conditions") or []) == (
            after.get("conditions") or []
        ):
            return None
        return _check(self.initializer, attributes, "sign", _signer(attributes.old), "sign requests with")


class CertificateSubjectRestriction(Plugin):
    """No client certificate of ``system:masters`` is signed."""

    operations = frozenset({CREATE})
    resources = frozenset({"certificatesigningrequests"})

    def validate(self, attributes: Attributes) -> None:
        if attributes.resource.group_resource != _REQUESTS or attributes.subresource:
            return
        spec = (attributes.obj or {}).get("spec") or {}
        if spec.get("signerName") != _SIGNER:
            return
        try:
            subject = signing_request(base64.b64decode(spec.get("request") or "", validate=True)).subject
        except ValueError as error:
            raise denied(attributes, f"failed to parse CSR: {error}") from None
        if any(part.value == "system:masters" for part in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)):
            raise denied(attributes, f"use of {_SIGNER} signer with system:masters group is not allowed")


class ClusterTrustBundleAttest(InitializedPlugin):
    """Writing a signer's bundle needs the permission to ``attest`` for it (beta, off by default)."""

    gate = "ClusterTrustBundle"
    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"clustertrustbundles"})

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        if attributes.resource.group_resource != _BUNDLES:
            return None
        signer = _signer(attributes.obj)
        if not signer or attributes.operation == UPDATE and _only_collection_fields(attributes):
            return None
        return _check(self.initializer, attributes, "attest", signer, "attest for")


def _only_collection_fields(attributes: Attributes) -> bool:
    """Whether only fields that the garbage collector edits have changed."""
    own = ("ownerReferences", "finalizers", "managedFields")

    def rest(obj: Object | None) -> object:
        obj = obj or {}
        metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in own}
        return {**obj, "metadata": metadata}

    return bool(rest(attributes.obj) == rest(attributes.old))
