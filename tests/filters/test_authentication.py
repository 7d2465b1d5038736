"""401 for bad credentials, and nothing said about why."""

from __future__ import annotations

import inspect
from itertools import product
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import globalLogPublisher

from kapi.authentication.bearer import BearerAuthenticator, WebSocketAuthenticator, bearer_token
from kapi.authentication.build import AnonymousAuthenticator
from kapi.authentication.interface import Authenticated, AuthenticationError, Notes
from kapi.authentication.static_tokens import StaticTokenAuthenticator, parse_token_file
from kapi.authentication.union import UnionAuthenticator, UnionTokenAuthenticator
from kapi.filters.authentication import ProxyHeaders, authentication
from kapi.machinery.status import Unauthorized
from kapi.request.context import RequestContext
from kapi.request.headers import first_header
from kapi.request.user import UserInfo
from tests.filters.requests import request

TOKENS = StaticTokenAuthenticator(parse_token_file('secrettoken,alice,u1,"dev,qa"\n'), ("api",))


def run(headers: dict[str, Any], uri: str = "/version", paths: list[str] | None = None) -> RequestContext:
    union = UnionAuthenticator(
        [BearerAuthenticator(TOKENS), WebSocketAuthenticator(TOKENS)], AnonymousAuthenticator(paths)
    )
    ctx = request(uri, headers=headers)
    assert authentication(union)(ctx) is None
    return ctx


def name(ctx: RequestContext) -> str:
    assert ctx.user is not None
    return ctx.user.name


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_good_token(scheme: str) -> None:
    ctx = run({"Authorization": f"{scheme} secrettoken"})
    assert ctx.user is not None
    assert (ctx.user.name, ctx.user.uid, ctx.user.groups) == ("alice", "u1", ("dev", "qa", "system:authenticated"))
    assert not first_header(ctx, "Authorization"), "no handler may see or forward the token"


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "secrettoken", "Token secrettoken"])
def test_what_is_no_bearer_token_is_no_credential(header: str) -> None:
    assert name(run({"Authorization": header})) == "system:anonymous"


def test_an_extra_space_is_warned_about() -> None:
    ctx = run({"Authorization": "Bearer  secrettoken"})
    assert name(ctx) == "system:anonymous"
    assert ctx.warnings == [
        "the provided Authorization header contains extra space before the bearer token, and is ignored"
    ]


def test_a_bad_token_is_refused_even_where_anybody_may_go() -> None:
    with pytest.raises(Unauthorized) as caught:
        run({"Authorization": "Bearer wrong"})
    assert caught.value.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


def test_the_first_of_several_headers_counts() -> None:
    with pytest.raises(Unauthorized):
        run({"Authorization": ["Bearer wrong", "Bearer secrettoken"]})


def test_anonymous_only_on_certain_paths() -> None:
    assert name(run({}, "/livez", ["/livez"])) == "system:anonymous"
    with pytest.raises(Unauthorized):
        run({}, "/version", ["/livez"])


def test_a_token_as_websocket_protocol() -> None:
    headers = {
        "Upgrade": "websocket",
        "Sec-WebSocket-Protocol": "base64url.bearer.authorization.k8s.io.c2VjcmV0dG9rZW4, v4.channel.k8s.io",
    }
    ctx = run(headers)
    assert name(ctx) == "alice"
    assert first_header(ctx, "Sec-WebSocket-Protocol") == "v4.channel.k8s.io"
    headers["Sec-WebSocket-Protocol"] = "base64url.bearer.authorization.k8s.io.c2VjcmV0dG9rZW4"
    with pytest.raises(Unauthorized):
        run(headers)


def test_no_token_is_ever_logged() -> None:
    """CVE-2019-11250: neither good nor bad tokens appear in any log at any level."""
    events: list[Any] = []
    globalLogPublisher.addObserver(events.append)
    try:
        with pytest.raises(Unauthorized):
            run({"Authorization": "Bearer wrongsecret"})
        run({"Authorization": "Bearer secrettoken"})
    finally:
        globalLogPublisher.removeObserver(events.append)
    assert events
    assert "wrongsecret" not in repr(events) and "secrettoken" not in repr(events)


