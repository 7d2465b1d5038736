"""What becomes of an authorizer's verdict."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.authorization.interface import Attributes, Decision, Verdict
from kapi.filters.authorization import authorization
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
