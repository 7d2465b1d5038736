"""The flow control configuration is made, kept where it must be, and schemas say whether they dangle."""

from __future__ import annotations

from typing import Any

import orjson
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.controllers import flowschemas
from kapi.controllers.flowschemas import GROUP, FlowSchemaController
from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.testing.memory_api import MemoryAPI


class FlowSchemas(TestCase):
    async def test_all_schemas_and_levels_are_there_and_none_dangles(self) -> None:
        api = await MemoryAPI.started()
        client = api.registry.client
        controller = FlowSchemaController(client, client, api.clock, api.environment.now)
        await controller.start()
        self.addCleanup(controller.stop)
        for _ in range(20):
            api.turn(0.1)
        schemas = await client.resource(GROUP, "flowschemas").list()
        levels = await client.resource(GROUP, "prioritylevelconfigurations").list()
        self.assertEqual((len(schemas), len(levels)), (11, 8))
        for schema in schemas:
            self.assertEqual(schema["status"]["conditions"][0]["reason"], "Found", schema["metadata"]["name"])
        names = {level["metadata"]["name"] for level in levels}
        self.assertLessEqual({schema["spec"]["priorityLevelConfiguration"]["name"] for schema in schemas}, names)
        own = {"metadata": {"name": "mine"}, "spec": {"priorityLevelConfiguration": {"name": "nope"}}}
        request = api.ask("POST", f"/apis/{GROUP}/v1/flowschemas", own)
        self.assertEqual(request.code, 201, b"".join(request.chunks))
        for _ in range(5):
            api.turn(0.1)
        answer: Object = orjson.loads(b"".join(api.ask("GET", f"/apis/{GROUP}/v1/flowschemas/mine").chunks))
        condition = answer["status"]["conditions"][0]
        self.assertEqual((condition["status"], condition["reason"]), ("True", "NotFound"))

    async def test_a_status_that_another_server_sees_otherwise_is_written_six_times_a_minute(self) -> None:
        api = await MemoryAPI.started()
        client = api.registry.client
        schemas = client.resource(GROUP, "flowschemas")
        controller = FlowSchemaController(client, client, api.clock, api.environment.now, lambda: 0.0)
        await controller.start()
        self.addCleanup(controller.stop)
        own = {"metadata": {"name": "mine"}, "spec": {"priorityLevelConfiguration": {"name": "nope"}}}
        await schemas.create(own)
        theirs = {"type": "Dangling", "status": "False", "reason": "Found", "lastTransitionTime": api.environment.now()}
        written = 0

        def fight(event: str, obj: Object, old: Object | None) -> None:
            nonlocal written
            conditions = obj.get("status", {}).get("conditions") or [theirs]
            if obj["metadata"]["name"] == "mine" and conditions[0]["status"] == "True":
                written += 1
                changed = {**obj, "status": {"conditions": [{**theirs, "message": str(written)}]}}
                Deferred.fromCoroutine(schemas.update(changed, subresource="status"))

        self.addCleanup(schemas.watch(fight))
        for _ in range(50):
            api.turn(0.1)
        self.assertEqual(written, 6)
        api.turn(24)
        self.assertEqual(written, 6)
        api.turn(1)  # half a minute is over, but not a minute
        self.assertEqual(written, 6)
        for _ in range(310):
            api.turn(0.1)
        self.assertEqual(written, 12, "after the pause they are written again")

    async def test_what_servers_kept_and_no_server_knows_any_more_goes(self) -> None:
        api = await MemoryAPI.started()
        client = api.registry.client
        levels = client.resource(GROUP, "prioritylevelconfigurations")
        spec = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
        for name, notes in (
            ("old", {flowschemas.AUTO_UPDATE: "true"}),
            ("own", {}),
            ("taken", {flowschemas.AUTO_UPDATE: "false"}),
        ):
            await levels.create({"metadata": {"name": name, "annotations": notes}, "spec": spec})
        controller = FlowSchemaController(client, client, api.clock, api.environment.now)
        await controller.start()
        self.addCleanup(controller.stop)
        api.turn(0.1)
        names = {level["metadata"]["name"] for level in await levels.list()}
        self.assertEqual(names & {"old", "own", "taken"}, {"own", "taken"})


class Corrections(TestCase):
    def wanted(self, name: str) -> tuple[Object, bool]:
        return next(pair for pair in flowschemas.desired_levels() if pair[0]["metadata"]["name"] == name)

    def existing(self, name: str, generation: int = 1, **metadata: Any) -> Object:
        found = tree.copy(self.wanted(name)[0])
        found["metadata"].update({"generation": generation, **metadata})
        return found

    def test_nothing_to_do_for_an_object_as_it_should_be(self) -> None:
        for name in ("exempt", "workload-low"):
            self.assertIsNone(flowschemas.corrected(self.existing(name), *self.wanted(name)))

    def test_an_operators_change_of_a_suggested_level_stays(self) -> None:
        level = self.existing("workload-low", 2, annotations={flowschemas.AUTO_UPDATE: "false"})
        level["spec"]["limited"]["nominalConcurrencyShares"] = 7
        self.assertIsNone(flowschemas.corrected(level, *self.wanted("workload-low")))

    def test_a_change_of_a_mandatory_level_is_undone(self) -> None:
        level = self.existing("catch-all", 2, annotations={flowschemas.AUTO_UPDATE: "false"})
        level["spec"]["limited"]["nominalConcurrencyShares"] = 7
        patch = flowschemas.corrected(level, *self.wanted("catch-all"))
        assert patch is not None
        self.assertEqual(patch["spec"]["limited"]["nominalConcurrencyShares"], 5)
        self.assertEqual(patch["metadata"]["annotations"], {flowschemas.AUTO_UPDATE: "true"})

    def test_a_changed_level_without_the_annotation_is_marked_as_the_operators(self) -> None:
        level = self.existing("workload-low", 3, annotations=None)
        level["spec"]["limited"]["nominalConcurrencyShares"] = 7
        patch = flowschemas.corrected(level, *self.wanted("workload-low"))
        self.assertEqual(patch, {"metadata": {"annotations": {flowschemas.AUTO_UPDATE: "false"}}})