@pytest.mark.parametrize(("text", "why"), [("a,b\n", "token"), (",b,c\n", "token"), ("x" * 200_000, "field larger")])
def test_a_broken_token_file(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_token_file(text)


def test_headers_of_a_front_proxy_reach_nobody_behind() -> None:
    """Without the proxy's certificate they mean nothing, and no backend may be told them."""
    headers = {"Authorization": "Bearer secrettoken", "X-Remote-User": "admin", "X-Remote-Extra-Scopes": "all"}
    ctx = run({**headers, "X-Remote-Group": "system:masters", "X-Forwarded-For": "10.0.0.1"})
    assert name(ctx) == "alice"
    left = {key for key, _ in ctx.http.requestHeaders.getAllRawHeaders()}
    assert left == {b"X-Forwarded-For"}


def test_own_headers_of_a_front_proxy_reach_nobody_behind() -> None:
    own = ProxyHeaders(("X-Who",), ("X-More-",))
    ctx = request("/version", headers={"X-Who": "admin", "X-More-Scopes": "all", "X-Remote-User": "admin"})
    assert authentication(AnonymousAuthenticator(), proxy_headers=own)(ctx) is None
    assert list(ctx.http.requestHeaders.getAllRawHeaders()) == []


@pytest.mark.parametrize(("headers", "ends"), [({}, True), ({"Authorization": "Bearer secrettoken"}, False)])
def test_strangers_get_one_request_of_an_http2_connection(headers: dict[str, Any], ends: bool) -> None:
    """CVE-2023-44487: floods of streams need a name."""
    ctx = request("/version", headers=headers)
    ctx.http.clientproto = b"HTTP/2"
    union = UnionAuthenticator([BearerAuthenticator(TOKENS)], AnonymousAuthenticator())
    assert authentication(union)(ctx) is None
    assert ctx.connection_closing is ends


def test_strangers_keep_their_connections_without_the_gate() -> None:
    ctx = request("/version")
    ctx.http.clientproto = b"HTTP/2"
    assert authentication(AnonymousAuthenticator(), mitigation=False)(ctx) is None
    refused = request("/version", headers={"Authorization": "Bearer wrong"})
    refused.http.clientproto = b"HTTP/2"
    with pytest.raises(Unauthorized):
        authentication(UnionAuthenticator([BearerAuthenticator(TOKENS)]), mitigation=False)(refused)
    assert (ctx.connection_closing, refused.connection_closing) == (False, False)


@pytest.mark.parametrize(("path", "ends"), [("/page", False), ("/page/more", True)])
def test_strangers_get_all_files_of_a_public_page_from_a_connection(path: str, ends: bool) -> None:
    """A browser asks for them at once, and gives up when each ends its connection."""
    ctx = request(path)
    ctx.http.clientproto = b"HTTP/2"
    assert authentication(AnonymousAuthenticator(), public=("/page",))(ctx) is None
    assert ctx.connection_closing is ends


def test_a_refused_client_gets_one_request_of_an_http2_connection() -> None:
    ctx = request("/version", headers={"Authorization": "Bearer wrong"})
    ctx.http.clientproto = b"HTTP/2"
    with pytest.raises(Unauthorized):
        authentication(UnionAuthenticator([BearerAuthenticator(TOKENS)]))(ctx)
    assert (b"connection", b"close") in ctx.response_headers


@pytest.mark.parametrize("good", [True, False])
def test_what_is_to_be_told_of_a_token_reaches_client_and_audit(good: bool) -> None:
    notes = Notes((("authentication.k8s.io/stale-token", "subject: x"),), ("renew it",))

    class Noted:
        def authenticate_token(self, token: str, audiences: tuple[str, ...] = ()) -> Authenticated:
            if not good:
                raise AuthenticationError("worn out", notes=notes)
            return Authenticated(UserInfo("alice"), notes=notes)

    tokens = UnionTokenAuthenticator([TOKENS, Noted()])
    ctx = request("/version", headers={"Authorization": "Bearer other"})
    check = authentication(UnionAuthenticator([BearerAuthenticator(tokens)]))
    if good:
        check(ctx)
    else:
        with pytest.raises(Unauthorized):
            check(ctx)
    assert ctx.annotations == {"authentication.k8s.io/stale-token": "subject: x"}
    assert ctx.warnings == ["renew it"]


class Answering:
    """An authenticator of requests and tokens with one answer, for which the request waits if ``waits``."""

    def __init__(self, answer: UserInfo | AuthenticationError | None, waits: bool, asked: list[Any]) -> None:
        self.answer, self.waits, self.asked = answer, waits, asked

    def authenticate(self, ctx: RequestContext) -> Any:
        return self.begin(self.said)

    def authenticate_token(self, token: str, audiences: tuple[str, ...] = ()) -> Any:
        return self.begin(lambda: None if self.answer is None else Authenticated(self.said()))

    def begin(self, say: Any) -> Any:
        async def later() -> Any:
            return say()

        self.asked.append(self)
        return later() if self.waits else say()

    def said(self) -> Any:
        if isinstance(self.answer, AuthenticationError):
            raise self.answer
        return self.answer


ALICE = UserInfo("alice")
ANSWERS = (
    ((None, None, ALICE), 3, ""), ((None, ALICE, None), 2, ""), ((ALICE, None, None), 1, ""), ((None, None, None), 3, ""),
    ((AuthenticationError("a"), None, ALICE), 3, ""), ((AuthenticationError("a"), None, None), 3, "a"),
    ((None, AuthenticationError("b"), AuthenticationError("c")), 3, "[b, c]"),
)  # fmt: skip


async def answered(waiting: Any) -> Any:
    return await waiting if inspect.isawaitable(waiting) else waiting


@pytest.mark.parametrize("waits", list(product((False, True), repeat=3)))
@pytest.mark.parametrize(("answers", "asked", "wrong"), ANSWERS)
@pytest.mark.parametrize("of_tokens", [False, True])
def test_one_is_asked_after_the_other(
    of_tokens: bool, answers: tuple[Any, ...], asked: int, wrong: str, waits: tuple[bool, ...]
) -> None:
    seen: list[Any] = []
    members = [Answering(answer, late, seen) for answer, late in zip(answers, waits, strict=True)]

    async def ask() -> Any:
        if of_tokens:
            return await answered(UnionTokenAuthenticator(members).authenticate_token("t"))
        return await answered(UnionAuthenticator(members).authenticate(request("/version")))

    found: list[Any] = []
    Deferred.fromCoroutine(ask()).addBoth(found.append)
    assert seen == members[:asked]
    if wrong:
        assert str(found[0].value) == wrong
    elif ALICE in answers:
        assert (found[0].user if of_tokens else found[0]).name == "alice"
    else:
        assert found == [None]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [(ALICE, ("success", "alice")), (None, ("failure", "")), (AuthenticationError("away"), ("error", ""))],
)
def test_each_attempt_is_counted_by_its_outcome(answer: Any, outcome: tuple[str, str], waits: bool) -> None:
    seen: list[tuple[str, str]] = []

    def record(result: str, seconds: float, user: str) -> None:
        assert 0 < seconds < 60
        seen.append((result, user))

    ctx, found = request("/version"), []  # type: ignore[var-annotated]

    async def check() -> None:
        await answered(authentication(Answering(answer, waits, []), record)(ctx))

    Deferred.fromCoroutine(check()).addErrback(found.append)
    assert seen == [outcome]
    assert ctx.user is (answer if outcome[0] == "success" else None)
    assert [type(failure.value) for failure in found] == [Unauthorized] * (outcome[0] != "success")
    assert set(ctx.latencies or ()) == ({"authentication"} if waits else set())
    assert 0 <= sum((ctx.latencies or {}).values()) < 60


