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
