"""Plugins that look at one thing: what they add, what they refuse and in which words, and what they leave alone."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin
from kapi.admission.plugins import (
    always,
    default_class,
    deny_service_external_ips,
    namespaces,
    priority,
    runtime_class,
    service_account,
    storage,
    taint_nodes_by_condition,
    topology,
)
from kapi.machinery.tree import Object
from tests.admission.fakes import FakeClient, attributes, initializer, pod
from tests.admission.plugin_kit import admit, cluster, namespace, refusal


def refused(plugin: Plugin, request: Attributes) -> str:
    return refusal(plugin, request).partition("is forbidden: ")[2]


def having(group: str, plural: str, *objects: Object) -> Any:
    client = FakeClient()
    client.put(group, plural, *objects)
    return initializer(client)


class TestRuntimeClass:
    FIXED = {"podFixed": {"cpu": "1"}}
    WRONG = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    NONE = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"

    def plugin(self, **parts: Any) -> Plugin:
        return runtime_class.RuntimeClass(having("node.k8s.io", "runtimeclasses", {"metadata": {"name": "r"}, **parts}))

    def test_overhead_is_that_of_the_class(self) -> None:
        plugin = self.plugin(overhead=self.FIXED)
        for given in ({}, {"overhead": {"cpu": "1000m"}}):
            request = admit(plugin, attributes(pod(runtimeClassName="r", **given)))
            assert request.obj is not None and request.obj["spec"]["overhead"] == {"cpu": "1"}
        for given in ({"cpu": "2"}, {"cpu": "1", "memory": "1"}):
            assert refused(plugin, attributes(pod(runtimeClassName="r", overhead=given))) == self.WRONG

    def test_no_overhead_without_a_class_that_has_one(self) -> None:
        assert refused(self.plugin(), attributes(pod(runtimeClassName="r", overhead={"cpu": "1"}))) == self.NONE
        assert refused(self.plugin(), attributes(pod(overhead={"cpu": "1"}))) == self.NONE
        assert "overhead" not in (admit(self.plugin(), attributes(pod(runtimeClassName="r"))).obj or {})["spec"]

    def test_scheduling_is_merged(self) -> None:
        toleration = {"key": "k", "operator": "Exists"}
        plugin = self.plugin(scheduling={"nodeSelector": {"a": "b"}, "tolerations": [toleration]})
        request = admit(plugin, attributes(pod(runtimeClassName="r", nodeSelector={"c": "d"})))
        assert request.obj is not None
        assert request.obj["spec"]["nodeSelector"] == {"a": "b", "c": "d"}
        assert request.obj["spec"]["tolerations"] == [toleration]
        assert refused(plugin, attributes(pod(runtimeClassName="r", nodeSelector={"a": "x"}))) == (
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = x"
        )

    def test_a_class_that_is_missing(self) -> None:
        assert refused(self.plugin(), attributes(pod(runtimeClassName="x"))) == (
            'pod rejected: RuntimeClass "x" not found'
        )


class TestPriority:
    HIGH = {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"}

    def plugin(self, *classes: Object) -> Plugin:
        return priority.Priority(having("scheduling.k8s.io", "priorityclasses", *classes))

    def spec(self, plugin: Plugin, **given: Any) -> Object:
        request = admit(plugin, attributes(pod(**given)))
        assert request.obj is not None
        names = ("priorityClassName", "priority", "preemptionPolicy")
        return {name: request.obj["spec"][name] for name in names if name in request.obj["spec"]}

    def test_the_class_gives_priority_and_policy(self) -> None:
        wanted = {"priorityClassName": "high", "priority": 7, "preemptionPolicy": "Never"}
        assert self.spec(self.plugin(self.HIGH), priorityClassName="high") == wanted
        assert (
            self.spec(self.plugin(self.HIGH), priorityClassName="high", priority=7, preemptionPolicy="Never") == wanted
        )

    def test_without_a_class_it_is_the_least_of_the_default_ones(self) -> None:
        assert self.spec(self.plugin(self.HIGH)) == {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
        defaults = [{"metadata": {"name": f"d{value}"}, "value": value, "globalDefault": True} for value in (3, 2, 4)]
        assert self.spec(self.plugin(*defaults)) == {"priorityClassName": "d2", "priority": 2}

    def test_what_a_pod_may_not_say_itself(self) -> None:
        plugin = self.plugin(self.HIGH)
        computed = "must not be provided in pod spec; priority admission controller computed"
        assert refused(plugin, attributes(pod(priorityClassName="high", priority=8))) == (
            f"the integer value of priority (8) {computed} 7 from the given PriorityClass name"
        )
        wrong = pod(priorityClassName="high", preemptionPolicy="PreemptLowerPriority")
        assert refused(plugin, attributes(wrong)) == (
            f"the string value of PreemptionPolicy (PreemptLowerPriority) {computed} Never from the given PriorityClass name"
        )
        assert refused(plugin, attributes(pod(priorityClassName="x"))) == "no PriorityClass with name x was found"

    def test_an_update_keeps_them(self) -> None:
        old, new = pod(priority=7, preemptionPolicy="Never"), pod()
        request = admit(self.plugin(), attributes(new, old, operation=UPDATE))
        assert request.obj is not None
        assert (request.obj["spec"]["priority"], request.obj["spec"]["preemptionPolicy"]) == (7, "Never")

    def test_one_class_is_the_default(self) -> None:
        first = {"metadata": {"name": "d"}, "value": 1, "globalDefault": True}
        plugin = self.plugin(first)

        def asked(obj: Object, operation: str = CREATE) -> Attributes:
            return attributes(
                obj, obj if operation == UPDATE else None, operation=operation, namespace="", resource="priorityclasses",
                group="scheduling.k8s.io", kind="PriorityClass",
            )  # fmt: skip

        text = "PriorityClass d is already marked as default. Only one default can exist"
        assert refused(plugin, asked({**first, "metadata": {"name": "e"}})) == text
        assert refused(plugin, asked({**first, "metadata": {"name": "e"}}, UPDATE)) == text
        admit(plugin, asked(first, UPDATE))
        admit(plugin, asked({"metadata": {"name": "e"}, "value": 1}))
        admit(self.plugin(), asked(first))


class TestMountableSecrets:
    """An account may ask that its pods use no secrets but those that it lists."""

    END = "is not allowed because service account default does not reference that secret"

    def plugin(self, asks: str = "true") -> Plugin:
        account = {
            "metadata": {"name": "default", "namespace": "n", "annotations": {"kubernetes.io/enforce-mountable-secrets": asks}},
            "secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "p"}], "automountServiceAccountToken": False,
        }  # fmt: skip
        return service_account.ServiceAccount(having("", "serviceaccounts", account))

    def uses(self, secret: str, pull: str = "p") -> list[tuple[Object, str]]:
        def container(**parts: Any) -> list[Object]:
            return [{"name": "c", "image": "i", **parts}]

        env = [{"name": "V", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}]
        source = [{"secretRef": {"name": secret}}]
        named = f'referencing secret.secretName="{secret}" {self.END}'
        return [
            ({"volumes": [{"name": "v", "secret": {"secretName": secret}}]},
             f'volume with secret.secretName="{secret}" {self.END}'),
            ({"containers": container(env=env)}, f"container c with envVar V {named}"),
            ({"containers": container(envFrom=source)}, f"container c with envFrom {named}"),
            ({"initContainers": container(env=env)}, f"init container c with envVar V {named}"),
            ({"imagePullSecrets": [{"name": pull}]},
             f'imagePullSecrets[0].name="{pull}" is not allowed because service account default does not reference that '
             "imagePullSecret"),
        ]  # fmt: skip

    def test_others_are_refused(self) -> None:
        for spec, text in self.uses("x", pull="x"):
            assert refused(self.plugin(), attributes(pod(**spec))) == text
            admit(self.plugin("false"), attributes(pod(**spec)))

    def test_listed_ones_are_used(self) -> None:
        for spec, _ in self.uses("s"):
            admit(self.plugin(), attributes(pod(**spec)))

    def test_pull_secrets_of_the_account_are_added(self) -> None:
        request = admit(self.plugin(), attributes(pod()))
        assert request.obj is not None and request.obj["spec"]["imagePullSecrets"] == [{"name": "p"}]


class TestMirrorPods:
    @pytest.mark.parametrize(
        ("spec", "text"),
        [
            ({}, ""),
            ({"serviceAccountName": "a"}, "a mirror pod may not reference service accounts"),
            ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, "a mirror pod may not reference secrets"),
            ({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
             "a mirror pod may not use ServiceAccountToken volume projections"),
        ],
    )  # fmt: skip
    def test_they_use_nothing_of_the_api(self, spec: Object, text: str) -> None:
        plugin = service_account.ServiceAccount(initializer())
        mirror = pod(**spec)
        mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "m"}
        if text:
            assert refused(plugin, attributes(mirror)) == text
        else:
            admit(plugin, attributes(mirror))


def claim(size: str = "1", **more: Any) -> Object:
    spec = {"storageClassName": "c", "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": "a", "namespace": "n"}, "spec": spec, "status": {"phase": "Bound"}, **more}


class TestPersistentVolumeClaimResize:
    CLASS = {"metadata": {"name": "c"}, "allowVolumeExpansion": True}
    TEXT = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"

    def change(self, new: Object, old: Object, *classes: Object) -> tuple[Plugin, Attributes]:
        plugin = storage.PersistentVolumeClaimResize(having("storage.k8s.io", "storageclasses", *classes))
        request = attributes(
            new, old, operation=UPDATE, resource="persistentvolumeclaims", kind="PersistentVolumeClaim"
        )
        return plugin, request

    def test_a_bound_claim_grows_where_its_class_allows_it(self) -> None:
        admit(*self.change(claim("2"), claim(), self.CLASS))
        assert refused(*self.change(claim("2"), claim(status={"phase": "Pending"}), self.CLASS)) == (
            "Only bound persistent volume claims can be expanded"
        )
        assert refused(*self.change(claim("2"), claim(), {"metadata": {"name": "c"}})) == self.TEXT
        assert refused(*self.change(claim("2"), claim())) == self.TEXT
        other = claim("2")
        other["spec"]["storageClassName"] = "d"
        assert refused(*self.change(other, claim(), self.CLASS, {**self.CLASS, "metadata": {"name": "d"}})) == self.TEXT

    def test_what_does_not_grow_is_left_alone(self) -> None:
        for size in ("1", "500m"):
            admit(*self.change(claim(size), claim(status={"phase": "Pending"})))


@pytest.mark.parametrize(
    ("group", "plural", "finalizer"),
    [
        ("", "persistentvolumes", "kubernetes.io/pv-protection"),
        ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
        ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
    ],
)
def test_storage_is_protected_while_it_is_used(group: str, plural: str, finalizer: str) -> None:
    plugin = storage.StorageObjectInUseProtection()
    for before, after in (([], [finalizer]), (["x"], ["x", finalizer]), ([finalizer], [finalizer])):
        obj = {"metadata": {"name": "a", "finalizers": before}}
        request = admit(plugin, attributes(obj, resource=plural, group=group))
        assert request.obj is not None and request.obj["metadata"]["finalizers"] == after


CLASSES = (
    ("ingressclass.kubernetes.io/is-default-class", "networking.k8s.io", "ingressclasses", "ingresses", "ingressClassName"),
    ("storageclass.kubernetes.io/is-default-class", "storage.k8s.io", "storageclasses", "persistentvolumeclaims",
     "storageClassName"),
)  # fmt: skip


@pytest.mark.parametrize(("mark", "group", "plural", "resource", "field"), CLASSES)
def test_the_newest_default_class(mark: str, group: str, plural: str, resource: str, field: str) -> None:
    def made(name: str, day: int, default: str = "true") -> Object:
        return {
            "metadata": {"name": name, "creationTimestamp": f"2026-01-0{day}T00:00:00Z", "annotations": {mark: default}}
        }

    def chosen(*classes: Object, spec: Object | None = None, annotations: Object | None = None) -> str | None:
        kind = default_class.DefaultIngressClass if resource == "ingresses" else default_class.DefaultStorageClass
        obj = {"metadata": {"name": "a", "annotations": annotations or {}}, "spec": spec or {}}
        used = group if resource == "ingresses" else ""
        request = admit(kind(having(group, plural, *classes)), attributes(obj, resource=resource, group=used))
        assert request.obj is not None
        value = request.obj["spec"].get(field)
        assert value is None or isinstance(value, str)
        return value

    assert chosen(made("a", 1), made("c", 2), made("b", 2), made("d", 3, "false")) == "b"
    assert chosen(made("a", 1, "false")) is None
    assert chosen(made("a", 1), spec={field: ""}) == ""
    old = "kubernetes.io/ingress.class" if resource == "ingresses" else "volume.beta.kubernetes.io/storage-class"
    assert chosen(made("a", 1), annotations={old: "x"}) is None


def test_external_ips_of_services_are_kept_but_not_added() -> None:
    plugin = deny_service_external_ips.DenyServiceExternalIPs()

    def asked(new: list[str], old: list[str] | None = None) -> Attributes:
        def service(ips: list[str]) -> Object:
            return {"metadata": {"name": "a"}, "spec": {"externalIPs": ips}}

        return attributes(
            service(new), None if old is None else service(old), operation=CREATE if old is None else UPDATE,
            resource="services", kind="Service",
        )  # fmt: skip

    text = "Use of external IPs is denied by admission control"
    assert refused(plugin, asked(["1.2.3.4"])) == text
    assert refused(plugin, asked(["1.2.3.4", "5.6.7.8"], ["1.2.3.4"])) == text
    for new, old in (([], None), (["1.2.3.4"], ["1.2.3.4", "5.6.7.8"])):
        admit(plugin, asked(new, old))


def test_always() -> None:
    assert refused(always.AlwaysDeny(), attributes(pod())) == "admission control is denying all modifications"
    admit(always.AlwaysAdmit(), attributes(pod()))


def test_a_new_node_is_not_ready() -> None:
    plugin, taint = (
        taint_nodes_by_condition.TaintNodesByCondition(),
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    )
    for before in ([], [{"key": "k", "effect": "NoSchedule"}], [{**taint, "effect": "NoExecute"}]):
        node = {"metadata": {"name": "a"}, "spec": {"taints": before}}
        request = admit(plugin, attributes(node, resource="nodes", kind="Node", namespace=""))
        assert request.obj is not None and request.obj["spec"]["taints"] == [*before, taint]
    request = admit(plugin, attributes({"metadata": {"name": "a"}, "spec": {"taints": [taint]}}, resource="nodes"))
    assert request.obj is not None and request.obj["spec"]["taints"] == [taint]


class TestPodTopologyLabels:
    ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"

    def labels(self, obj: Object, subresource: str = "") -> Object:
        node = {"metadata": {"name": "a", "labels": {self.ZONE: "z", self.REGION: "r", "other": "o"}}}
        plugin = topology.PodTopologyLabels(having("", "nodes", node))
        request = admit(plugin, attributes(obj, subresource=subresource))
        assert request.obj is not None
        found: Object = request.obj["metadata"].get("labels") or {}
        return found

    def test_those_of_the_node_are_copied(self) -> None:
        wanted = {self.ZONE: "z", self.REGION: "r"}
        assert self.labels(pod(nodeName="a")) == wanted
        assert self.labels({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "a"}}, "binding") == wanted
        assert self.labels({"metadata": {"name": "p"}, "target": {"kind": "X", "name": "a"}}, "binding") == {}
        assert self.labels(pod()) == self.labels(pod(nodeName="b")) == self.labels(pod(nodeName="a"), "status") == {}


class TestNamespaceAutoProvision:
    def test_the_namespace_of_a_new_object_is_made(self) -> None:
        client = FakeClient()
        admit(namespaces.NamespaceAutoProvision(initializer(client)), attributes(pod(), dry_run=True))
        assert ("", "n") not in client.resource("", "namespaces").objects
        admit(namespaces.NamespaceAutoProvision(initializer(client)), attributes(pod()))
        assert ("", "n") in client.resource("", "namespaces").objects

    def test_one_that_is_there_stays(self) -> None:
        client = cluster(namespace("n", labels={"a": "b"}))
        admit(namespaces.NamespaceAutoProvision(initializer(client)), attributes(pod()))
        assert client.resource("", "namespaces").objects["", "n"]["metadata"]["labels"] == {"a": "b"}
