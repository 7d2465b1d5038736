"""MutatingAdmissionPolicyBinding (admissionregistration.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.admissionregistration.policies import BINDING_TABLE, BindingStrategy
from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="MutatingAdmissionPolicyBinding",
    plural="mutatingadmissionpolicybindings",
    namespaced=False,
    categories=("api-extensions",),
    storage_version_hash="90V5FRZZ3Zg=",
    strategy=BindingStrategy(actions=False),
    table=BINDING_TABLE,
)
