"""The filters that set a header, a deadline, or a foot in the door."""

from __future__ import annotations

import contextlib

import pytest
from twisted.logger import globalLogPublisher
from twisted.python.failure import Failure

from kapi.filters.authorization import authorization
from kapi.filters.cross_origin import cors, cross_origin
from kapi.filters.deadline import request_deadline, write_deadline
from kapi.filters.goaway import goaway
from kapi.filters.panic_recovery import recover
from kapi.filters.request_info import received_timestamp
from kapi.filters.request_log import request_log
from kapi.filters.response_headers import cache_control, hsts
from kapi.filters.shutdown import RequestWaitGroup, retry_after, wait_group, watch_termination
from kapi.machinery.status import BadRequest, Forbidden, ServiceUnavailable, StatusError
from kapi.request.response import Response
from kapi.request.user import CREDENTIAL_ID, UserInfo
from tests.authorization.policies import authorizer, binding, role, rule, user
from tests.filters.requests import request


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/api/v1/pods?watch=1", True),
        ("/api/v1/namespaces/x/pods/p/log", True),
        ("/api/v1/pods", False),
        ("/api/v1/namespaces/x/pods/p/exec", True),
        ("/debug/pprof/profile", True),
        ("/healthz", False),
    ],
)
def test_long_running_requests(uri: str, expected: bool) -> None:
    info = request(uri).info
    assert info is not None and info.long_running is expected


@pytest.mark.parametrize(
    ("query", "seconds"),
    [("", 60), ("?timeout=5s", 5), ("?timeout=2m", 60), ("?timeout=0s", 60), ("?timeout=1m0.5s", 60)],
)
def test_the_deadline_counts_from_the_arrival(query: str, seconds: float) -> None:
    ctx = request("/api/v1/pods" + query)
    received_timestamp(lambda: 100.0)(ctx)
    request_deadline(60)(ctx)
    assert ctx.deadline == 100 + seconds


@pytest.mark.parametrize(
    ("method", "uri", "seconds", "text"),
    [
        ("POST", "/api/v1/namespaces/a/pods", 35, "requested timeout - context deadline exceeded"),
        ("PATCH", "/api/v1/namespaces/a/pods/b?timeout=40s", 35, "requested timeout - context deadline exceeded"),
        ("DELETE", "/api/v1/namespaces/a/pods/b?timeout=5s", 5, "the allotted timeout"),
        ("DELETE", "/api/v1/namespaces/a/pods/b?timeout=35s", 35, "the allotted timeout"),
        ("DELETE", "/api/v1/namespaces/a/pods", 60, "the allotted timeout"),
        ("POST", "/metrics", 60, "the allotted timeout"),
    ],
)
def test_a_write_has_less_time(method: str, uri: str, seconds: float, text: str) -> None:
    ctx = request(uri, method)
    received_timestamp(lambda: 100.0)(ctx)
    request_deadline(60)(ctx)
    write_deadline(lambda: 101.0)(ctx)
    assert (ctx.deadline, ctx.late().code) == (100 + seconds, 504)
    assert ctx.late().message == f"Timeout: request did not complete within {text}"


def test_a_watch_has_no_deadline() -> None:
    ctx = request("/api/v1/pods?watch=1&timeout=nonsense")
    request_deadline(60)(ctx)
    assert ctx.deadline == 0


def test_a_timeout_that_cannot_be_read() -> None:
    with pytest.raises(BadRequest) as caught:
        request_deadline(60)(request("/api/v1/pods?timeout=10"))
    assert caught.value.message == (
        'invalid timeout specified in the request URL - time: missing unit in duration "10"'
    )


def test_the_unexpected_becomes_a_500_without_its_text() -> None:
    events: list[dict[str, object]] = []
    globalLogPublisher.addObserver(events.append)  # type: ignore[arg-type]
    ctx = request()
    ctx.audit_id = "id-1"
    try:
        try:
            raise KeyError("secret detail")
        except KeyError:
            error = recover(ctx, Failure())
    finally:
        globalLogPublisher.removeObserver(events.append)  # type: ignore[arg-type]
    assert error.code == 500 and "secret detail" not in error.message
    assert events[-1]["audit_id"] == "id-1" and events[-1]["log_failure"]


def test_an_api_error_passes_the_recovery() -> None:
    wanted = StatusError("x", code=418)
    assert recover(request(), Failure(wanted)) is wanted


def test_cors_for_allowed_origins_only() -> None:
    share = cors([r"//example\.com(:|$)"])
    ctx = request(headers={"Origin": "https://example.com"})
    assert share(ctx) is None
    assert dict(ctx.response_headers)[b"access-control-allow-origin"] == b"https://example.com"
    stranger = request(headers={"Origin": "https://example.com.evil.org"})
    assert share(stranger) is None and not stranger.response_headers
    preflight = share(request(method="OPTIONS", headers={"Origin": "https://example.com"}))
    assert isinstance(preflight, Response) and preflight.status == 204


BROWSER = UserInfo("u", extra={CREDENTIAL_ID: ("X509SHA256=ab",)})