def test_without_an_authenticator_every_request_passes() -> None:
    ctx = request("/version", headers={"Authorization": "x"})
    assert authentication(None)(ctx) is None
    assert ctx.user is None and first_header(ctx, "Authorization") == "x"


@pytest.mark.parametrize(
    ("user", "ends"),
    [
        (UserInfo("system:anonymous"), True),
        (UserInfo("x", groups=("a", "system:unauthenticated")), True),
        (UserInfo("x", groups=("system:authenticated",)), False),
    ],
)
def test_who_is_a_stranger(user: UserInfo, ends: bool) -> None:
    ctx = request("/version")
    ctx.http.clientproto = b"HTTP/2"
    assert authentication(Answering(user, False, []))(ctx) is None
    assert ctx.connection_closing is ends


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer t", "t"), ("bearer t", "t"), ("BEARER t more", "t"), (" Bearer t ", "t"), ("Bearer", ""), ("Bearer  t", ""),
        ("Basic t", ""), ("t", ""), ("", ""), ("Bearer\tt", ""),
    ],
)  # fmt: skip
def test_the_token_of_a_header(header: str, token: str) -> None:
    """Upstream: ``bearertoken.go``, which splits at single spaces."""
    assert bearer_token(header) == token


@pytest.mark.parametrize(
    ("protocols", "wanted"),
    [
        (["base64url.bearer.authorization.k8s.io.c2VjcmV0dG9rZW4, v4"], "v4"),
        (["v4", "base64url.bearer.authorization.k8s.io.c2VjcmV0dG9rZW4, v5"], "v4,v5"),
        (["base64url.bearer.authorization.k8s.io.c2VjcmV0dG9rZW4"], None),
        (["base64url.bearer.authorization.k8s.io.c2VjcmV0dG9rZW4, v4, base64url.bearer.authorization.k8s.io.eA"], None),
        (["base64url.bearer.authorization.k8s.io.c2VjcmV0!G9rZW4, v4"], None),
        (["base64url.bearer.authorization.k8s.io._w, v4"], None),
        (["v4"], ""),
    ],
)  # fmt: skip
def test_the_token_of_a_websocket(protocols: list[str], wanted: str | None) -> None:
    headers: dict[str, Any] = {"Upgrade": "WebSocket", "Sec-WebSocket-Protocol": protocols}
    if wanted is None:
        with pytest.raises(Unauthorized):
            run(headers)
        return
    ctx = run(headers)
    assert name(ctx) == ("alice" if wanted else "system:anonymous")
    assert first_header(ctx, "Sec-WebSocket-Protocol") == (wanted or "v4")
    without = run({**headers, "Upgrade": "h2c"})
    assert name(without) == "system:anonymous"
