"""Nothing that a request computes holds the thread for longer because a list or map is longer: between two checkpoints a bounded
number of lines runs, whichever field of the built-in types has many entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from unittest.mock import patch

import pytest

from kapi.codecs import json_pieces
from kapi.machinery.status import StatusError
from tests.growth.counting import lines, steepest, stretches
from tests.growth.test_growth import KINDS, PLACES
from tests.growth.work import Work

ENTRIES = 100
LINES = 1600  # that run between two checkpoints whatever the size, and that as many entries may take
MANY = 1500  # entries
FACTOR = 2.0  # for four times as many, beyond that number


@pytest.fixture(autouse=True)
def few_members() -> Iterator[None]:
    """Of a piece of JSON, which has 10,000 lines for 2,000 members, whatever the size of the whole."""
    with patch.object(json_pieces, "_PIECE_MEMBERS", 100):
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_no_stretch_without_a_checkpoint_grows_with_a_body(kind: str) -> None:
    found = []
    for place in PLACES:
        if place.row.kind != kind:
            continue
        work = Work(place.row)
        for do in (Work.create, Work.update):
            try:
                few = stretches(do(work, place.body(ENTRIES)))
                if few.longest <= LINES:
                    continue
                many = stretches(do(work, place.body(4 * ENTRIES)))
            except StatusError:  # cannot be decoded
                continue
            if many.longest > FACTOR * few.longest:
                found.append(f"{do.__name__} of {place}: {many.longest} lines, {many.where}")
    assert not found, "\n".join(found)


def test_entries_with_many_fields_are_shown_one_by_one() -> None:
    """In the difference that the refusal of a pod's update has."""
    place = next(place for place in PLACES if str(place) == "core/v1/pods:spec.initContainers")
    found = stretches(Work(place.row).update(place.body(ENTRIES)))
    assert found.longest < LINES, found.where


#: lists whose entries take few lines each, so that a hundred of them are no long stretch
LONG = [
    "core/v1/endpoints:subsets.ports",
    "core/v1/persistentvolumes:spec.accessModes",
    "core/v1/persistentvolumes:spec.nodeAffinity.required.nodeSelectorTerms",
    "core/v1/resourcequotas:spec.scopes",
    "batch/v1/jobs:spec.podFailurePolicy.rules",
    "discovery.k8s.io/v1/endpointslices:ports",
    "networking.k8s.io/v1/networkpolicies:spec.egress",
    "node.k8s.io/v1/runtimeclasses:scheduling.tolerations",
    "rbac.authorization.k8s.io/v1/rolebindings:subjects",
    "resource.k8s.io/v1/resourceclaims:spec.devices.requests",
    "resource.k8s.io/v1/resourceslices:spec.devices",
    "storage.k8s.io/v1/storageclasses:allowedTopologies",
]


@pytest.mark.parametrize("name", LONG)
def test_no_line_runs_for_each_of_many_entries_without_a_checkpoint(name: str) -> None:
    place = next(place for place in PLACES if str(place) == name)
    for do in (Work.create, Work.update, Work.ownership):
        found = stretches(do(Work(place.row), place.body(MANY)))
        assert found.longest < 2 * MANY, found.where


#: lists and maps of which even a line that is run once for each entry is seen
WALKED = [
    "core/v1/nodes:spec.podCIDRs",
    "core/v1/nodes:status.addresses",
    "core/v1/nodes:status.conditions",
    "core/v1/pods:spec.overhead",
    "core/v1/pods:spec.schedulingGates",
    "core/v1/pods:spec.volumes.secret.items",
    "core/v1/pods:status.resourceClaimStatuses",
    "core/v1/serviceaccounts:secrets",
    "core/v1/services:spec.loadBalancerSourceRanges",
]


@pytest.mark.parametrize("name", WALKED)
def test_each_walk_over_many_entries_has_checkpoints(name: str) -> None:
    place = next(place for place in PLACES if str(place) == name)
    for do in (Work.create, Work.update, Work.table):
        found = stretches(do(Work(place.row), place.body(MANY)))
        assert found.longest < 0.95 * MANY, found.where


def test_the_addresses_of_a_node_are_read_in_steps() -> None:
    """Each is parsed, which samples that are no addresses do not show."""
    place = next(place for place in PLACES if str(place) == "core/v1/nodes:spec.podCIDRs")
    body = place.body(1)
    body["spec"]["podCIDRs"] = [f"10.0.{number}.0/32" for number in range(250)]
    found = stretches(Work(place.row).create(body))
    assert found.longest < 4 * LINES, found.where


def _quota(count: int) -> Callable[[], None]:
    place = next(place for place in PLACES if str(place) == "core/v1/resourcequotas:spec.scopes")
    body = place.body(1)
    body["spec"] = {"scopes": [f"s{number}" for number in range(count)], "hard": {f"cpu{n}": "1" for n in range(count)}}
    body["spec"]["hard"].update({"cpu": "1", "pods": "1"})
    return Work(place.row).create(body)


def test_two_lists_of_a_quota_are_not_multiplied() -> None:
    """Each scope is asked for each limit, which one long list does not show."""
    few, many = lines(_quota(100)), lines(_quota(400))
    factor, where = steepest(few, many, 400)
    assert factor < 6, where
