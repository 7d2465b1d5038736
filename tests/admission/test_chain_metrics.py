"""How long each plugin took is told by name and outcome, whoever refuses."""

from __future__ import annotations

import pytest
from prometheus_client.registry import CollectorRegistry

from kapi.admission.chain import Chain
from kapi.admission.interface import Attributes, Plugin
from kapi.admission.metrics import Meter
from kapi.machinery.status import StatusError, bad_request
from tests.admission.fakes import attributes, finish

_COUNT = "apiserver_admission_controller_admission_duration_seconds_count"


class Agrees(Plugin):
    name = "Agrees"

    def admit(self, attributes: Attributes) -> None:
        pass

    def validate(self, attributes: Attributes) -> None:
        pass


class Refuses(Plugin):
    """Refuses what is named so, in the pass of that name."""

    name = "Refuses"

    def admit(self, attributes: Attributes) -> None:
        self._refuse(attributes, "admit")

    def validate(self, attributes: Attributes) -> None:
        self._refuse(attributes, "validate")

    def _refuse(self, attributes: Attributes, name: str) -> None:
        if attributes.name == name:
            raise bad_request("no")


class Later(Agrees):
    name = "Later"


class OfNodes(Agrees):
    """Would refuse whatever it is asked about."""

    name = "OfNodes"
    resources = frozenset({"nodes"})

    def admit(self, attributes: Attributes) -> None:
        raise bad_request("asked")

    def validate(self, attributes: Attributes) -> None:
        raise bad_request("asked")


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def ask(registry: CollectorRegistry, chain: Chain, name: str) -> None:
    request = attributes({"metadata": {"name": name}})
    finish(chain.admit(request))
    finish(chain.validate(request))


def counts(registry: CollectorRegistry, kind: str) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["name"], sample.labels["rejected"]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == _COUNT and sample.labels["type"] == kind and sample.labels["operation"] == "CREATE"
    }


@pytest.mark.parametrize("kind", ["admit", "validate"])
def test_the_plugin_that_refuses_is_the_one_counted_as_rejecting(registry: CollectorRegistry, kind: str) -> None:
    chain = Chain([Agrees(), Refuses(), Later()], Meter(registry))
    ask(registry, chain, "fine")
    ask(registry, chain, "fine")
    with pytest.raises(StatusError):
        ask(registry, chain, kind)
    assert counts(registry, kind) == {
        ("Agrees", "false"): 3,
        ("Refuses", "false"): 2,
        ("Refuses", "true"): 1,
        ("Later", "false"): 2,
    }


@pytest.mark.parametrize("kind", ["admit", "validate"])
def test_a_plugin_of_other_resources_is_not_asked_and_counts_as_passed(registry: CollectorRegistry, kind: str) -> None:
    chain = Chain([OfNodes(), Refuses(), OfNodes(), Later()], Meter(registry))
    ask(registry, chain, "fine")
    assert counts(registry, kind) == {("OfNodes", "false"): 2, ("Refuses", "false"): 1, ("Later", "false"): 1}
    ask(registry, chain, "fine")
    with pytest.raises(StatusError):
        ask(registry, chain, kind)
    assert counts(registry, kind) == {
        ("OfNodes", "false"): 5,  # once more before the one that refused
        ("Refuses", "false"): 2,
        ("Refuses", "true"): 1,
        ("Later", "false"): 2,
    }
    sums = [
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == _COUNT.replace("_count", "_sum") and sample.labels["name"] == "OfNodes"
    ]
    assert set(sums) == {0.0}, "what was not asked took no time"


def test_it_is_asked_about_its_own(registry: CollectorRegistry) -> None:
    chain = Chain([OfNodes()], Meter(registry))
    with pytest.raises(StatusError, match="asked"):
        finish(chain.admit(attributes({"metadata": {"name": "fine"}}, resource="nodes", kind="Node")))


@pytest.mark.parametrize("kind", ["admit", "validate"])
def test_a_step_is_counted_as_rejecting_when_one_of_its_plugins_is(registry: CollectorRegistry, kind: str) -> None:
    chain = Chain([Agrees(), Refuses()], Meter(registry))
    ask(registry, chain, "fine")
    with pytest.raises(StatusError):
        ask(registry, chain, kind)
    steps = {
        sample.labels["rejected"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "apiserver_admission_step_admission_duration_seconds_count" and sample.labels["type"] == kind
    }
    assert steps == {"false": 1, "true": 1}


@pytest.mark.parametrize(
    ("code", "shown"), [(0, "0"), (200, "200"), (599, "599"), (600, "600"), (601, "600"), (9999, "600")]
)
def test_codes_of_webhooks_that_there_are_not_are_counted_as_one(
    registry: CollectorRegistry, code: int, shown: str
) -> None:
    Meter(registry).webhook("hook", "CREATE", "admit", code, False, 1.0)
    name = "apiserver_admission_webhook_request_total"
    (labels,) = [sample.labels for family in registry.collect() for sample in family.samples if sample.name == name]
    assert labels["code"] == shown


def test_the_summary_of_whole_passes_agrees_with_their_histogram(registry: CollectorRegistry) -> None:
    chain = Chain([Agrees(), Refuses()], Meter(registry))
    for name in ("a", "b", "validate"):
        try:
            ask(registry, chain, name)
        except StatusError:
            pass
    steps = "apiserver_admission_step_admission_duration_seconds"
    found = {
        (sample.name, sample.labels["type"], sample.labels["rejected"]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name.startswith(steps) and sample.name.endswith(("_count", "_sum"))
    }
    passes = {(kind, rejected): found[f"{steps}_summary_count", kind, rejected] for _, kind, rejected in found}
    assert passes == {("admit", "false"): 3, ("validate", "false"): 2, ("validate", "true"): 1}
    for kind, rejected in passes:
        for part in ("count", "sum"):
            assert found[f"{steps}_summary_{part}", kind, rejected] == found[f"{steps}_{part}", kind, rejected]


STEPS = "0.005 0.025 0.1 0.5 1 2.5"


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("apiserver_admission_step_admission_duration_seconds", STEPS),
        ("apiserver_admission_controller_admission_duration_seconds", STEPS),
        ("apiserver_admission_webhook_admission_duration_seconds", f"{STEPS} 10 25"),
        ("apiserver_admission_match_condition_evaluation_seconds", "0.001 0.005 0.01 0.025 0.1 0.2 0.25"),
        ("apiserver_validating_admission_policy_check_duration_seconds", "5e-07 0.001 0.01 0.1 1"),
        ("apiserver_mutating_admission_policy_check_duration_seconds", "5e-07 0.001 0.01 0.1 1"),
    ],
)
def test_the_bounds_of_durations_are_those_of_upstream(registry: CollectorRegistry, name: str, bounds: str) -> None:
    meter = Meter(registry)
    ask(registry, Chain([Agrees()], meter), "fine")
    meter.webhook("hook", "CREATE", "admit", 200, False, 1.0)
    meter.conditions("p", "policy", "validate", "CREATE", 1.0, 0)
    for kind in ("validating", "mutating"):
        meter.policy(kind, "p", "b", "none", 1.0, *(["deny"] if kind == "validating" else []))
    found = {
        sample.labels["le"]: None
        for family in registry.collect()
        for sample in family.samples
        if sample.name == f"{name}_bucket"
    }
    assert list(found) == [*bounds.split(), "+Inf"]
