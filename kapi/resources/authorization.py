"""The reviews of authorization.k8s.io/v1: requests that endpoints answer, and that are not stored."""

from __future__ import annotations

from kapi.resources.definition import review

LOCAL_SUBJECT_ACCESS_REVIEW = review("authorization.k8s.io", "LocalSubjectAccessReview", namespaced=True)
SELF_SUBJECT_ACCESS_REVIEW = review("authorization.k8s.io", "SelfSubjectAccessReview")
SELF_SUBJECT_RULES_REVIEW = review("authorization.k8s.io", "SelfSubjectRulesReview")
SUBJECT_ACCESS_REVIEW = review("authorization.k8s.io", "SubjectAccessReview")
