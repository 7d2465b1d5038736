"""Structured merge and diff: field sets, typed walks and ownership (upstream: sigs.k8s.io/structured-merge-diff, KEP 555)."""
