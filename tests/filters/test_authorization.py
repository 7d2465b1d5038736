"""What becomes of an authorizer's verdict."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.authorization.interface import Attributes, Decision, Verdict
from kapi.filters.authorization import attributes_of, authorization
from kapi.machinery.status import Forbidden
from kapi.request.response import Response
from kapi.request.user import UserInfo
from tests.filters.requests import request

ALICE = UserInfo("alice")


class Fixed:
    def __init__(self, *verdict: Any) -> None:
        self.verdict = Verdict(*verdict)

    def authorize(self, attributes: Attributes) -> Verdict:
        return self.verdict


def judged(*verdict: Any) -> tuple[Any, dict[str, str], list[str]]:
    ctx = request("/api/v1/namespaces/x/pods?a=<b>", user=ALICE)
    outcomes: list[str] = []
    answer = authorization(Fixed(*verdict), lambda outcome, seconds: outcomes.append(outcome))(ctx)
    return answer, ctx.annotations, outcomes


def test_what_is_allowed_passes_whatever_went_wrong_on_the_way() -> None:
    answer, annotations, outcomes = judged(Decision.ALLOW, "because", "a role is missing")
    assert (answer, outcomes) == (None, ["allowed"])
    assert annotations == {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "because"}


@pytest.mark.parametrize(("decision", "label"), [(Decision.DENY, "denied"), (Decision.NO_OPINION, "no-opinion")])
def test_what_is_not_allowed_is_forbidden(decision: Decision, label: str) -> None:
    ctx, outcomes = request(user=ALICE), []  # type: ignore[var-annotated]
    with pytest.raises(Forbidden, match='User "alice" cannot list resource "pods".*: not today') as raised:
        authorization(Fixed(decision, "not today"), lambda outcome, seconds: outcomes.append(outcome))(ctx)
    assert outcomes == [label]
    assert ctx.annotations["authorization.k8s.io/decision"] == "forbid"
    assert raised.value.headers == (("X-Content-Type-Options", "nosniff"),)


def test_a_failed_authorizer_is_an_error_of_the_server() -> None:
    """Fails closed; what a client sent comes back without markup."""
    answer, annotations, outcomes = judged(Decision.NO_OPINION, "", "the webhook is away")
    assert isinstance(answer, Response)
    assert (answer.status, answer.content_type) == (500, b"text/plain; charset=utf-8")
    assert answer.body == (b'Internal Server Error: "/api/v1/namespaces/x/pods?a=&lt;b&gt;": the webhook is away\n')
    assert annotations == {"authorization.k8s.io/reason": "internal error"}
    assert outcomes == ["error"]


def test_a_verdict_that_comes_later_is_judged_as_one_at_once() -> None:
    class Later(Fixed):
        async def authorize(self, attributes: Attributes) -> Verdict:  # type: ignore[override]
            return self.verdict

    ctx, outcomes = request(user=ALICE), []  # type: ignore[var-annotated]
    check: Any = authorization(Later(Decision.ALLOW, "because"), lambda outcome, seconds: outcomes.append(outcome))
    with pytest.raises(StopIteration) as ended:
        check(ctx).send(None)
    assert (ended.value.value, outcomes) == (None, ["allowed"])
    assert ctx.latencies is not None and 0 < ctx.latencies["authorization"] < 60
    check = authorization(Later(Decision.NO_OPINION, "", "away"))
    with pytest.raises(StopIteration) as ended:
        check(request(user=ALICE)).send(None)
    assert ended.value.value.status == 500
    check = authorization(Later(Decision.DENY))
    with pytest.raises(Forbidden):
        check(request(user=ALICE)).send(None)


@pytest.mark.parametrize(
    ("query", "fields", "labels"),
    [
        ("", (), ()),
        ("?fieldSelector=metadata.name%3Da", (("metadata.name", "=", "a"),), ()),
        ("?labelSelector=x%20in%20(b,a)", (), (("x", "in", ("a", "b")),)),
        ("?labelSelector=x%20in%20(b,a)&fieldSelector=,,", (), (("x", "in", ("a", "b")),)),
    ],
)
def test_the_authorizer_is_told_all_of_the_request(
    query: str, fields: tuple[Any, ...], labels: tuple[Any, ...]
) -> None:
    attributes = attributes_of(request("/apis/apps/v1/namespaces/x/deployments" + query, user=ALICE))
    assert (attributes.field_requirements, attributes.label_requirements) == (fields, labels)
    found = attributes_of(request("/apis/apps/v1/namespaces/x/deployments/d/scale", "PUT", user=ALICE))
    assert found == Attributes(
        ALICE,
        "update",
        True,
        "/apis/apps/v1/namespaces/x/deployments/d/scale",
        "apps",
        "v1",
        "deployments",
        "scale",
        "x",
        "d",
    )
    assert attributes_of(request("/version", "PUT", user=ALICE)) == Attributes(ALICE, "put", False, "/version")
