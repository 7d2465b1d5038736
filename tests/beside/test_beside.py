"""The program that asks two servers the same: what differs is found, told once and made small; equal servers have nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.beside.__main__ import main
from tests.beside.mutations import accepted, mutated
from tests.beside.options import requests
from tests.beside.pair import Difference, Pair, Side, common_kinds, compare
from tests.beside.samples import Samples, smallest
from tests.beside.sequences import Request
from tests.golden.replaying import Asker, Reply
from tests.integration.embedded_site import EmbeddedSite


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    with EmbeddedSite("--controllers=") as one, EmbeddedSite("--controllers=") as other:
        yield [one.url, other.url]


class Deaf:
    """A server that does not see one field of what it is sent."""

    def __init__(self, asker: Asker, field: str) -> None:
        self._asker, self._field = asker, field

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None, user: str, seconds: float | None
    ) -> Reply:
        if method == "POST" and body is not None:
            tree = json.loads(body)
            tree.pop(self._field, None)
            body = json.dumps(tree).encode()
        return self._asker.ask(method, path, headers, body, user, seconds)


def sides(urls: list[str]) -> list[Side]:
    return [Side(Asker(url, {"user": "admintoken"}), "user") for url in urls]


def requests_clock(many: int) -> Any:
    """Is over after so many requests."""
    ticks = count()
    return lambda: float(next(ticks)) / many


def test_two_that_are_equal_differ_in_nothing(urls: list[str]) -> None:
    found: list[Difference] = []
    pair = Pair(*sides(urls))  # texts that quote an object end within it, where revisions of other lengths end sooner
    assert compare(pair, 1.0, 5, found.append, clock=requests_clock(400)) == 0, found
    assert pair.asked >= 399


def test_what_differs_is_told_once_and_as_small_as_can_be(urls: list[str]) -> None:
    one, other = sides(urls)
    pair = Pair(one, Side(Deaf(other.asker, "data"), "user"))  # type: ignore[arg-type]
    found: list[Difference] = []
    only_maps = lambda kind: kind.resource == "configmaps"  # noqa: E731
    compare(pair, 1.0, 6, found.append, only_maps, clock=requests_clock(150))
    creates = [each for each in found if each.request.method == "POST"]
    assert len({tuple(each.lines) for each in creates}) == len(creates)
    lost = [each for each in creates if any(line.startswith(".body.data") for line in each.lines)]
    assert lost
    assert all(set(each.request.body) - {"apiVersion", "kind", "metadata"} == {"data"} for each in lost), lost


def test_options_are_tried_on_objects_that_stay(urls: list[str]) -> None:
    found: list[Difference] = []
    pair = Pair(*sides(urls))
    assert compare(pair, 1.0, 9, found.append, clock=requests_clock(300), source=requests) == 0, found
    kinds, _ = common_kinds(pair)
    with pytest.raises(LookupError, match="whose options are tried"):
        next(requests(pair, [kind for kind in kinds if kind.resource == "nodes"], 9, "n"))


def test_an_option_that_is_not_seen_is_found(urls: list[str]) -> None:
    one, other = sides(urls)

    class Blind(Deaf):
        def ask(self, method: str, path: str, *rest: Any) -> Reply:  # type: ignore[override]
            return self._asker.ask(method, path.replace("limit=", "unknown="), *rest)

    found: list[Difference] = []
    pair = Pair(one, Side(Blind(other.asker, ""), "user"))  # type: ignore[arg-type]
    compare(pair, 1.0, 10, found.append, clock=requests_clock(300), source=requests)
    assert found and all("limit=" in each.request.path for each in found), found


def test_nothing_is_left_behind(urls: list[str]) -> None:
    pair = Pair(*sides(urls))
    compare(pair, 1.0, 7, print, clock=requests_clock(20))
    for side in pair.sides:
        left = side.ask(Request("GET", "/api/v1/namespaces/beside-7"))
        assert left.status == 404 or "deletionTimestamp" in json.loads(left.data)["metadata"]


def test_the_same_seed_asks_the_same(urls: list[str]) -> None:
    def asked() -> list[Any]:
        kinds, schemas = common_kinds(Pair(*sides(urls)))
        chance = random.Random(3)
        return [Samples(schemas[kind.path], chance).of(kind.schema) for kind in kinds]

    assert asked() == asked()


def test_the_program_tells_its_seed_and_its_result_by_its_code(
    urls: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    servers = [f"{url},admintoken" for url in urls]
    assert main([*servers, "--seconds", "0.5", "--seed", "8", "--only", "^v1/pods$"]) == 0
    assert capsys.readouterr().out.strip().endswith("requests with seed 8, 0 differences")


def test_a_server_that_refuses_is_told_plainly(urls: list[str]) -> None:
    with pytest.raises(ConnectionError, match="401"):
        main([f"{urls[0]},wrong", f"{urls[1]},admintoken", "--seconds", "1"])


def test_an_unknown_resource_is_refused(urls: list[str]) -> None:
    with pytest.raises(LookupError):
        main([*(f"{url},admintoken" for url in urls), "--seconds", "1", "--only", "nothing"])


def test_each_mutation_changes_one_value_and_neither_type_nor_name() -> None:
    tree = {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "n"},
        "spec": {"a": [1, "x"], "b": True, "c": {"d": 1.5}},
    }
    chance = random.Random(1)
    found = [mutated(tree, chance) for _ in range(300)]
    assert all({**each, "spec": tree["spec"]} == tree for each in found)
    specs = [each["spec"] for each in found if isinstance(each.get("spec"), dict) and len(each["spec"]) == 3]
    assert all(sum(spec.get(name) != value for name, value in tree["spec"].items()) <= 1 for spec in specs)
    assert any("spec" not in each for each in found) and any(each.get("spec", 1) is None for each in found)
    assert any(spec["b"] is False for spec in specs)


def test_accepted_objects_are_there_of_most_kinds() -> None:
    known = accepted()
    assert len(known) > 50 and all(isinstance(body, dict) for bodies in known.values() for body in bodies)
    assert known["api/v1", "pods"] and known["apis/apps/v1", "deployments"]


def test_smallest_keeps_what_makes_the_difference() -> None:
    tree = {"a": [{"b": 1, "c": 2}, {"d": {}}], "e": "x"}
    assert smallest(tree, lambda tree: any(each.get("c") == 2 for each in tree.get("a", ()))) == {"a": [{"c": 2}]}
