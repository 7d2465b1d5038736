"""MutatingAdmissionPolicy (admissionregistration.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.admissionregistration.policies import MutatingPolicyStrategy, policy_table
from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="MutatingAdmissionPolicy",
    plural="mutatingadmissionpolicies",
    namespaced=False,
    categories=("api-extensions",),
    storage_version_hash="LYmCf+UMVdg=",
    strategy=MutatingPolicyStrategy(),
    table=policy_table(
        "mutations", "Mutations", "Mutation indicates the number of mutations rules defined in this configuration"
    ),
)
