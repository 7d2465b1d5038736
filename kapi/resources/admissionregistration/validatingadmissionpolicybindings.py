"""ValidatingAdmissionPolicyBinding (admissionregistration.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.admissionregistration.policies import BINDING_TABLE, BindingStrategy
from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="ValidatingAdmissionPolicyBinding",
    plural="validatingadmissionpolicybindings",
    namespaced=False,
    categories=("api-extensions",),
    storage_version_hash="v9715VZqakg=",
    strategy=BindingStrategy(actions=True),
    table=BINDING_TABLE,
)
