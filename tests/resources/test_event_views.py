"""An event is stored once and seen through two APIs."""

from __future__ import annotations

import orjson
from twisted.trial.unittest import TestCase

from kapi.machinery.tree import Object
from kapi.resources.events import RESOURCE, from_storage, to_storage
from kapi.testing.memory_api import MemoryAPI
from tests.resources.strategy_kit import changes

CORE, NEW = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"


class Views(TestCase):
    async def test_what_one_api_writes_the_other_shows_under_its_names(self) -> None:
        api = await MemoryAPI.started()
        event: Object = {
            "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "reason": "Started",
            "message": "it runs",
            "type": "Normal",
            "source": {"component": "kubelet"},
            "count": 2,
        }
        self.assertEqual(api.ask("POST", CORE, event).code, 201)
        view: Object = orjson.loads(b"".join(api.ask("GET", f"{NEW}/e").chunks))
        self.assertEqual(view["apiVersion"], "events.k8s.io/v1")
        self.assertEqual(view["regarding"]["name"], "p")
        self.assertEqual((view["note"], view["deprecatedCount"]), ("it runs", 2))
        self.assertEqual(view["deprecatedSource"], {"component": "kubelet"})
        self.assertEqual(api.ask("DELETE", f"{NEW}/e").code, 200)
        self.assertEqual(api.ask("GET", f"{CORE}/e").code, 404)
        for method, body in (("GET", None), ("PATCH", {})):
            answer = api.ask(method, f"{NEW}/e", body, type="application/merge-patch+json")
            self.assertEqual((answer.code, answer.json["message"]), (404, 'events.events.k8s.io "e" not found'))

    def test_there_and_back_is_the_same_event(self) -> None:
        event: Object = {
            "kind": "Event",
            "apiVersion": "events.k8s.io/v1",
            "metadata": {"name": "e"},
            "eventTime": "2024-01-01T00:00:00.000000Z",
            "regarding": {"name": "p"},
            "note": "n",
            "reportingController": "example.com/c",
            "reportingInstance": "c-1",
            "deprecatedSource": {},
            "deprecatedFirstTimestamp": None,
            "deprecatedLastTimestamp": None,
        }
        self.assertEqual(from_storage(to_storage(event)), event)

    def test_a_reporter_that_is_empty_is_none(self) -> None:
        for name, core in (("reportingController", "reportingComponent"), ("reportingInstance", "reportingInstance")):
            for value in ("", None):
                self.assertNotIn(name, from_storage({"metadata": {"name": "e"}, core: value}))
            self.assertEqual(from_storage({"metadata": {"name": "e"}, core: "c"})[name], "c")

    def test_what_is_not_given_is_empty_and_shared_with_no_other_event(self) -> None:
        core: Object = {
            "involvedObject": {}, "source": {}, "firstTimestamp": None, "lastTimestamp": None, "eventTime": None,
            "reportingComponent": "", "reportingInstance": "",
        }  # fmt: skip
        new: Object = {
            "regarding": {}, "deprecatedSource": {}, "deprecatedFirstTimestamp": None, "deprecatedLastTimestamp": None,
            "eventTime": None,
        }  # fmt: skip
        for function, version, wanted, names in (
            (to_storage, "v1", core, ("involvedObject", "source")),
            (from_storage, "events.k8s.io/v1", new, ("regarding", "deprecatedSource")),
        ):
            found = function({})
            self.assertEqual(found, {"apiVersion": version, **wanted})
            for name in names:
                found[name]["name"] = "p"
            self.assertEqual(function({}), {"apiVersion": version, **wanted})


class FixedFields(TestCase):
    """What an update through the newer API must leave as it was."""

    def event(self, **parts: object) -> Object:
        return to_storage(
            {
                "metadata": {"name": "e", "namespace": "default"},
                "eventTime": "2024-01-01T00:00:00.000000Z",
                "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
                "reason": "Started",
                "action": "Start",
                "type": "Normal",
                "reportingController": "example.com/c",
                "reportingInstance": "c-1",
                **parts,
            }
        )

    def test_a_related_object_without_members_is_not_the_absence_of_one(self) -> None:
        empty = changes(RESOURCE, self.event(), related={})
        self.assertEqual(len(empty), 1, empty)
        self.assertTrue(empty[0].startswith("related: Invalid value: {"), empty)
        self.assertEqual(
            changes(RESOURCE, self.event(related={}), related=None),
            ["related: Invalid value: null: field is immutable"],
        )
        self.assertEqual(changes(RESOURCE, self.event(related={}), related={}), [])

    def test_an_empty_message_or_count_is_the_absence_of_one(self) -> None:
        self.assertEqual(changes(RESOURCE, self.event(), message="", count=0), [])
