"""The reviews of authentication.k8s.io/v1: requests that endpoints answer, and that are not stored."""

from __future__ import annotations

from kapi.resources.definition import Resource

SELF_SUBJECT_REVIEW = Resource(
    group="authentication.k8s.io",
    version="v1",
    kind="SelfSubjectReview",
    plural="selfsubjectreviews",
    namespaced=False,
    verbs=("create",),
    handler="selfsubjectreviews",
)


TOKEN_REVIEW = Resource(
    group="authentication.k8s.io",
    version="v1",
    kind="TokenReview",
    plural="tokenreviews",
    namespaced=False,
    verbs=("create",),
    handler="tokenreviews",
)
