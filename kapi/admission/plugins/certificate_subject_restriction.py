"""CertificateSubjectRestriction: no client certificate of ``system:masters`` is signed."""

from __future__ import annotations

import base64
import binascii

from cryptography import x509
from cryptography.x509.oid import NameOID

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, Attributes, Plugin, denied

_SIGNER = "kubernetes.io/kube-apiserver-client"


class CertificateSubjectRestriction(Plugin):
    operations = frozenset({CREATE})
    resources = frozenset({"certificatesigningrequests"})

    def validate(self, attributes: Attributes) -> None:
        if attributes.resource.resource != "certificatesigningrequests" or attributes.subresource:
            return
        spec = (attributes.obj or {}).get("spec") or {}
        if spec.get("signerName") != _SIGNER:
            return
        try:
            pem = base64.b64decode(spec.get("request") or "", validate=True)
            if b"-----BEGIN" not in pem:
                raise ValueError("PEM block type must be CERTIFICATE REQUEST")
            subject = x509.load_pem_x509_csr(pem).subject
        except (ValueError, binascii.Error) as error:
            raise denied(attributes, f"failed to parse CSR: {error}") from None
        if any(part.value == "system:masters" for part in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)):
            raise denied(attributes, f"use of {_SIGNER} signer with system:masters group is not allowed")


def make(initializer: Initializer, configuration: object) -> Plugin:
    return CertificateSubjectRestriction()
