"""The SubjectAccessReview webhook, against a real HTTPS server."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from prometheus_client.registry import CollectorRegistry
from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from kapi.authorization.fixed import PrivilegedGroups
from kapi.authorization.interface import Attributes, Decision, Verdict
from kapi.authorization.match_conditions import compile_conditions
from kapi.authorization.metrics import AuthorizationMeter
from kapi.authorization.union import Link, UnionAuthorizer
from kapi.authorization.webhook import WebhookAuthorizer, _cacheable, _verdict
from kapi.client.endpoint_client import MAX_ANSWER, EndpointClient
from kapi.client.kubeconfig import Endpoint
from kapi.machinery.checkpoint import in_slices
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo
from tests.authentication.identities import Authority, HTTPSServer
from tests.authorization.policies import ask, authorizer, binding, role, rule, user

CA = Authority()
ALICE = UserInfo("alice", "u", ("dev",), {"k": ("v",)})


class WebhookAuthorizerTest(TestCase):
    def setUp(self) -> None:
        self.status: Any = {"allowed": True, "reason": "because"}
        self.code = 200
        self.head: dict[str, Any] = {}
        self.server = HTTPSServer(
            CA, lambda path, body: (self.code, json.dumps({**self.head, "status": self.status}).encode())
        )
        self.client = EndpointClient(reactor, Endpoint(self.server.url, ca=CA.pem))
        self.now = time.time()

    async def tearDown(self) -> None:
        await self.client.close()
        await self.server.stop()

    def make(self, **more: Any) -> WebhookAuthorizer:
        more = {"version": "v1", "authorized_ttl": 300.0, "unauthorized_ttl": 30.0, **more}
        return WebhookAuthorizer(reactor, self.client, clock=lambda: self.now, first_delay=0.001, **more)

    async def decide(self, webhook: Any, attributes: Attributes) -> Verdict:
        verdict = webhook.authorize(attributes)
        return verdict if isinstance(verdict, Verdict) else await verdict

    async def test_it_lists_no_rules(self) -> None:
        found = self.make().rules_for(ALICE, "n")
        self.assertEqual((found.incomplete, found.resource_rules, found.non_resource_rules), (True, [], []))
        self.assertEqual(found.errors, ["webhook authorizer does not support user rule resolution"])

    async def test_words_are_no_truth_values(self) -> None:
        """``"false"`` must not allow anything."""
        for status in (
            {"allowed": "false"},
            {"allowed": 1},
            {"allowed": True, "denied": "no"},
            {"reason": 5},
            "x",
            ["allowed"],
        ):
            self.status = status
            verdict = await self.decide(self.make(on_error=Decision.DENY), ask(ALICE, "get", "pods", "x"))
            self.assertEqual(verdict.decision, Decision.DENY, status)
            self.assertIn("json: cannot unmarshal ", verdict.error)

    async def test_the_question(self) -> None:
        question = ask(ALICE, "list", "pods/log", "x", "g", version="v1", name="p")
        question.field_requirements = (("metadata.name", "=", "p"),)
        question.label_requirements = (("a", "in", ("b", "c")), ("d", "exists", ()))
        verdict = await self.decide(self.make(), question)
        self.assertEqual(verdict, Verdict(Decision.ALLOW, "because"))
        review = json.loads(self.server.calls[0][1])
        self.assertEqual(review["apiVersion"], "authorization.k8s.io/v1")
        self.assertEqual(
            review["spec"],
            {
                "user": "alice",
                "uid": "u",
                "groups": ["dev"],
                "extra": {"k": ["v"]},
                "resourceAttributes": {
                    "namespace": "x",
                    "verb": "list",
                    "group": "g",
                    "version": "v1",
                    "resource": "pods",
                    "subresource": "log",
                    "name": "p",
                    "fieldSelector": {"requirements": [{"key": "metadata.name", "operator": "In", "values": ["p"]}]},
                    "labelSelector": {
                        "requirements": [
                            {"key": "a", "operator": "In", "values": ["b", "c"]},
                            {"key": "d", "operator": "Exists"},
                        ]
                    },
                },
            },
        )

    async def test_the_old_version_and_paths(self) -> None:
        await self.decide(self.make(version="v1beta1"), Attributes(ALICE, "get", is_resource=False, path="/metrics"))
        spec = json.loads(self.server.calls[0][1])["spec"]
        self.assertEqual(spec["nonResourceAttributes"], {"path": "/metrics", "verb": "get"})
        self.assertEqual(spec["group"], ["dev"])

    async def test_decisions(self) -> None:
        for status, wanted in (
            ({"allowed": False}, Decision.NO_OPINION),
            ({"allowed": False, "denied": True}, Decision.DENY),
            ({"allowed": True, "denied": True}, Decision.DENY),
        ):
            self.status = status
            self.assertIs((await self.decide(self.make(), ask(ALICE, "get", "pods"))).decision, wanted)

    async def test_answers_are_remembered_by_outcome(self) -> None:
        webhook = self.make(authorized_ttl=300, unauthorized_ttl=30)
        question = ask(ALICE, "get", "pods", "x")
        await self.decide(webhook, question)
        await self.decide(webhook, question)
        self.assertEqual(len(self.server.calls), 1)
        self.status = {"allowed": False}
        other = ask(ALICE, "get", "pods", "y")
        await self.decide(webhook, other)
        self.now += 31
        await self.decide(webhook, other)
        self.assertEqual(len(self.server.calls), 3)
        await self.decide(webhook, question)
        self.assertEqual(len(self.server.calls), 3)

    async def test_a_question_too_long_is_not_remembered(self) -> None:
        webhook = self.make()
        question = ask(ALICE, "get", "pods", "x", name="n" * 20_000)
        await self.decide(webhook, question)
        await self.decide(webhook, question)
        self.assertEqual(len(self.server.calls), 2)

    async def test_when_nobody_answers_the_failure_policy_decides(self) -> None:
        self.code = 503
        for policy in (Decision.NO_OPINION, Decision.DENY):
            verdict = await self.decide(self.make(on_error=policy), ask(ALICE, "get", "pods"))
            self.assertIs(verdict.decision, policy)
            self.assertTrue(verdict.error)

    async def test_one_that_does_not_answer_in_time_is_asked_once(self) -> None:
        answers = [(200, b'{"status": {"allowed": true}}')]
        silent = HTTPSServer(CA, lambda path, body: answers.pop() if answers else None)
        self.addCleanup(silent.stop)
        client = EndpointClient(reactor, Endpoint(silent.url, ca=CA.pem), timeout=2.0)
        self.addCleanup(client.close)
        webhook = WebhookAuthorizer(
            reactor,
            client,
            version="v1",
            authorized_ttl=1.0,
            unauthorized_ttl=1.0,
            on_error=Decision.DENY,
            first_delay=0.001,
        )
        await client.post(b"{}")  # makes the connection, which may take longer
        verdict = await self.decide(webhook, ask(ALICE, "get", "pods", "x"))
        self.assertEqual((verdict.decision, len(silent.calls)), (Decision.DENY, 2))
        self.assertIn("did not answer in time", verdict.error)

    async def test_a_redirect_or_nonsense_allows_nothing(self) -> None:
        for self.code, self.status in ((302, {}), (200, "yes")):
            verdict = await self.decide(self.make(), ask(ALICE, "get", "pods"))
            self.assertIs(verdict.decision, Decision.NO_OPINION)

    async def test_conditions_keep_requests_from_the_webhook(self) -> None:
        conditions, errors = compile_conditions(
            [
                {"expression": "has(request.resourceAttributes)"},
                {"expression": "request.resourceAttributes.namespace == 'x'"},
                {"expression": "!('system:masters' in request.groups)"},
            ],
            Path("w"),
        )
        assert not errors
        webhook = self.make(conditions=conditions)
        skipped = await self.decide(webhook, ask(ALICE, "get", "pods", "y"))
        self.assertIs(skipped.decision, Decision.NO_OPINION)
        await self.decide(webhook, Attributes(ALICE, "get", is_resource=False, path="/x"))
        self.assertEqual(self.server.calls, [])
        self.assertIs((await self.decide(webhook, ask(ALICE, "get", "pods", "x"))).decision, Decision.ALLOW)

    async def test_conditions_that_take_long_run_in_slices(self) -> None:
        conditions, errors = compile_conditions(
            [{"expression": "request.groups.all(a, request.groups.exists(b, b.startsWith(a)))"}], Path("w")
        )
        assert not errors
        webhook = self.make(conditions=conditions)
        member = UserInfo("alice", groups=tuple(f"group-{number}" for number in range(100)))
        question = ask(member, "get", "pods", "x")
        running: Any = webhook.authorize(question)
        self.assertIs(running.send(None), in_slices)
        running.close()
        self.assertIs((await self.decide(webhook, question)).decision, Decision.ALLOW)

    async def test_an_answer_of_another_kind_allows_nothing(self) -> None:
        """As upstream; only an answer that says nothing of its kind is taken for one."""
        right = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        for head, allowed in (
            ({"kind": "Pod"}, False),
            ({**right, "kind": "TokenReview"}, False),
            ({**right, "apiVersion": "authorization.k8s.io/v1beta1"}, False),
            ({**right, "kind": 5}, False),
            (right, True),
            ({"kind": "", "apiVersion": None}, True),
        ):
            self.head = head
            verdict = await self.decide(self.make(on_error=Decision.DENY), ask(ALICE, "get", "pods", "x"))
            self.assertIs(verdict.decision, Decision.ALLOW if allowed else Decision.DENY, head)

    async def test_an_answer_that_is_too_large_is_asked_for_once_and_a_long_one_not_remembered(self) -> None:
        self.status = {"allowed": True, "reason": "x" * 20_000}
        webhook = self.make(on_error=Decision.DENY)
        for _ in range(2):
            await self.decide(webhook, ask(ALICE, "get", "pods", "x"))
        self.assertEqual(len(self.server.calls), 2)
        self.status = {"allowed": True, "reason": "x" * MAX_ANSWER}
        verdict = await self.decide(webhook, ask(ALICE, "get", "pods", "x"))
        self.assertIn("the answer is larger than", verdict.error)
        self.assertEqual(len(self.server.calls), 3)

    async def test_in_a_chain(self) -> None:
        rbac = authorizer(role("r", rule("get", "secrets")), binding("b", "r", user("alice")))
        self.status = {"allowed": False, "reason": "no idea"}
        chain = UnionAuthorizer([Link(PrivilegedGroups()), Link(self.make()), Link(rbac)])
        self.assertIs((await self.decide(chain, ask(ALICE, "get", "secrets"))).decision, Decision.ALLOW)
        self.assertEqual((await self.decide(chain, ask(ALICE, "get", "pods"))).reason, "no idea")
        root = UserInfo("root", groups=("system:masters",))
        calls = len(self.server.calls)
        self.assertIs((await self.decide(chain, ask(root, "get", "pods"))).decision, Decision.ALLOW)
        self.assertEqual(len(self.server.calls), calls)
        self.status = {"denied": True}
        self.assertIs((await self.decide(chain, ask(ALICE, "list", "secrets"))).decision, Decision.DENY)

    async def test_what_is_counted(self) -> None:
        meter = AuthorizationMeter()
        conditions, _ = compile_conditions(
            [{"expression": "request.resourceAttributes.namespace != 'out'"}, {"expression": "int(request.uid) > 0"}],
            Path("w"),
        )
        plain = self.make(name="plain", meter=meter)
        chain = UnionAuthorizer([Link(plain, "Webhook", "plain")], meter)
        await self.decide(chain, ask(ALICE, "get", "pods"))
        self.status = {"denied": True}
        await self.decide(chain, ask(ALICE, "list", "pods"))
        self.status = {}
        await self.decide(chain, ask(ALICE, "watch", "pods"))
        self.code = 504
        await self.decide(chain, ask(ALICE, "patch", "pods"))
        await self.decide(self.make(name="strict", meter=meter, on_error=Decision.DENY), ask(ALICE, "get", "pods"))
        picky = self.make(name="picky", meter=meter, conditions=conditions)
        await self.decide(picky, ask(ALICE, "get", "pods", "out"))
        await self.decide(picky, ask(ALICE, "get", "pods", "in"))
        self.assertEqual(meter.decisions.rows, {("Webhook", "plain", "allowed"): 1, ("Webhook", "plain", "denied"): 1})
        self.assertEqual(
            meter.webhook_evaluations.rows,
            {("plain", "success"): 3, ("plain", "timeout"): 5, ("strict", "timeout"): 5},
        )
        self.assertEqual(meter.webhook_fail_open.rows, {("plain", "timeout"): 1})
        self.assertEqual(meter.condition_exclusions.rows, {("Webhook", "picky"): 1})
        self.assertEqual(meter.condition_errors.rows, {("Webhook", "picky"): 1})

    def test_buckets_are_those_of_upstream(self) -> None:
        registry = CollectorRegistry()
        meter = AuthorizationMeter(registry)
        meter.webhook_seconds.observe(1.0, "w", "success")
        meter.condition_seconds.observe(1.0, "Webhook", "w")
        bounds = {
            family.name: [sample.labels["le"] for sample in family.samples if sample.name.endswith("_bucket")]
            for family in registry.collect()
            if family.type == "histogram"
        }
        seconds = "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 +Inf".split()
        prefix = "apiserver_authorization_"
        self.assertEqual(bounds[f"{prefix}webhook_duration_seconds"], seconds)
        self.assertEqual(
            bounds[f"{prefix}match_condition_evaluation_seconds"], "0.001 0.005 0.01 0.025 0.1 0.2 0.25 +Inf".split()
        )


def test_conditions_that_cannot_be_compiled() -> None:
    _, errors = compile_conditions(
        [{"expression": ""}, {"expression": "1 +"}, {"expression": "request.user"}, {"expression": "request.nosuch"}],
        Path("authorizers").index(0),
    )
    assert [error.field for error in errors] == [f"authorizers[0].matchConditions[{n}].expression" for n in range(4)]


def test_conditions_that_fail() -> None:
    """One that is false decides, whatever the others."""
    given = [{"expression": "request.extra.x == []"}, {"expression": "int(request.uid) > 0"}]
    review = {"spec": {"user": "alice"}}
    decisive, _ = compile_conditions([*given, {"expression": "false"}], Path("w"))
    assert decisive is not None and decisive.matches(review) is False
    conditions, errors = compile_conditions([*given, {"expression": "true"}], Path("w"))
    assert conditions is not None and not errors
    with pytest.raises(ValueError) as caught:
        conditions.matches(review)
    first, _, second = str(caught.value).partition(", ")
    assert first == "[cel evaluation error: expression 'request.extra.x == []' resulted in error: no such key: x"
    assert second.startswith("cel evaluation error: expression 'int(request.uid) > 0' resulted in error: ")


@pytest.mark.parametrize(
    ("selector", "raw", "requirements"),
    [
        ({"rawSelector": "a=b", "requirements": [{"key": "a"}]}, True, False),
        ({"rawSelector": "", "requirements": [{"key": "a", "operator": "Exists"}]}, False, True),
        ({"requirements": []}, None, None),
        ({}, None, None),
    ],
)
def test_conditions_see_one_part_of_a_selector_that_is_not_empty(
    selector: Object, raw: bool | None, requirements: bool | None
) -> None:
    spec = {"user": "alice", "resourceAttributes": {"verb": "list", "labelSelector": selector}}
    expressions = {
        "has(request.resourceAttributes.labelSelector)": raw is not None,
        "request.resourceAttributes.?labelSelector.rawSelector.hasValue()": bool(raw),
        "request.resourceAttributes.?labelSelector.requirements.hasValue()": bool(requirements),
    }
    for expression, expected in expressions.items():
        conditions, errors = compile_conditions([{"expression": expression}], Path("w"))
        assert conditions is not None and not errors
        assert conditions.matches({"spec": spec}) is expected, expression


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"allowed": True, "reason": "r"}, Verdict(Decision.ALLOW, "r")),
        ({"allowed": True, "denied": True, "reason": "r"},
         Verdict(Decision.DENY, "r", "webhook subject access review returned both allow and deny response")),
        ({"allowed": False, "denied": True, "reason": "r"}, Verdict(Decision.DENY, "r")),
        ({"denied": True}, Verdict(Decision.DENY, "")),
        ({"allowed": False, "denied": False, "reason": "r"}, Verdict(Decision.NO_OPINION, "r")),
        ({"reason": None}, Verdict(Decision.NO_OPINION, "")),
    ],
)  # fmt: skip
def test_what_an_answer_decides(status: Any, wanted: Verdict) -> None:
    assert _verdict(status) == wanted


@pytest.mark.parametrize("field", ["namespace", "verb", "group", "version", "resource", "subresource", "name", "path"])
def test_a_question_is_remembered_below_ten_thousand_characters(field: str) -> None:
    for more, cacheable in ((0, True), (1, False)):
        texts: dict[str, str] = {"verb": "", field: "x" * (9_999 + more)}
        assert _cacheable(Attributes(UserInfo("u"), **texts)) == cacheable  # type: ignore[arg-type]
