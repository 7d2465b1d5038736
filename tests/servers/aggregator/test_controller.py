"""The controller of APIServices over fakes: registration at the start, conditions, and a server's disappearance."""

from __future__ import annotations

import copy

from kapi.machinery.gvk import GroupVersion
from kapi.servers.aggregator.availability import LOSSES, Target
from tests.servers.aggregator.controller_case import ControllerCase, remote


class ControllerTests(ControllerCase):
    def test_built_in_group_versions_are_registered_at_the_start(self) -> None:
        self.assertEqual(sorted(name for _, name in self.services.objects), ["v1.", "v1.apps"])
        self.assertTrue(self.controller.registered)

    def test_custom_group_versions_come_and_go(self) -> None:
        gv = GroupVersion("a.example.com", "v1")
        self.custom.append(gv)
        self.controller.custom_changed(gv)
        self.turn()
        self.assertIn(("", "v1.a.example.com"), self.services.objects)
        self.custom.clear()
        self.controller.custom_changed(gv)
        self.turn()
        self.assertNotIn(("", "v1.a.example.com"), self.services.objects)

    def test_one_of_custom_resources_that_is_deleted_comes_back(self) -> None:
        gv = GroupVersion("a.example.com", "v1")
        self.custom.append(gv)
        self.controller.custom_changed(gv)
        self.turn()
        self.services.remove("v1.a.example.com")
        self.turn()
        self.assertIn(("", "v1.a.example.com"), self.services.objects)
        self.services.remove("v1.apps")  # a built-in one does not before the next start
        self.turn()
        self.assertNotIn(("", "v1.apps"), self.services.objects)

    def test_one_of_custom_resources_that_is_changed_is_put_right(self) -> None:
        gv = GroupVersion("a.example.com", "v1")
        self.custom.append(gv)
        self.controller.custom_changed(gv)
        self.turn()
        key = ("", "v1.a.example.com")
        found = copy.deepcopy(self.services.objects[key])
        wanted = copy.deepcopy(found["spec"])
        found["spec"]["versionPriority"] = 7
        self.services.put(found)
        self.turn()
        self.assertEqual(self.services.objects[key]["spec"], wanted)

    def test_a_missing_service_is_said_and_its_coming_is_noticed(self) -> None:
        self.make_available()

    def test_one_endpoint_is_enough(self) -> None:
        self.assertEqual(self.targets(), (Target("10.1.0.1", 8443, "svc.ns.svc"),))

    def test_requests_are_spread_where_that_is_asked_for(self) -> None:
        self.controller.stop()
        self.controller = self.made(spread=True)
        self.start()
        self.assertEqual(self.targets(), tuple(Target(f"10.1.0.{i}", 8443, "svc.ns.svc") for i in (1, 3)))

    def test_a_server_that_dies_is_noticed_by_the_next_look(self) -> None:
        before, key = dict(LOSSES.rows), ("v1.a.example.com", "FailedDiscoveryCheck")
        self.make_available()
        self.backend_client.dead.add("v1.a.example.com")
        self.clock.advance(31)
        self.turn()
        self.assertEqual(self.condition()["reason"], "FailedDiscoveryCheck")
        self.assertEqual(LOSSES.rows, {**before, key: before.get(key, 0) + 1})
        self.backend_client.dead.clear()
        self.clock.advance(31)
        self.turn()
        self.assertEqual(self.condition()["status"], "True")

    def test_a_server_that_comes_back_is_available_within_a_second(self) -> None:
        """However long it was away."""
        self.make_available()
        self.backend_client.dead.add("v1.a.example.com")
        for away in (35, 300):
            self.pass_time(away)
            self.assertEqual(self.condition()["reason"], "FailedDiscoveryCheck")
        asked = len(self.backend_client.asked)
        self.pass_time(10)
        self.assertLess(len(self.backend_client.asked) - asked, 15, "it is asked all the time")
        self.backend_client.dead.clear()
        self.pass_time(1)
        self.assertEqual(self.condition()["status"], "True")
        asked = len(self.backend_client.asked)
        self.pass_time(29)
        self.assertLess(len(self.backend_client.asked) - asked, 3)

    def test_a_server_that_keeps_silent_is_asked_less_often(self) -> None:
        """Each question takes a worker for as long as it may take."""
        self.silence(1)
        self.pass_time(120)
        self.backend_client.asked.clear()
        self.pass_time(105)
        paths = [path for _, path in self.backend_client.asked]
        documents = paths.count("/apis")  # it has workers of its own
        self.assertLessEqual(documents, 4)
        self.assertLessEqual(len(paths) - documents, 4)

    def test_a_request_that_does_not_reach_it_has_it_looked_at(self) -> None:
        self.make_available()
        self.backend_client.dead.add("v1.a.example.com")
        self.controller.failed("v1.a.example.com")
        self.turn()
        self.assertEqual(self.condition()["reason"], "FailedDiscoveryCheck")
        asked = len(self.backend_client.asked)
        for _ in range(100):
            self.controller.failed("v1.a.example.com")
            self.controller.failed("v1.unknown")
            self.turn()
        self.assertEqual(len(self.backend_client.asked), asked, "that is no news")

    def test_servers_that_never_answer_do_not_make_a_custom_resource_wait(self) -> None:
        names = self.silence(6)
        self.assertEqual(len(self.backend_client.asked), 5, "as many as there are workers")
        gv = GroupVersion("new.example.com", "v1")
        self.custom.append(gv)
        self.controller.custom_changed(gv)
        self.turn()
        self.assertIn(("", "v1.new.example.com"), self.services.objects)
        for _ in range(3):
            self.clock.advance(5)
            self.turn()
        self.assertEqual({self.condition(name)["reason"] for name in names}, {"FailedDiscoveryCheck"})

    def test_one_that_answers_is_found_among_those_that_do_not(self) -> None:
        self.silence(6)
        self.services.put(remote())
        for _ in range(2):
            self.clock.advance(5)
            self.turn()
        self.assertEqual(self.condition()["status"], "True")

    def test_a_deleted_one_is_forgotten(self) -> None:
        self.make_available()
        self.services.remove("v1.a.example.com")
        self.turn()
        self.assertIsNone(self.backends.get("v1.a.example.com"))
        self.assertEqual(self.events[-1], ("DELETED", "v1.a.example.com"))

    def test_nothing_runs_after_stop(self) -> None:
        self.controller.stop()
        self.services.put(remote())
        self.turn()
        self.clock.advance(120)
        self.assertEqual(self.services.objects[("", "v1.a.example.com")]["status"], {})
