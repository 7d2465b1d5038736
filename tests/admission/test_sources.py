"""Policies, bindings and webhooks are read when they have changed, in steps, and what has not changed is not read again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.admission import source as admission_source
from kapi.admission.interface import UPDATE, Attributes
from kapi.admission.manifests import FIELD, GATE
from kapi.admission.policy.source import Binding, Policy, PolicySource
from kapi.admission.policy.validating import ValidatingAdmissionPolicy
from kapi.admission.source import GROUP, MAX_WAIT_SECONDS
from kapi.admission.webhook.matching import read_hooks
from kapi.admission.webhook.validating import ValidatingAdmissionWebhook
from kapi.machinery.feature_gates import resolve
from kapi.machinery.tree import Object
from kapi.process.slices import Slices
from kapi.resources.admissionregistration.policies import VALIDATING, VALIDATING_BINDING
from kapi.resources.admissionregistration.webhooks import VALIDATING as VALIDATING_WEBHOOKS
from kapi.runtime.sliced import run_by
from tests.admission.fakes import FakeClient, attributes, initializer
from tests.growth.counting import lines, stretches

POLICIES, BINDINGS = VALIDATING.plural, VALIDATING_BINDING.plural
HOOKS = "validatingwebhookconfigurations"
RULE: Object = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}


def match(count: int) -> Object:
    values = [f"v{number}" for number in range(count)]
    selector = {"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}
    return {"objectSelector": selector, "resourceRules": [RULE] * count}


def policy(name: str, count: int = 1) -> Object:
    return {"metadata": {"name": name}, "spec": {"matchConstraints": match(count)}}


def binding(name: str, policy: str, count: int = 1) -> Object:
    spec = {"policyName": policy, "matchResources": match(count)}
    return {"metadata": {"name": name}, "spec": spec}


def source(client: FakeClient, **more: Any) -> PolicySource[Policy]:
    return PolicySource(initializer(client, **more), VALIDATING, VALIDATING_BINDING, Policy)


def policies(count: int) -> Callable[[], Any]:
    client = FakeClient()
    client.put(GROUP, POLICIES, policy("p", count))
    client.put(GROUP, BINDINGS, binding("b", "p", count))
    return source(client).get


def hooks(count: int) -> Callable[[], Any]:
    client, given = FakeClient(), match(count)
    webhook = {"name": "a.b", "rules": given["resourceRules"], "objectSelector": given["objectSelector"]}
    client.put(GROUP, HOOKS, {"metadata": {"name": "c"}, "webhooks": [webhook]})
    return lambda: read_hooks(client.resource(GROUP, HOOKS).lister)


@pytest.mark.parametrize("make", [policies, hooks])
def test_long_rules_and_selectors_are_read_in_steps(make: Callable[[int], Callable[[], Any]]) -> None:
    few, many = (stretches(make(count)) for count in (200, 800))
    assert many.longest < max(1600, 2 * few.longest), many.where


def test_what_has_not_changed_is_not_read_again() -> None:
    client = FakeClient()
    client.put(GROUP, POLICIES, policy("p"), policy("q"))
    client.put(GROUP, BINDINGS, binding("a", "p"), binding("b", "p"), binding("c", "q"))
    made = source(client)
    before = made.get()
    assert before is not None
    assert [[bound.name for bound in each.bindings] for each in before] == [["a", "b"], ["c"]]
    assert made.get() is before
    kept = before[0].bindings[0]
    client.put(GROUP, BINDINGS, binding("b", "q"))
    after = made.get()
    assert after is not None
    assert [[bound.name for bound in each.bindings] for each in after] == [["a"], ["b", "c"]]
    assert after[0] is before[0] and after[0].bindings[0] is kept
    client.put(GROUP, BINDINGS, binding("a", "p"))
    again = made.get()
    assert again is not None and again[0].bindings[0] is not kept


def test_only_what_is_bound_is_read() -> None:
    client = FakeClient()
    client.put(GROUP, POLICIES, *map(policy, "dcba"))
    client.put(GROUP, BINDINGS, binding("x", "b"), binding("w", "d"), binding("y", "none"), binding("v", "d"))
    found = source(client).get()
    assert found is not None
    assert [(each.name, [bound.name for bound in each.bindings]) for each in found] == [("b", ["x"]), ("d", ["v", "w"])]


class Changes(SynchronousTestCase):
    """Each checkpoint suspends: what is read takes turns of the reactor."""

    def setUp(self) -> None:
        self.clock = Clock()
        run_by(self.clock, Slices(self.clock, length=-1.0).call)
        self.client = FakeClient()
        self.made: list[str] = []
        self.add("p")
        self.client.put(GROUP, BINDINGS, binding("b", "p"))
        made = initializer(self.client, reactor=self.clock)
        self.source = PolicySource(made, VALIDATING, VALIDATING_BINDING, self.make)

    def make(self, obj: Object, bindings: list[Binding]) -> Policy:
        self.made.append(obj["metadata"]["name"])
        return Policy(obj, bindings)

    def add(self, name: str, count: int = 40) -> None:
        self.client.put(GROUP, POLICIES, policy(name, count))

    def names(self, found: tuple[Policy, ...] | None) -> list[str]:
        assert found is not None
        return [each.name for each in found]

    def turns(self, count: int = 100, seconds: float = 0.0) -> None:
        """What is scheduled in a turn of the reactor is for the next."""
        self.clock.rightNow += seconds
        for _ in range(count):
            for call in [call for call in self.clock.calls if call.time <= self.clock.rightNow]:
                if call.active():
                    self.clock.calls.remove(call)
                    call.called = 1
                    call.func(*call.args, **call.kw)

    def test_requests_wait_for_one_reading(self) -> None:
        waiting = [Deferred.fromCoroutine(self.source.wait()) for _ in range(3)]
        self.assertNoResult(waiting[0])
        self.turns()
        self.assertEqual([self.names(self.successResultOf(each)) for each in waiting], [["p"]] * 3)
        self.assertEqual(self.made, ["p"])

    def test_the_first_ones_are_waited_for_however_long_it_takes(self) -> None:
        waiting = Deferred.fromCoroutine(self.source.wait())
        self.turns(1, 2 * MAX_WAIT_SECONDS)
        self.assertNoResult(waiting)
        self.turns()
        self.successResultOf(waiting)

    def test_those_before_count_while_new_ones_take_long(self) -> None:
        Deferred.fromCoroutine(self.source.wait())
        self.turns()
        self.add("p")
        self.client.put(GROUP, BINDINGS, binding("b2", "p", 400))
        self.assertIsNone(self.source.get())
        waiting = Deferred.fromCoroutine(self.source.wait())
        self.turns(1, MAX_WAIT_SECONDS / 2)
        self.assertNoResult(waiting)
        self.turns(1, MAX_WAIT_SECONDS / 2)
        self.assertEqual(len(self.successResultOf(waiting)[0].bindings), 1)
        self.turns(2000)
        found = self.source.get()
        assert found is not None
        self.assertEqual(len(found[0].bindings), 2)

    def test_configurations_wait_for_webhooks_that_are_being_read_only_where_files_have_some(self) -> None:
        """Else a bad one could not be repaired while another is read again and again."""
        rules = [{**RULE, "resources": ["services"]}] * 40
        self.client.put(GROUP, HOOKS, {"metadata": {"name": "c"}, "webhooks": [{"name": "a.b", "rules": rules}]})
        directory = Path(tempfile.mkdtemp())
        self.addCleanup(directory.rmdir)
        row = VALIDATING_WEBHOOKS
        configuration = attributes(
            {"metadata": {"name": "d"}}, group=GROUP, resource=row.plural, kind=row.kind, namespace=""
        )
        for configured, waits in ((None, False), ({FIELD: str(directory)}, True)):
            made = initializer(self.client, reactor=self.clock, features=resolve({GATE: True}))
            plugin = ValidatingAdmissionWebhook(made, configured)
            for request, held in ((configuration, waits), (attributes({"metadata": {"name": "x"}}), True)):
                answer = plugin.validate(request)
                self.assertEqual(answer is not None, held)
                if answer is not None:
                    waiting = Deferred.fromCoroutine(answer)  # type: ignore[arg-type]  # it is a coroutine
                    self.assertNoResult(waiting)
                    waiting.addErrback(lambda failure: failure.trap(CancelledError))
                    waiting.cancel()

    def test_who_asks_after_a_change_sees_it_though_another_is_being_read(self) -> None:
        waiting = Deferred.fromCoroutine(self.source.wait())
        self.add("q")
        self.client.put(GROUP, BINDINGS, binding("c", "q"))
        late = Deferred.fromCoroutine(self.source.wait())
        self.turns(300)
        self.assertEqual(self.names(self.successResultOf(late)), ["p", "q"])
        self.successResultOf(waiting)

    def test_a_request_that_ends_does_not_end_the_reading(self) -> None:
        waiting = Deferred.fromCoroutine(self.source.wait())
        waiting.cancel()
        self.failureResultOf(waiting)
        self.turns()
        self.assertEqual(self.names(self.source.get()), ["p"])

    def test_a_request_waits_for_policies_that_are_being_read_if_they_may_see_it(self) -> None:
        """Else whatever comes just after a change would pass by all policies."""
        dispatched: list[tuple[list[str], str]] = []

        async def dispatch(seen: tuple[Policy, ...], request: Attributes) -> None:
            dispatched.append((self.names(seen), request.name))

        review = attributes(
            {"metadata": {"name": ""}}, group="authentication.k8s.io", resource="tokenreviews", kind="TokenReview"
        )
        self.assertIsNone(self.source.run(review, dispatch))
        held = self.source.run(attributes({"metadata": {"name": "a"}}), dispatch)
        self.assertIsNotNone(held)
        waiting = Deferred.fromCoroutine(held)  # type: ignore[arg-type]  # it is a coroutine
        self.assertNoResult(waiting)
        self.turns()
        self.successResultOf(waiting)
        self.assertEqual(dispatched, [(["p"], "a")])
        at_once = self.source.run(attributes({"metadata": {"name": "b"}}), dispatch)
        self.successResultOf(Deferred.fromCoroutine(at_once))  # type: ignore[arg-type]  # it is a coroutine
        self.assertEqual(dispatched, [(["p"], "a"), (["p"], "b")])
        self.assertIsNone(self.source.run(review, dispatch))

    def test_without_policies_nothing_is_dispatched_though_a_request_waited(self) -> None:
        async def dispatch(seen: tuple[Policy, ...], request: Attributes) -> None:
            raise AssertionError("there is no policy")

        self.client.resource(GROUP, BINDINGS).objects.clear()
        self.client.put(GROUP, BINDINGS, binding("b", "other", 40))
        held = self.source.run(attributes({"metadata": {"name": "a"}}), dispatch)
        waiting = Deferred.fromCoroutine(held)  # type: ignore[arg-type]  # it is a coroutine
        self.turns()
        self.successResultOf(waiting)
        self.assertIsNone(self.source.run(attributes({"metadata": {"name": "b"}}), dispatch))

    def test_what_cannot_be_read_is_told_until_it_changes(self) -> None:
        self.client.put(GROUP, BINDINGS, {"metadata": {"name": "broken"}, "spec": {"matchResources": 1}})
        waiting = [Deferred.fromCoroutine(self.source.wait()) for _ in range(2)]
        self.turns()
        for each in waiting:
            self.failureResultOf(each, AttributeError)
        self.assertRaises(AttributeError, self.source.get)
        self.client.put(GROUP, BINDINGS, binding("broken", "p"))
        again = Deferred.fromCoroutine(self.source.wait())
        self.turns()
        self.assertEqual(self.names(self.successResultOf(again)), ["p"])


def test_bindings_of_other_resources_are_looked_at_once() -> None:
    """However many there are, for the next request of the same kind those that its rules name are known."""
    few, many = (_second_request(count) for count in (100, 400))
    assert many < few + 50


def test_what_is_found_for_requests_is_kept_for_some_kinds_of_them() -> None:
    client = FakeClient()
    client.put(GROUP, POLICIES, policy("p"))
    made = source(client)
    asked: list[str] = []

    def ask(resource: str, **more: Any) -> None:
        policies = made.get()
        assert policies is not None
        request = attributes({"metadata": {"name": "x"}}, resource=resource, **more)
        made.cached(request, lambda found: asked.append(resource), policies)

    with patch.object(admission_source, "MAX_CACHED", 2):
        for resource in ("a", "b", "b", "a", "c", "c", "a"):
            ask(resource)
        assert "".join(asked) == "abca", "with the third all are forgotten"
        for more in ({"operation": UPDATE}, {"subresource": "s"}, {"namespace": ""}, {"kind": "K"}, {"group": "g"}):
            ask("a", **more)
        assert "".join(asked[4:]) == "aaaaa"
        del asked[:]
        ask("a", group="g")
        client.put(GROUP, POLICIES, policy("q"))
        ask("a", group="g")
        ask("a", group="g")
    assert asked == ["a"]


def _second_request(count: int) -> int:
    client = FakeClient()
    others = [policy(f"p{number}") for number in range(count)]
    for each in others:
        each["spec"]["matchConstraints"] = {"resourceRules": [{**RULE, "resources": ["nothing"]}]}
    bound = [binding(f"b{number}", f"p{number}") for number in range(count)]
    client.put(GROUP, POLICIES, *others)
    client.put(GROUP, BINDINGS, *bound)
    plugin = ValidatingAdmissionPolicy(initializer(client))

    def ask() -> None:
        waiting = plugin.validate(attributes({"metadata": {"name": "x"}}))
        if waiting is not None:
            Deferred.fromCoroutine(waiting)  # type: ignore[arg-type]  # it is a coroutine

    ask()
    return sum(count for (path, *_), count in lines(ask).items() if "/kapi/admission/" in path)
