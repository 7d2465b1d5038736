"""Admission policies: rules in CEL (KEP 3488 and KEP 3962; upstream: apiserver ``admission/plugin/policy``)."""
