"""The reviews of authentication.k8s.io/v1 and authorization.k8s.io/v1: endpoints answer them, and they are not stored."""

from __future__ import annotations

from kapi.resources.definition import review

SELF_SUBJECT_REVIEW = review("authentication.k8s.io", "SelfSubjectReview")
TOKEN_REVIEW = review("authentication.k8s.io", "TokenReview")


LOCAL_SUBJECT_ACCESS_REVIEW = review("authorization.k8s.io", "LocalSubjectAccessReview", namespaced=True)
SELF_SUBJECT_ACCESS_REVIEW = review("authorization.k8s.io", "SelfSubjectAccessReview")
SELF_SUBJECT_RULES_REVIEW = review("authorization.k8s.io", "SelfSubjectRulesReview")
SUBJECT_ACCESS_REVIEW = review("authorization.k8s.io", "SubjectAccessReview")
