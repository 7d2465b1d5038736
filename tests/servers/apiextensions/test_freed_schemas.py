"""What was made of a large schema is freed in steps when its definition goes."""

from __future__ import annotations

import gc
from typing import Any

import orjson
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.process.freeing import Freeing
from kapi.process.slices import Slices
from kapi.schema import builtin
from kapi.schema.structural.rules import RuleValidator
from kapi.schema.types import Field
from kapi.servers.apiextensions.outline import outline
from kapi.servers.apiextensions.rows import Rows

_COUNT = 2000  # properties
_MOST = 200  # objects of a class that are freed in a turn


def definition() -> bytes:
    rule = {"rule": "self.size() < 10", "message": "m" * 100}
    found = {"type": "string", "maxLength": 9, "x-kubernetes-validations": [rule]}
    properties = {f"p{number}": found for number in range(_COUNT)}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return orjson.dumps(
        {
            "metadata": {"name": "things.example.com", "uid": "u", "generation": 1},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"kind": "Thing", "plural": "things"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
    )


def counts() -> dict[type, int]:
    found = dict.fromkeys((RuleValidator, Field), 0)
    for each in gc.get_objects():
        if each.__class__ in found:
            found[each.__class__] += 1
    return found


class Left(SynchronousTestCase):
    def setUp(self) -> None:
        builtin.definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")  # what all have in common
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        self.before = counts()
        self.clock = Clock()
        freeing = Freeing(self.clock, Slices(self.clock, length=-1.0).call)
        freeing.install()
        self.addCleanup(freeing.uninstall)

    def made(self) -> Rows:
        """Of a definition that has been used."""
        rows = Rows(outline(definition()))
        assert rows.stored.schema is not None
        self.assertEqual(len(rows.stored.schema().fields), _COUNT + 3)
        assert rows.schemas["v1"].rules is not None
        return rows

    def turn(self) -> bool:
        """One turn of the reactor; False when none follows."""
        self.clock.rightNow += 0.05  # what is scheduled in the turn is for the next
        calls, self.clock.calls = self.clock.calls, []
        for call in calls:
            call.called = 1
            call.func(*call.args, **call.kw)
        return bool(self.clock.calls)

    def longest(self) -> dict[type, int]:
        """The most objects of each class that go in one turn."""
        most: dict[type, int] = dict.fromkeys(self.before, 0)
        there = counts()
        for _ in range(1000):
            more = self.turn()
            now = counts()
            most = {kind: max(most[kind], there[kind] - now[kind]) for kind in most}
            there = now
            if not more:
                break
        return most

    def test_in_steps(self) -> None:
        self.made().release()
        most = self.longest()
        self.assertEqual(counts(), self.before)
        self.assertLessEqual(max(most.values()), _MOST)
        self.assertGreater(min(most.values()), 0)

    def test_a_request_keeps_what_it_uses(self) -> None:
        rows = self.made()
        kept: Any = rows.types["v1"]
        rows.release()
        del rows
        for _ in range(200):
            self.turn()
        self.assertEqual(counts(), {RuleValidator: self.before[RuleValidator], Field: self.before[Field] + _COUNT + 3})
        self.assertEqual(kept.fields["p7"].name, "p7")
        del kept
        self.assertLessEqual(max(self.longest().values()), _MOST)
        self.assertEqual(counts(), self.before)
