"""Counts the requests of the in-process clients (upstream: apiserver ``endpoints/metrics``, apiserver_selfrequest_total)."""

from __future__ import annotations

from kapi.machinery.meters import Counter

SELF_REQUESTS = Counter(
    "apiserver_selfrequest_total",
    "[ALPHA] Counter of apiserver self-requests broken out for each verb, API resource and subresource.",
    ("verb", "group", "resource", "subresource"),
)
