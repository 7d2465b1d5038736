"""ValidatingAdmissionPolicy (admissionregistration.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="ValidatingAdmissionPolicy",
    plural="validatingadmissionpolicies",
    singular="validatingadmissionpolicy",
    namespaced=False,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    categories=("api-extensions",),
    storage_version_hash="6OxvlMmQ6is=",
    subresources=(
        Subresource("status", ("get", "patch", "update"), kind="ValidatingAdmissionPolicy"),
    ),
)
