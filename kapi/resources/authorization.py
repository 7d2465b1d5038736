"""The reviews of authorization.k8s.io/v1: requests that endpoints answer, and that are not stored."""

from __future__ import annotations

from kapi.resources.definition import Resource

LOCAL_SUBJECT_ACCESS_REVIEW = Resource(
    group="authorization.k8s.io",
    version="v1",
    kind="LocalSubjectAccessReview",
    plural="localsubjectaccessreviews",
    namespaced=True,
    verbs=("create",),
    handler="localsubjectaccessreviews",
)


SELF_SUBJECT_ACCESS_REVIEW = Resource(
    group="authorization.k8s.io",
    version="v1",
    kind="SelfSubjectAccessReview",
    plural="selfsubjectaccessreviews",
    namespaced=False,
    verbs=("create",),
    handler="selfsubjectaccessreviews",
)


SELF_SUBJECT_RULES_REVIEW = Resource(
    group="authorization.k8s.io",
    version="v1",
    kind="SelfSubjectRulesReview",
    plural="selfsubjectrulesreviews",
    namespaced=False,
    verbs=("create",),
    handler="selfsubjectrulesreviews",
)


SUBJECT_ACCESS_REVIEW = Resource(
    group="authorization.k8s.io",
    version="v1",
    kind="SubjectAccessReview",
    plural="subjectaccessreviews",
    namespaced=False,
    verbs=("create",),
    handler="subjectaccessreviews",
)