@pytest.mark.parametrize(
    ("method", "headers", "user", "refused"),
    [
        ("POST", {"Sec-Fetch-Site": "cross-site"}, BROWSER, True),
        ("POST", {"Sec-Fetch-Site": "same-site"}, BROWSER, True),
        ("POST", {"Sec-Fetch-Site": "same-origin", "Origin": "https://other"}, BROWSER, False),
        ("POST", {"Sec-Fetch-Site": "none"}, BROWSER, False),
        ("POST", {"Origin": "https://other"}, BROWSER, True),
        ("POST", {"Origin": "null"}, BROWSER, True),
        ("POST", {"Origin": "https://KAPI:6443"}, BROWSER, False),
        ("POST", {}, BROWSER, False),
        ("DELETE", {"Origin": "https://other"}, BROWSER, True),
        *((method, {"Origin": "https://other"}, BROWSER, False) for method in ("GET", "HEAD", "OPTIONS")),
        ("GET", {"Origin": "https://other", "Upgrade": "websocket"}, BROWSER, True),
        ("POST", {"Origin": "https://other"}, UserInfo("u", extra={CREDENTIAL_ID: ("JTI=1",)}), False),
        ("POST", {"Origin": "https://other"}, UserInfo("u"), False),
        ("POST", {"Origin": "https://other"}, None, False),
        ("POST", {"Origin": "https://allowed"}, BROWSER, False),
    ],
)
def test_pages_of_other_origins_may_not_use_a_client_certificate(
    method: str, headers: dict[str, str | list[str]], user: UserInfo | None, refused: bool
) -> None:
    ctx = request(method=method, headers={"Host": "kapi:6443", **headers}, user=user)
    cors(["allowed"])(ctx)
    ctx.response_headers.append((b"x-other", b"1"))
    with pytest.raises(Forbidden) if refused else contextlib.nullcontext():
        cross_origin()(ctx)
    assert ctx.sandboxed


def test_a_bad_origin_pattern_is_refused_at_start() -> None:
    with pytest.raises(ValueError, match="cors-allowed-origins"):
        cors(["("])


def test_headers_of_hsts_and_caching() -> None:
    ctx = request()
    hsts(["max-age=31536000", "includeSubDomains"])(ctx)
    cache_control(ctx)
    assert ctx.response_headers == [
        (b"strict-transport-security", b"max-age=31536000; includeSubDomains"),
        (b"cache-control", b"no-cache, private"),
    ]


def test_goaway_meets_http2_only() -> None:
    ctx = request()
    goaway(0.02, lambda: 0.0)(ctx)
    assert not ctx.connection_closing
    ctx.http.clientproto = b"HTTP/2"
    goaway(0.02, lambda: 0.5)(ctx)
    assert not ctx.connection_closing
    goaway(0.02, lambda: 0.0)(ctx)
    assert ctx.connection_closing and (b"connection", b"close") in ctx.response_headers


def test_shutdown_sends_new_requests_away_but_not_probes() -> None:
    refuse = retry_after(lambda: True)
    answer = refuse(request("/api/v1/pods"))
    assert isinstance(answer, Response)
    assert (
        answer.status == 429
        and (b"retry-after", b"5") in answer.headers
        and (b"connection", b"close") in answer.headers
    )
    assert refuse(request("/readyz/etcd")) is None
    assert retry_after(lambda: False)(request("/api/v1/pods")) is None


def test_shutdown_waits_for_requests_and_lets_none_join() -> None:
    group = RequestWaitGroup()
    join = wait_group(group)
    running, watch = request("/api/v1/pods"), request("/api/v1/pods?watch=1")
    join(running)
    join(watch)
    done: list[object] = []
    group.wait().addCallback(done.append)
    assert group.count == 1 and not done
    with pytest.raises(ServiceUnavailable, match="apiserver is shutting down"):
        join(request("/api/v1/pods"))
    for finish in running.finishers:
        finish(running, 200)
    assert done == [None]


def test_watches_are_counted_apart() -> None:
    group = RequestWaitGroup()
    watch_termination(group)(request("/api/v1/pods?watch=1"))
    watch_termination(group)(request("/api/v1/pods"))
    assert group.count == 1


def test_authorization_refuses_and_annotates() -> None:
    rbac = authorizer(role("r", rule("get", "pods")), binding("b", "r", user("alice")))
    check = authorization(rbac)
    ctx = request("/api/v1/namespaces/x/pods/p", user=UserInfo("alice"))
    assert check(ctx) is None
    assert ctx.annotations["authorization.k8s.io/decision"] == "allow"
    refused = request("/apis/apps/v1/namespaces/x/deployments/<d>", user=UserInfo("a&b"))
    with pytest.raises(Forbidden) as caught:
        check(refused)
    assert caught.value.message == (
        'deployments.apps "<d>" is forbidden: User "a&amp;b" cannot get resource "deployments" in API group "apps" '
        'in the namespace "x"'
    )
    assert refused.annotations["authorization.k8s.io/decision"] == "forbid"


def test_the_request_log_keeps_query_values_out() -> None:
    events: list[dict[str, object]] = []
    globalLogPublisher.addObserver(events.append)  # type: ignore[arg-type]
    times = iter([1.5])
    ctx = request("/api/v1/pods?token=topsecret", user=UserInfo("alice"))
    ctx.received = 1.0
    try:
        request_log(lambda: next(times), verbose=True)(ctx)
        for finish in ctx.finishers:
            finish(ctx, 200)
    finally:
        globalLogPublisher.removeObserver(events.append)  # type: ignore[arg-type]
    assert events[-1]["latency"] == 0.5 and events[-1]["user"] == "alice"
    assert "topsecret" not in repr(events)
