"""ValidatingAdmissionPolicy (admissionregistration.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.admissionregistration.policies import (
    ValidatingPolicyStatusStrategy,
    ValidatingPolicyStrategy,
    policy_table,
)
from kapi.resources.definition import Resource, Subresource

_STRATEGY = ValidatingPolicyStrategy()

RESOURCE = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="ValidatingAdmissionPolicy",
    plural="validatingadmissionpolicies",
    namespaced=False,
    categories=("api-extensions",),
    storage_version_hash="6OxvlMmQ6is=",
    subresources=(Subresource("status", strategy=ValidatingPolicyStatusStrategy(_STRATEGY)),),
    strategy=_STRATEGY,
    table=policy_table(
        "validations",
        "Validations",
        "Validations indicates the number of validation rules defined in this configuration",
    ),
)
