"""What spans say of requests."""

from __future__ import annotations

import pytest

from tests.filters.requests import request

pytest.importorskip("opentelemetry")  # an extra of the package

from kapi.filters.tracing import _attributes, _verb_attributes, span_name


@pytest.mark.parametrize(
    ("uri", "name", "scope"),
    [
        ("/api/v1/pods", "GET /api/v1/pods", "cluster"),
        ("/api/v1/nodes/n", "GET /api/v1/nodes/{:name}", "resource"),
        ("/api/v1/namespaces/x/pods", "GET /api/v1/namespaces/{:namespace}/pods", "namespace"),
        ("/api/v1/namespaces/x/pods/p/log",
         "GET /api/v1/namespaces/{:namespace}/pods/{:name}/log", "resource"),
        ("/apis/apps/v1/namespaces/x/deployments/d",
         "GET /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}", "resource"),
        ("/healthz", "GET", ""),
    ],
)  # fmt: skip
def test_the_name_of_a_span_has_no_names_of_objects(uri: str, name: str, scope: str) -> None:
    ctx = request(uri)
    assert span_name("GET", ctx.info) == name
    if scope:
        found = _verb_attributes(ctx)
        assert (found["scope"], found["url"], found["method"]) == (scope, uri, "GET")
        assert ctx.info is not None and found["resource"] == ctx.info.resource
    assert span_name("GET", None) == "GET"


def test_texts_of_clients_are_shortened() -> None:
    agent = "a" * 2000
    ctx = request("/api/v1/namespaces/x/pods/" + "p" * 2000, headers={"user-agent": agent})
    ctx.audit_id = "i" * 100
    for found in (_attributes(ctx), _verb_attributes(ctx)):
        assert len(found["audit-id"]) == 64
        assert {len(found[name]) for name in ("user_agent.original", "user-agent", "http.target", "url.path", "url")
                if name in found} == {1024}  # fmt: skip
