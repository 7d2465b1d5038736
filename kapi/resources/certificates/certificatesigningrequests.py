"""CertificateSigningRequest (certificates.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="certificates.k8s.io",
    version="v1",
    kind="CertificateSigningRequest",
    plural="certificatesigningrequests",
    singular="certificatesigningrequest",
    namespaced=False,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("csr",),
    storage_version_hash="95fRKMXA+00=",
    subresources=(
        Subresource("approval", ("get", "patch", "update"), kind="CertificateSigningRequest"),
        Subresource("status", ("get", "patch", "update"), kind="CertificateSigningRequest"),
    ),
)
