"""The reviews of authentication.k8s.io/v1: requests that endpoints answer, and that are not stored."""

from __future__ import annotations

from kapi.resources.definition import review

SELF_SUBJECT_REVIEW = review("authentication.k8s.io", "SelfSubjectReview")
TOKEN_REVIEW = review("authentication.k8s.io", "TokenReview")
