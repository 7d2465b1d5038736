"""The filters that set a header, a deadline, or a foot in the door."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import globalLogPublisher
from twisted.python.failure import Failure

from kapi.endpoints.errors import status_response
from kapi.filters.authorization import authorization
from kapi.filters.chain import Filter, FilterChain
from kapi.filters.cross_origin import cors, cross_origin
from kapi.filters.deadline import request_deadline, write_deadline
from kapi.filters.goaway import goaway
from kapi.filters.panic_recovery import recover
from kapi.filters.request_info import received_timestamp, request_info
from kapi.filters.request_log import request_log
from kapi.filters.response_headers import cache_control, hsts, warnings
from kapi.filters.shutdown import RequestWaitGroup, retry_after, wait_group, watch_termination
from kapi.machinery.status import BadRequest, Forbidden, ServiceUnavailable, StatusError
from kapi.request.context import RequestContext
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
    [
        ("", 60),
        ("?timeout=5s", 5),
        ("?timeout=2m", 60),
        ("?timeout=0s", 60),
        ("?timeout=1m0.5s", 60),
        ("?timeout=-1s", 60),
        ("?timeout=59.5s", 59.5),
        ("?timeout=0.5s", 0.5),
        ("?timeout=1m", 60),
        ("?timeout=", 60),
        ("?timeout=1ns", 1e-9),
    ],
)
@pytest.mark.parametrize("info", [True, False])
def test_the_deadline_counts_from_the_arrival(query: str, seconds: float, info: bool) -> None:
    ctx = request("/api/v1/pods" + query, info=info)
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
        ("DELETE", "/api/v1/namespaces/a/pods/b?timeout=34.5s", 34.5, "the allotted timeout"),
        ("DELETE", "/api/v1/namespaces/a/pods/b?timeout=35.5s", 35, "requested timeout - context deadline exceeded"),
        ("GET", "/api/v1/namespaces/a/pods/b", 60, "the allotted timeout"),
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


@pytest.mark.parametrize("info", [True, False])
def test_a_write_without_a_deadline_gets_none(info: bool) -> None:
    ctx = request("/api/v1/namespaces/a/pods", "POST", info=info)
    ctx.deadline = 0.0 if info else 99.0
    write_deadline(lambda: 101.0)(ctx)
    assert ctx.deadline == (0.0 if info else 99.0)


def test_a_timeout_that_cannot_be_read() -> None:
    with pytest.raises(BadRequest) as caught:
        request_deadline(60)(request("/api/v1/pods?timeout=10"))
    assert caught.value.message == (
        'invalid timeout specified in the request URL - time: missing unit in duration "10"'
    )


@pytest.mark.parametrize(
    ("uri", "info", "told"),
    [
        ("/api/v1/namespaces/x/pods", True, True), ("/api/v1/namespaces/x/secrets/s", True, False),
        ("/api/v1/namespaces/x/secrets/s", False, True), ("/version", True, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("audited", [True, False])
def test_the_unexpected_becomes_a_500_without_its_text(uri: str, info: bool, told: bool, audited: bool) -> None:
    events: list[dict[str, Any]] = []
    globalLogPublisher.addObserver(events.append)  # type: ignore[arg-type]
    ctx = request(uri, info=info)
    ctx.audit_id = "id-1"
    panics: list[BaseException] = []
    ctx.audit = SimpleNamespace(panicked=panics.append) if audited else None  # type: ignore[assignment]
    try:
        try:
            raise KeyError("secret detail")
        except KeyError as problem:
            failure, raised = Failure(), problem
        error = recover(ctx, failure)
    finally:
        globalLogPublisher.removeObserver(events.append)  # type: ignore[arg-type]
    assert error.code == 500
    assert error.message == "This request caused apiserver to panic. Look in the logs for details."
    assert panics == [raised] * audited
    assert events[-1]["audit_id"] == "id-1"
    failure = events[-1]["log_failure"]
    assert failure.getErrorMessage() == ("'secret detail'" if told else "KeyError, whose text is withheld")
    assert "test_small_filters.py" in failure.getTraceback()


def test_an_api_error_passes_the_recovery() -> None:
    wanted = StatusError("x", code=418)
    assert recover(request(), Failure(wanted)) is wanted


def test_cors_for_allowed_origins_only() -> None:
    share = cors([r"//example\.com(:|$)"])
    ctx = request(headers={"Origin": "https://example.com"})
    assert share(ctx) is None
    assert ctx.response_headers == [
        (b"access-control-allow-origin", b"https://example.com"),
        (b"access-control-allow-methods", b"POST, GET, OPTIONS, PUT, DELETE, PATCH"),
        (b"access-control-allow-headers", b"Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, "
         b"X-Requested-With, If-Modified-Since"),
        (b"access-control-expose-headers", b"Date"),
        (b"access-control-allow-credentials", b"true"),
    ]  # fmt: skip
    stranger = request(headers={"Origin": "https://example.com.evil.org"})
    assert share(stranger) is None and not stranger.response_headers
    for headers in ({}, {"Origin": ""}):
        alone = request(method="OPTIONS", headers={**headers})
        assert cors(["", "a"])(alone) is None and not alone.response_headers
    assert isinstance(cors(["a", "b"])(request(method="OPTIONS", headers={"Origin": "b"})), Response)
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
    goaway(0.02, lambda: 0.02)(ctx)
    assert not ctx.connection_closing
    for protocol in (b"HTTP/2", b"HTTP/2.0"):
        ctx = request()
        ctx.http.clientproto = protocol
        for _ in range(2):
            goaway(0.02, lambda: 0.0)(ctx)
        assert ctx.connection_closing and ctx.response_headers == [(b"connection", b"close")]


def test_shutdown_sends_new_requests_away() -> None:
    ctx = request("/api/v1/pods")
    answer = retry_after(lambda: True)(ctx)
    assert isinstance(answer, Response)
    assert (answer.status, answer.content_type) == (429, b"text/plain; charset=utf-8")
    assert answer.body == b"The apiserver is shutting down, please try again later.\n"
    assert dict(answer.headers) == {
        b"connection": b"close", b"retry-after": b"5", b"x-content-type-options": b"nosniff",
    }  # fmt: skip
    assert ctx.connection_closing
    assert retry_after(lambda: False)(request("/api/v1/pods")) is None


@pytest.mark.parametrize(
    ("uri", "agent", "exempt"),
    [
        ("/readyz/etcd", "", True), ("/livez", "", True), ("/healthz", "", True), ("/metrics/slis", "", True),
        ("/version", "", False), ("/api/v1/readyz", "", False), ("/", "", False),
        ("/api/v1/pods", "kube-apiserver/v1.36.2 (linux/amd64)", True), ("/api/v1/pods", "kube-apiserver", False),
        ("/api/v1/pods", "kubectl kube-apiserver/v1", False),
    ],
)  # fmt: skip
def test_at_shutdown_probes_and_the_server_itself_are_served(uri: str, agent: str, exempt: bool) -> None:
    headers: dict[str, str | list[str]] = {"User-Agent": agent} if agent else {}
    ctx = request(uri, headers=headers)
    assert (retry_after(lambda: True)(ctx) is None) is exempt is not ctx.connection_closing
    group = RequestWaitGroup()
    group.wait()
    with contextlib.nullcontext() if exempt else pytest.raises(ServiceUnavailable):
        wait_group(group)(ctx)
    assert (ctx.finishers, group.count) == ([], 0)


@pytest.mark.parametrize(
    ("join_of", "uris", "free"),
    [
        (wait_group, ["/api/v1/pods", "/version"], "/api/v1/pods?watch=1"),
        (watch_termination, ["/api/v1/pods?watch=1", "/api/v1/watch/pods"], "/api/v1/pods"),
    ],
)
def test_shutdown_waits_for_requests_and_watches_and_lets_none_join(
    join_of: Callable[[RequestWaitGroup], Filter], uris: list[str], free: str
) -> None:
    group = RequestWaitGroup()
    join = join_of(group)
    running = [request(uri) for uri in uris]
    for ctx in [*running, request(free), request(info=False)]:
        join(ctx)
    if join_of is wait_group:
        group.done()  # that of the request without an info
    assert group.count == 2
    gone, *left = running
    end(gone)
    assert group.count == 1
    done: list[object] = []
    group.wait().addCallback(done.append)
    assert not done
    late = request(uris[0])
    with pytest.raises(ServiceUnavailable) as caught:
        join(late)
    answer = status_response(late, caught.value)
    assert (answer.status, dict(answer.headers)) == (503, {b"Retry-After": b"1", b"X-Content-Type-Options": b"nosniff"})
    assert caught.value.message == "apiserver is shutting down" and "details" not in caught.value.status
    join(request(free))
    assert group.count == 1 and not late.finishers
    end(left[0])
    assert done == [None] and group.count == 0
    group.wait().addCallback(done.append)  # a second signal
    assert done == [None, None]


def test_shutdown_waits_for_nothing_when_nothing_runs() -> None:
    group = RequestWaitGroup()
    for _ in range(2):  # requests come and go
        assert group.add()
        group.done()
    assert group.add() and not group._idle.called
    group.done()
    done: list[object] = []
    group.wait().addCallback(done.append)
    assert done == [None]


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


def end(ctx: RequestContext, code: int = 200) -> None:
    for finish in ctx.finishers:
        finish(ctx, code)


def logged(uri: str, took: float, code: int, *, verbose: bool, **others: Any) -> list[dict[str, object]]:
    events: list[dict[str, object]] = []
    globalLogPublisher.addObserver(events.append)  # type: ignore[arg-type]
    ctx = request(uri, **others)
    ctx.received, ctx.audit_id = 1.0, "id-1"
    try:
        request_log(lambda: 1.0 + took, verbose=verbose)(ctx)
        assert not events
        end(ctx, code)
    finally:
        globalLogPublisher.removeObserver(events.append)  # type: ignore[arg-type]
    return events


@pytest.mark.parametrize(
    ("uri", "took", "code", "verbose", "expected"),
    [
        ("/api/v1/pods", 0.5, 200, True, True), ("/api/v1/pods?watch=1", 0.5, 200, True, True),
        ("/api/v1/pods", 0.5, 200, False, False), ("/api/v1/pods", 1.0, 499, False, False),
        ("/api/v1/pods", 1.25, 200, False, True), ("/version", 1.25, 200, False, True),
        ("/api/v1/pods?watch=1", 1.25, 200, False, False), ("/api/v1/pods", 0.5, 500, False, True),
        ("/api/v1/pods?watch=1", 0.5, 500, False, True),
    ],
)  # fmt: skip
def test_failed_and_slow_requests_are_logged(uri: str, took: float, code: int, verbose: bool, expected: bool) -> None:
    events = logged(uri, took, code, verbose=verbose)
    assert len(events) == expected
    assert all((event["latency"], event["code"], event["audit_id"]) == (took, code, "id-1") for event in events)


def test_the_request_log_keeps_query_values_out() -> None:
    headers = {"user-agent": "kubectl"}
    (event,) = logged("/api/v1/pods?token=topsecret", 0.5, 200, verbose=True, user=UserInfo("alice"), headers=headers)
    assert (event["latency"], event["user"], event["impersonated_by"]) == (0.5, "alice", "")
    assert (event["method"], event["path"], event["verb"], event["agent"]) == ("GET", "/api/v1/pods", "list", "kubectl")
    assert "topsecret" not in repr(event)
    (event,) = logged("/", 0.5, 200, verbose=True, info=False)
    assert (event["verb"], event["user"], event["agent"]) == ("", "", "")


@pytest.mark.parametrize("uri", ["/api/v1/watch", "/apis/apps/v1/watch"])
def test_a_path_without_a_resource_is_an_error_of_the_server(uri: str) -> None:
    ctx = request(uri, info=False)
    answer = request_info(ctx)
    assert isinstance(answer, Response) and answer.status == 500
    why = f"failed to create RequestInfo: unable to determine kind and namespace from url, {uri}"
    assert answer.body == f'Internal Server Error: "{uri}": {why}\n'.encode()
    known = request("/api/v1/pods")
    info = known.info
    assert request_info(known) is None and known.info is info
    fresh = request("/api/v1/pods", info=False)
    assert request_info(fresh) is None and fresh.info == info


def test_warnings_begin_anew() -> None:
    ctx = request()
    ctx.warn("early")
    warnings(ctx)
    assert ctx.warnings == []


class Steps:
    """A chain of ``steps``, each of which answers with a value of its own or nothing, at once or later."""

    def __init__(self, *steps: tuple[bool, str], later: bool = False) -> None:
        self.called: list[int] = []
        filters = [self.step(number, *step) for number, step in enumerate(steps)]
        self.chain = FilterChain(filters, self.step(-1, later, "handler"))

    def step(self, number: int, later: bool, answer: str) -> Any:
        found = Response(200, answer.encode(), b"") if answer else None

        async def wait() -> Any:
            return found

        def run(ctx: RequestContext) -> Any:
            self.called.append(number)
            return wait() if later else found

        return run

    def answer(self) -> bytes:
        given = self.chain.handle(request())
        if isinstance(given, Response):
            return given.body
        answers: list[Response] = []
        Deferred.fromCoroutine(given).addCallback(answers.append)  # type: ignore[arg-type]
        return answers[0].body


@pytest.mark.parametrize("later", list(product((False, True), repeat=4)))
def test_filters_run_in_order_until_one_answers(later: tuple[bool, ...]) -> None:
    steps = Steps(*((late, "") for late in later[:3]), later=later[3])
    assert steps.answer() == b"handler" and steps.called == [0, 1, 2, -1]
    for place in range(3):
        steps = Steps(*((late, "x" if number == place else "") for number, late in enumerate(later[:3])))
        assert steps.answer() == b"x" and steps.called == list(range(place + 1))
    assert Steps(later=later[3]).answer() == b"handler"
