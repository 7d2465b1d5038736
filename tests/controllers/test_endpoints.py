"""Services have the endpoints that their pods are: as Endpoints, as EndpointSlices, and mirrored from hand-written ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from kapi.codecs import json_pieces
from kapi.controllers.endpoints import EndpointsController, truncated
from kapi.controllers.endpointslice import EndpointSliceController
from kapi.controllers.endpointslicemirroring import EndpointSliceMirroringController
from kapi.controllers.events import CoreEventRecorder
from kapi.controllers.service_pods import CHANGED
from kapi.controllers.slices import Group, Owner, plan
from kapi.watchcache import entry
from tests.controllers.served import Object, Served

ROOT = "/api/v1/namespaces/n1"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/n1/endpointslices"


class Services(Served):
    async def begin(self) -> None:
        await super().begin()
        client, clock = self.api.registry.client, self.api.clock
        recorder = CoreEventRecorder(client, EndpointSliceMirroringController.reporter, self.api.environment.now)
        for made in (
            EndpointsController(client, clock),
            EndpointSliceController(client, clock),
            EndpointSliceMirroringController(client, clock, recorder),
        ):
            await self.run_controller(made)
        self.create("/api/v1/nodes", {"metadata": {"name": "node", "labels": {"topology.kubernetes.io/zone": "z"}}})

    def service(self, name: str = "s", *, selector: Object | None = None, **spec: Any) -> Object:
        selects = {"app": "a"} if selector is None else selector
        ports = [{"name": "http", "port": 80, "targetPort": "web"}]
        family = {
            "clusterIP": "10.0.0.9",
            "clusterIPs": ["10.0.0.9"],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
        }
        body = {"ports": ports, **family, **({"selector": selects} if selects else {}), **spec}
        return self.create(f"{ROOT}/services", {"metadata": {"name": name, "labels": {"team": "x"}}, "spec": body})

    def pod(self, name: str, ip: str = "", *, ready: bool = True, port: int = 8080, **spec: Any) -> None:
        container = {"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": port}]}
        body = {"nodeName": "node", "containers": [container], **spec}
        self.create(f"{ROOT}/pods", {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": body})
        if ip:
            self.status(name, ip, ready)

    def status(self, name: str, ip: str, ready: bool, phase: str = "Running") -> None:
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        state = {"phase": phase, "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]}
        self.patch(f"{ROOT}/pods/{name}/status", {"status": state})

    def slices(self) -> list[Object]:
        self.wait(1)
        items: list[Object] = self.get(SLICES)["items"]
        return items

    def endpoints(self, name: str = "s") -> Object:
        self.wait(1)
        return self.get(f"{ROOT}/endpoints/{name}")

    def ready(self) -> dict[str, bool]:
        """By address."""
        found = [endpoint for one in self.slices() for endpoint in one["endpoints"] or []]
        return {one["addresses"][0]: one["conditions"]["ready"] for one in found}


class Slices(Services):
    async def test_a_slice_tells_of_the_pods_that_a_service_selects(self) -> None:
        await self.begin()
        service = self.service()
        self.pod("p", "10.1.0.1", hostname="h", subdomain="s")
        self.create(
            f"{ROOT}/pods", {"metadata": {"name": "other"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        )
        [found] = self.slices()
        uid = self.get(f"{ROOT}/pods/p")["metadata"]["uid"]
        self.assertEqual(
            found["endpoints"],
            [
                {
                    "addresses": ["10.1.0.1"],
                    "conditions": {"ready": True, "serving": True, "terminating": False},
                    "hostname": "h",
                    "nodeName": "node",
                    "targetRef": {"kind": "Pod", "name": "p", "namespace": "n1", "uid": uid},
                    "zone": "z",
                }
            ],
        )
        self.assertEqual(
            (found["addressType"], found["ports"]), ("IPv4", [{"name": "http", "port": 8080, "protocol": "TCP"}])
        )
        metadata = found["metadata"]
        self.assertEqual(
            metadata["labels"],
            {
                "team": "x",
                "kubernetes.io/service-name": "s",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        )
        self.assertTrue(metadata["name"].startswith("s-"))
        [owner] = metadata["ownerReferences"]
        self.assertEqual(
            (owner["kind"], owner["uid"], owner["controller"]), ("Service", service["metadata"]["uid"], True)
        )

    async def test_a_pod_of_an_unknown_node_has_no_endpoint_until_the_node_comes(self) -> None:
        await self.begin()
        self.service()
        self.service("all", publishNotReadyAddresses=True, clusterIP="None", clusterIPs=["None"])
        self.pod("p", "10.1.0.1", nodeName="late")
        held = {one["metadata"]["labels"]["kubernetes.io/service-name"]: one["endpoints"] for one in self.slices()}
        self.assertEqual((held["s"], [one["addresses"] for one in held["all"]]), (None, [["10.1.0.1"]]))
        self.assertTrue(self.endpoints()["subsets"])
        self.create("/api/v1/nodes", {"metadata": {"name": "late"}})
        self.wait(60)
        self.assertTrue(all(one["endpoints"] for one in self.slices()))

    async def test_hints_follow_the_distribution_of_traffic(self) -> None:
        zone, node = {"forZones": [{"name": "z"}]}, {"forNodes": [{"name": "node"}]}
        await self.begin()
        self.service()
        self.pod("p", "10.1.0.1")
        self.pod("q", "10.1.0.2", ready=False)
        for distribution, marked, wanted in (
            (None, {}, None),
            ("PreferClose", {}, zone),
            ("PreferSameZone", {"service.kubernetes.io/topology-mode": "Auto"}, None),
            ("PreferSameZone", {"service.kubernetes.io/topology-mode": None}, zone),
            ("PreferSameNode", {}, {**zone, **node}),
            (None, {}, None),
        ):
            change = {"metadata": {"annotations": marked}, "spec": {"trafficDistribution": distribution}}
            self.patch(f"{ROOT}/services/s", change)
            [one] = self.slices()
            hints = {endpoint["addresses"][0]: endpoint.get("hints") for endpoint in one["endpoints"]}
            self.assertEqual(hints, {"10.1.0.1": wanted, "10.1.0.2": None})

    async def test_the_time_of_the_change_is_told(self) -> None:
        await self.begin()
        created = self.service()["metadata"]["creationTimestamp"]

        def told() -> list[str | None]:
            found = [self.endpoints(), *self.slices()]
            return [(one["metadata"].get("annotations") or {}).get(CHANGED) for one in found]

        self.assertEqual(told(), [created] * 2)
        self.wait(60)
        self.pod("p", "10.1.0.1")
        since = "2030-01-02T03:04:05Z"
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": since}
        self.patch(f"{ROOT}/pods/p/status", {"status": {"conditions": [condition]}})
        self.assertEqual(told(), [since] * 2)
        self.pod("q", "10.1.0.2", ready=False)
        self.patch(f"{ROOT}/pods/q", {"metadata": {"labels": {"app": "b"}}})
        self.wait(1)
        self.patch(f"{ROOT}/services/s", {"metadata": {"labels": {"team": "y"}}})
        self.assertEqual(told(), [None] * 2)

    async def test_ports_are_in_the_order_of_the_service(self) -> None:
        await self.begin()
        ports = [{"name": name, "port": port} for name, port in (("z", 1), ("a", 2))]
        self.service(ports=ports)
        self.pod("p", "10.1.0.1")
        [one] = self.slices()
        self.assertEqual([port["name"] for port in one["ports"]], ["z", "a"])

    async def test_a_slice_of_an_earlier_service_is_not_kept(self) -> None:
        await self.begin()
        self.service()
        self.pod("p", "10.1.0.1")
        [before] = self.slices()
        owners = [{**before["metadata"]["ownerReferences"][0], "uid": "of-another"}]
        self.patch(f"{SLICES}/{before['metadata']['name']}", {"metadata": {"ownerReferences": owners}})
        [after] = self.slices()
        self.assertNotEqual(after["metadata"]["uid"], before["metadata"]["uid"])
        self.assertEqual(after["endpoints"], before["endpoints"])

    async def test_a_service_without_pods_has_an_empty_slice(self) -> None:
        await self.begin()
        self.service()
        [found] = self.slices()
        self.assertEqual((found["endpoints"] or [], found.get("ports") or []), ([], []))

    async def test_without_a_selector_nobody_makes_anything(self) -> None:
        await self.begin()
        self.service(selector={})
        self.create(
            f"{ROOT}/services", {"metadata": {"name": "e"}, "spec": {"type": "ExternalName", "externalName": "x.y"}}
        )
        self.assertEqual(self.slices(), [])
        self.assertEqual(self.get(f"{ROOT}/endpoints")["items"], [])

    async def test_endpoints_follow_their_pods(self) -> None:
        await self.begin()
        self.service()
        for number in (1, 2, 3):
            self.pod(f"p{number}", f"10.1.0.{number}")
        self.assertEqual(self.ready(), {"10.1.0.1": True, "10.1.0.2": True, "10.1.0.3": True})
        name = self.slices()[0]["metadata"]["name"]
        self.status("p1", "10.1.0.1", False)
        self.status("p2", "10.1.0.2", False, "Failed")
        self.call("DELETE", f"{ROOT}/pods/p3", expect=200)
        self.assertEqual(self.ready(), {"10.1.0.1": False, "10.1.0.3": False})
        self.call("DELETE", f"{ROOT}/pods/p3?gracePeriodSeconds=0", expect=200)
        self.patch(f"{ROOT}/pods/p1", {"metadata": {"labels": {"app": "b"}}})
        self.assertEqual(self.ready(), {})
        self.assertEqual(len(self.slices()), 1)
        self.patch(f"{ROOT}/pods/p1", {"metadata": {"labels": {"app": "a"}}})
        self.status("p1", "10.1.0.1", True)
        self.assertEqual(self.ready(), {"10.1.0.1": True})
        self.assertTrue(name)

    async def test_pods_with_other_ports_are_in_other_slices(self) -> None:
        await self.begin()
        self.service()
        self.pod("p1", "10.1.0.1", port=1)
        self.pod("p2", "10.1.0.2", port=2)
        found = {one["ports"][0]["port"]: one["endpoints"][0]["addresses"] for one in self.slices()}
        self.assertEqual(found, {1: ["10.1.0.1"], 2: ["10.1.0.2"]})

    async def test_a_slice_that_would_go_gets_other_contents(self) -> None:
        await self.begin()
        self.service()
        self.pod("p1", "10.1.0.1")
        [before] = self.slices()
        self.patch(f"{ROOT}/services/s", {"spec": {"ports": [{"name": "other", "port": 80, "targetPort": "web"}]}})
        [after] = self.slices()
        self.assertEqual(after["metadata"]["uid"], before["metadata"]["uid"])
        self.assertEqual([port["name"] for port in after["ports"]], ["other"])

    async def test_nothing_is_written_when_nothing_changes(self) -> None:
        await self.begin()
        self.service()
        self.pod("p", "10.1.0.1")
        before, endpoints = self.slices(), self.endpoints()
        self.patch(f"{ROOT}/pods/p", {"metadata": {"annotations": {"a": "b"}}})
        self.patch(f"{ROOT}/services/s", {"metadata": {"annotations": {"a": "b"}}})
        self.assertEqual(self.slices(), before)
        self.assertEqual(self.endpoints(), endpoints)

    async def test_only_its_own_slices_and_pods_are_decoded_for_a_service(self) -> None:
        """With 2,000 Services each change of one decoded 2,000 slices, and five at a time held all of these."""
        await self.begin()
        for number in range(20):
            self.service(f"s{number}", selector={"app": f"a{number}"})
            self.create(
                f"{ROOT}/pods",
                {
                    "metadata": {"name": f"p{number}", "labels": {"app": f"a{number}"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            )
        self.assertEqual(len(self.slices()), 20)
        client = self.api.registry.client
        for group, plural in (("", "pods"), ("discovery.k8s.io", "endpointslices")):
            for one in client.resource(group, plural).lister._store.cache.list()[0]:  # type: ignore[attr-defined]
                one.forget_object()
        decoded: list[bytes] = []

        def loads(data: bytes) -> Any:
            decoded.append(data)
            return json_pieces.loads(data)

        with patch.object(entry, "json_pieces", SimpleNamespace(loads=loads)):
            self.patch(f"{ROOT}/services/s7", {"spec": {"ports": [{"name": "http", "port": 81, "targetPort": "web"}]}})
            self.wait(1)
        others = [data for data in decoded if b'"p7"' not in data and b'"s7' not in data]
        self.assertEqual(others, [])
        self.assertTrue(any(b"EndpointSlice" in data for data in decoded))

    async def test_a_slice_that_somebody_spoils_is_put_right(self) -> None:
        await self.begin()
        self.service()
        self.pod("p", "10.1.0.1")
        [found] = self.slices()
        self.patch(f"{SLICES}/{found['metadata']['name']}", {"endpoints": []})
        self.assertEqual(self.ready(), {"10.1.0.1": True})
        self.call("DELETE", f"{SLICES}/{found['metadata']['name']}", expect=200)
        self.assertEqual(self.ready(), {"10.1.0.1": True})


class TheOlderForm(Services):
    async def test_endpoints_tell_who_is_ready(self) -> None:
        await self.begin()
        self.service()
        self.pod("p2", "10.1.0.2")
        self.pod("p1", "10.1.0.1")
        self.pod("p3", "10.1.0.3", ready=False)
        self.pod("none")
        found = self.endpoints()
        [subset] = found["subsets"]
        self.assertEqual([one["ip"] for one in subset["addresses"]], ["10.1.0.1", "10.1.0.2"])
        self.assertEqual([one["ip"] for one in subset["notReadyAddresses"]], ["10.1.0.3"])
        self.assertEqual(subset["ports"], [{"name": "http", "port": 8080, "protocol": "TCP"}])
        self.assertEqual(subset["addresses"][0]["targetRef"]["name"], "p1")
        self.assertEqual(
            found["metadata"]["labels"], {"team": "x", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        )
        self.assertEqual(len(self.slices()), 1)  # these are not mirrored

    async def test_without_pods_there_are_no_subsets(self) -> None:
        """As a client in Go sends it: an empty list is left out, and nobody owns it."""
        await self.begin()
        self.service()
        found = self.endpoints()
        self.assertNotIn("subsets", found)
        self.assertNotIn("f:subsets", found["metadata"]["managedFields"][0]["fieldsV1"])
        self.pod("p", "10.1.0.1")
        self.assertIn("subsets", self.endpoints())
        self.delete(f"{ROOT}/pods/p?gracePeriodSeconds=0")
        self.assertNotIn("subsets", self.endpoints())

    async def test_a_headless_service_may_tell_of_those_that_are_not_ready(self) -> None:
        await self.begin()
        headless = {"clusterIP": "None", "clusterIPs": ["None"], "ports": None, "publishNotReadyAddresses": True}
        self.service(**headless)
        self.pod("p", "10.1.0.1", ready=False)
        found = self.endpoints()
        self.assertEqual([one["ip"] for one in found["subsets"][0]["addresses"]], ["10.1.0.1"])
        self.assertEqual(found["metadata"]["labels"]["service.kubernetes.io/headless"], "")
        self.assertEqual(self.slices()[0]["metadata"]["labels"]["service.kubernetes.io/headless"], "")
        self.assertEqual(self.ready(), {"10.1.0.1": True})

    def test_more_than_a_thousand_are_not_told(self) -> None:
        ready = [{"ip": str(number)} for number in range(700)]
        found = [{"notReadyAddresses": ready, "ports": [1]}, {"addresses": ready, "ports": [2]}]
        kept, left_out = truncated(found)
        self.assertTrue(left_out)
        self.assertEqual([len(kept[0]["notReadyAddresses"]), len(kept[1]["addresses"])], [300, 700])
        self.assertEqual(truncated(found[:1]), (found[:1], False))

    def test_each_subset_has_its_share_of_a_thousand(self) -> None:
        for counts, wanted in (
            ([(501, 0), (500, 0)], [(501, 0), (499, 0)]),
            ([(501, 9), (501, 0)], [(500, 0), (500, 0)]),
            ([(200, 500), (200, 700)], [(200, 250), (200, 350)]),
            ([(999, 0), (0, 4)], [(999, 0), (0, 1)]),
            ([(1001, 0), (0, 4)], [(1000, 0)]),
        ):
            found = [
                {"addresses": [{"ip": "1"}] * ready, "notReadyAddresses": [{"ip": "1"}] * others, "ports": [1]}
                for ready, others in counts
            ]
            kept, left_out = truncated(found)
            self.assertTrue(left_out)
            lengths = [(len(one.get("addresses", [])), len(one.get("notReadyAddresses", []))) for one in kept]
            self.assertEqual(lengths, wanted)


class Mirroring(Services):
    async def test_endpoints_of_a_service_without_selector_are_mirrored(self) -> None:
        await self.begin()
        self.service(selector={})
        subset: Object = {
            "addresses": [{"ip": "1.2.3.4", "hostname": "h"}, {"ip": "fd00::1"}],
            "notReadyAddresses": [{"ip": "1.2.3.5"}],
            "ports": [{"port": 90}],
        }
        metadata = {"name": "s", "labels": {"l": "1"}, "annotations": {"a": "2"}}
        made = self.create(f"{ROOT}/endpoints", {"metadata": metadata, "subsets": [subset]})
        found = {one["addressType"]: one for one in self.slices()}
        self.assertEqual(set(found), {"IPv4", "IPv6"})
        self.assertEqual(self.ready(), {"1.2.3.4": True, "1.2.3.5": False, "fd00::1": True})
        one = found["IPv4"]["metadata"]
        self.assertEqual((one["labels"]["l"], one["annotations"]["a"]), ("1", "2"))
        self.assertEqual(
            one["labels"]["endpointslice.kubernetes.io/managed-by"], "endpointslicemirroring-controller.k8s.io"
        )
        self.assertEqual(one["ownerReferences"][0]["uid"], made["metadata"]["uid"])
        self.assertEqual(found["IPv4"]["ports"], [{"name": "", "port": 90, "protocol": "TCP"}])
        self.patch(f"{ROOT}/endpoints/s", {"subsets": [{**subset, "addresses": [{"ip": "1.2.3.6"}]}]})
        self.assertEqual(self.ready(), {"1.2.3.6": True, "1.2.3.5": False})
        self.patch(f"{ROOT}/endpoints/s", {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}})
        self.assertEqual(self.slices(), [])

    async def test_what_is_no_services_is_not_mirrored(self) -> None:
        await self.begin()
        subset = {"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 90}]}
        self.create(f"{ROOT}/endpoints", {"metadata": {"name": "alone"}, "subsets": [subset]})
        self.assertEqual(self.slices(), [])

    async def test_too_many_addresses_are_told_in_an_event(self) -> None:
        await self.begin()
        self.service(selector={})
        addresses = [{"ip": f"10.{number >> 8}.{number & 255}.1"} for number in range(1003)]
        subset = {"addresses": addresses[3:], "notReadyAddresses": addresses[:3], "ports": [{"port": 90}]}
        self.create(f"{ROOT}/endpoints", {"metadata": {"name": "s"}, "subsets": [subset]})
        [one] = self.slices()
        self.assertEqual(len(one["endpoints"]), 1000)
        [event] = self.get(f"{ROOT}/events")["items"]
        self.assertEqual(
            (event["reason"], event["type"], event["message"], event["source"]["component"], event["involvedObject"]["kind"]),
            (
                "TooManyAddressesToMirror",
                "Warning",
                "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 3 addresses were skipped",
                "endpoint-slice-mirroring-controller",
                "Endpoints",
            ),
        )  # fmt: skip


def test_a_slice_gets_the_contents_of_a_new_one_of_its_family() -> None:
    owner = Owner("Service", "s", "0", {}, {}, "m", False, lambda endpoint: str(endpoint["addresses"][0]), 100)

    def state(port: int) -> dict[Group, list[Object]]:
        found = (("IPv4", "10.0.0.1"), ("IPv6", "fd00::1"))
        return {Group.of(family, [{"name": "", "port": port}]): [{"addresses": [one]}] for family, one in found}

    made = plan(owner, state(1), [])
    slices = [{**one, "metadata": {**one["metadata"], "name": one["addressType"]}} for one in made.create]
    for existing in (slices, slices[::-1]):
        made = plan(owner, state(2), existing)
        assert (made.create, made.delete) == ([], [])
        assert {one["metadata"]["name"]: one["addressType"] for one in made.update} == {"IPv4": "IPv4", "IPv6": "IPv6"}


names = st.integers(0, 30).map(lambda number: f"10.0.0.{number}")
groups = st.sampled_from([Group.of("IPv4", [{"name": "", "port": port}]) for port in (1, 2)])
changes = st.lists(st.dictionaries(groups, st.sets(names, max_size=25), max_size=2), max_size=6)


@given(changes, st.integers(1, 7))
def test_slices_hold_what_is_wanted_and_no_more_of_them_than_needed(
    wanted: list[dict[Group, set[str]]], limit: int
) -> None:
    owner = Owner("Service", "s", "0", {}, {}, "m", False, lambda endpoint: str(endpoint["addresses"][0]), limit)
    slices: dict[str, Object] = {}
    numbers = iter(range(10_000))
    for state in wanted:
        endpoints = {group: [{"addresses": [name]} for name in sorted(found)] for group, found in state.items()}
        made = plan(owner, endpoints, list(slices.values()))
        for one in made.delete:
            del slices[one["metadata"]["name"]]
        for one in made.update:
            assert slices[one["metadata"]["name"]] != one
            slices[one["metadata"]["name"]] = one
        for one in made.create:
            name = str(next(numbers))
            slices[name] = {**one, "metadata": {**one["metadata"], "name": name}}
        for group, found in state.items():
            own = [one for one in slices.values() if Group.of(one["addressType"], one["ports"]) == group]
            held = [endpoint["addresses"][0] for one in own for endpoint in one["endpoints"]]
            assert sorted(held) == sorted(found)
            assert all(len(one["endpoints"]) <= limit for one in own)
            assert len(own) <= max(1, len(found))
        assert len(slices) >= len(state)
        again = plan(owner, endpoints, list(slices.values()))
        assert (again.create, again.update, again.delete) == ([], [], [])
