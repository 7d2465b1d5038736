"""SelfSubjectRulesReview (authorization.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="authorization.k8s.io",
    version="v1",
    kind="SelfSubjectRulesReview",
    plural="selfsubjectrulesreviews",
    namespaced=False,
    verbs=("create",),
    handler="selfsubjectrulesreviews",
)
