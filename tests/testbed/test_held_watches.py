"""Watches that are held back on command: what their clients see, and when."""

from __future__ import annotations

from typing import Any

import orjson
from twisted.trial import unittest

from kapi.filters.chain import FilterChain
from kapi.testbed.fault_injection import FaultInjection
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI, succeed

MAPS = "/api/v1/namespaces/default/configmaps"


class FaultyAPI(MemoryAPI):
    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.faults = FaultInjection(self.clock)
        self.runner.chain = FilterChain(self.runner.chain.filters, self.faults.around(self.site.answer))


class TestHeldWatches(unittest.TestCase):
    def setUp(self) -> None:
        self.api = succeed(FaultyAPI.started())
        self.addCleanup(lambda: succeed(self.api.caches.stop()))
        self.api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})

    def rule(self, **given: Any) -> str:
        name: str = self.api.faults.add(orjson.dumps({"watch": "hold", **given}))
        return name

    def put(self, name: str) -> None:
        assert self.api.ask("POST", MAPS, {"metadata": {"name": name}}).code == 201
        self.api.turn()

    def watch(self, agent: str = "operator") -> MemoryRequest:
        request = self.api.ask("GET", f"{MAPS}?watch=1", headers={"User-Agent": agent})
        self.api.turn()
        return request

    def names(self, request: MemoryRequest) -> list[str]:
        return [event["object"]["metadata"]["name"] for event in request.events]

    def test_events_come_in_order_when_the_rule_is_removed(self) -> None:
        self.put("initial")
        name = self.rule()
        watch = self.watch()
        self.put("one")
        self.put("two")
        self.api.turn(600)
        self.assertEqual(self.names(watch), [])
        self.api.faults.remove(name)
        self.api.turn()
        self.put("three")
        self.assertEqual(self.names(watch), ["initial", "one", "two", "three"])

    def test_a_watch_under_way_is_held_and_others_are_not(self) -> None:
        held, free = self.watch("operator"), self.watch("dashboard")
        name = self.rule(match={"userAgent": "operator"})
        self.put("one")
        self.assertEqual((self.names(held), self.names(free)), ([], ["one"]))
        self.api.faults.remove(name)
        self.assertEqual(self.names(held), ["one"])

    def test_for_a_time_after_a_time(self) -> None:
        self.rule(watchAfter="5s", watchFor="10s")
        watch = self.watch()
        self.api.turn(4.9)
        self.put("before")
        self.assertEqual(self.names(watch), ["before"])
        self.api.turn(0.2)
        self.put("held")
        self.api.turn(9.8)
        self.assertEqual(self.names(watch), ["before"])
        self.api.turn(0.2)
        self.assertEqual(self.names(watch), ["before", "held"])

    def test_a_client_that_reads_again_does_not_release_it(self) -> None:
        watch = self.watch()
        name = self.rule()
        watch.producer.pauseProducing()
        self.put("one")
        watch.producer.resumeProducing()
        self.assertEqual(self.names(watch), [])
        self.api.faults.remove(name)
        self.assertEqual(self.names(watch), ["one"])

    def test_two_rules_hold_until_both_are_gone(self) -> None:
        watch = self.watch()
        first, second = self.rule(), self.rule()
        self.put("one")
        self.api.faults.remove(first)
        self.assertEqual(self.names(watch), [])
        self.api.faults.remove(second)
        self.assertEqual(self.names(watch), ["one"])

    def test_so_many_are_held(self) -> None:
        first, second = self.watch(), self.watch()
        self.rule(times=1)
        self.put("one")
        self.assertEqual((self.names(first), self.names(second)), ([], ["one"]))

    def test_a_rule_that_is_removed_before_the_time_does_nothing(self) -> None:
        watch = self.watch()
        name = self.rule(watchAfter="5s")
        self.api.faults.remove(name)
        self.api.turn(6)
        self.put("one")
        self.assertEqual(self.names(watch), ["one"])

    def test_nothing_is_left_of_a_watch_that_has_ended(self) -> None:
        watch = self.watch()
        self.rule(watchFor="10s")
        watch.disconnect()
        self.assertEqual(
            [call for call in self.api.clock.getDelayedCalls() if 9 < call.getTime() - self.api.clock.seconds() < 11],
            [],
        )
        self.assertEqual(self.api.faults._held._running, {})
