"""Plugins that look at one thing: what they add, what they refuse and in which words, and what they leave alone."""

from __future__ import annotations

import inspect
import re
from typing import Any
from unittest.mock import patch

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kapi.admission.catalogue import make_plugins
from kapi.admission.interface import CREATE, DELETE, UPDATE, Attributes, Plugin
from kapi.admission.plugins import (
    always,
    default_class,
    deny_service_external_ips,
    event_rate_limit,
    namespaces,
    pod_node_selector,
    priority,
    runtime_class,
    service_account,
    storage,
    tolerations,
    topology,
)
from kapi.machinery import tree
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import (
    AlreadyExists,
    Forbidden,
    NotFound,
    StatusError,
    already_exists,
    service_unavailable,
)
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo
from tests.admission.fakes import FakeClient, FakeResource, attributes, finish, initializer, pod
from tests.admission.plugin_kit import admit, cluster, namespace, refusal

NAMESPACES = GroupResource("", "namespaces")


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

    def test_overhead_is_still_that_of_the_class_after_webhooks(self) -> None:
        for parts, overhead, text in (
            ({"overhead": self.FIXED}, {"cpu": "2"}, self.WRONG), ({"overhead": self.FIXED}, None, self.WRONG),
            ({"overhead": {}}, {"cpu": "1"}, self.WRONG), ({}, {"cpu": "1"}, self.NONE),
            ({"overhead": self.FIXED}, {"cpu": "1000m"}, ""), ({"overhead": {}}, None, ""), ({}, None, ""),
        ):  # fmt: skip
            request = attributes(pod(runtimeClassName="r", **({} if overhead is None else {"overhead": overhead})))
            if text:
                with pytest.raises(Forbidden) as caught:
                    finish(self.plugin(**parts).validate(request))
                assert caught.value.message.endswith(text)
            else:
                finish(self.plugin(**parts).validate(request))

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

    def test_a_class_that_the_cache_does_not_have_yet(self) -> None:
        client = FakeClient()
        client.put("scheduling.k8s.io", "priorityclasses", self.HIGH)
        client.resource("scheduling.k8s.io", "priorityclasses").cached = {}
        wanted = {"priorityClassName": "high", "priority": 7, "preemptionPolicy": "Never"}
        assert self.spec(priority.Priority(initializer(client)), priorityClassName="high") == wanted

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

    def test_a_debugging_container_uses_listed_ones(self) -> None:
        def request(secret: str, **more: Any) -> Attributes:
            env = [{"name": "V", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}]
            parts = {"serviceAccountName": "default", "ephemeralContainers": [{"name": "e", "env": env}], **more}
            return attributes(pod(**parts), pod(), operation=UPDATE, subresource="ephemeralcontainers")

        named = 'referencing secret.secretName="x"'
        with pytest.raises(StatusError) as caught:
            admit(self.plugin(), request("x"))
        assert (caught.value.code, caught.value.message) == (
            500,
            f"ephemeral container e with envVar V {named} {self.END}",
        )
        admit(self.plugin(), request("s"))
        admit(self.plugin("false"), request("x"))
        admit(self.plugin(), request("s", imagePullSecrets=[{"name": "x"}]))  # what was there is not looked at again
        assert refused(self.plugin(), request("s", serviceAccountName="")) == "no service account specified for pod n/p"

    def test_pull_secrets_of_the_account_are_added(self) -> None:
        request = admit(self.plugin(), attributes(pod()))
        assert request.obj is not None and request.obj["spec"]["imagePullSecrets"] == [{"name": "p"}]


class TestAccountOfAPod:
    """It is there, or comes while the pod waits."""

    def test_a_missing_one(self) -> None:
        plugin = service_account.ServiceAccount(initializer(FakeClient()))
        for name in ("a", "default"):
            text = f'error looking up service account n/{name}: serviceaccount "{name}" not found'
            assert refused(plugin, attributes(pod(serviceAccountName=name))) == text
        text = "error looking up service account n/a/b: invalid resource name \"a/b\": [may not contain '/']"
        assert refused(plugin, attributes(pod(serviceAccountName="a/b"))) == text

    def test_a_changed_pod_names_one(self) -> None:
        client = FakeClient()
        client.put("", "serviceaccounts", {"metadata": {"name": "a", "namespace": "n"}})
        plugin = service_account.ServiceAccount(initializer(client))
        with pytest.raises(StatusError) as caught:  # a webhook has taken it away
            finish(plugin.validate(attributes(pod())))
        assert caught.value.message.endswith("is forbidden: no service account specified for pod n/p")
        finish(plugin.validate(attributes(pod(serviceAccountName="a"))))
        with pytest.raises(StatusError):
            finish(plugin.validate(attributes(pod(serviceAccountName="b"))))
        finish(plugin.validate(attributes(pod(), pod(), operation=UPDATE)))
        finish(plugin.validate(attributes(pod(), subresource="binding")))

    @pytest.mark.parametrize(("made", "there"), [(0.0, True), (1.0, True), (3.0, False)])
    def test_the_default_one_may_come_later(self, made: float, there: bool) -> None:
        clock, client = Clock(), FakeClient()
        account = {"metadata": {"name": "default", "namespace": "n"}}
        clock.callLater(made, client.put, "", "serviceaccounts", account)
        request = attributes(pod())
        waiting = service_account.ServiceAccount(initializer(client, reactor=clock)).admit(request)
        assert inspect.isawaitable(waiting)

        async def wait() -> None:
            await waiting

        found: list[Any] = []
        Deferred.fromCoroutine(wait()).addBoth(found.append)
        clock.pump([0.05] * 50)
        [result] = found
        if there:
            assert result is None and request.obj is not None and request.obj["spec"]["volumes"]
        else:
            assert result.check(Forbidden)

    def test_another_one_is_not_waited_for(self) -> None:
        plugin = service_account.ServiceAccount(initializer(FakeClient(), reactor=Clock()))
        assert "not found" in refused(plugin, attributes(pod(serviceAccountName="a")))

    @pytest.mark.parametrize(
        ("of_account", "of_pod", "mounts"),
        [(None, None, True), (True, None, True), (False, None, False), (False, True, True), (True, False, False)],
    )
    def test_its_token_is_mounted_unless_one_of_both_says_no(
        self, of_account: bool | None, of_pod: bool | None, mounts: bool
    ) -> None:
        account = {"metadata": {"name": "default", "namespace": "n"}, "automountServiceAccountToken": of_account}
        plugin = service_account.ServiceAccount(having("", "serviceaccounts", account))
        request = admit(plugin, attributes(pod(automountServiceAccountToken=of_pod)))
        assert request.obj is not None
        assert ("volumes" in request.obj["spec"]) is mounts

    def test_the_token_is_mounted_where_nothing_else_is(self) -> None:
        plugin = service_account.ServiceAccount(
            having("", "serviceaccounts", {"metadata": {"name": "default", "namespace": "n"}})
        )
        own = {"name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
        data, volume = {"name": "data", "mountPath": "/data"}, {"name": "data", "emptyDir": {}}
        with_own, with_data = {"name": "c", "volumeMounts": [own]}, {"name": "d", "volumeMounts": [data]}

        def spec(**parts: Any) -> Object:
            request = admit(plugin, attributes(tree.copy(pod(**parts))))
            assert request.obj is not None
            found: Object = request.obj["spec"]
            return found

        assert "volumes" not in spec(containers=[with_own])
        found = spec(containers=[with_own], initContainers=[with_data], volumes=[volume])
        first, token = found["volumes"]
        assert first == volume and re.fullmatch("kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}", token["name"])
        assert [mount["name"] for mount in found["initContainers"][0]["volumeMounts"]] == ["data", token["name"]]
        assert found["initContainers"][0]["volumeMounts"][1]["readOnly"] is True
        given = {"name": "kube-api-access-x", "projected": {"sources": []}}
        again = spec(containers=[with_data], volumes=[volume, given])
        assert again["volumes"] == [volume, given]
        assert again["containers"][0]["volumeMounts"][1]["name"] == "kube-api-access-x"

    def test_pull_secrets_of_the_pod_stay(self) -> None:
        account = {"metadata": {"name": "a", "namespace": "n"}, "imagePullSecrets": [{"name": "p"}, {"name": ""}]}
        plugin = service_account.ServiceAccount(having("", "serviceaccounts", account))
        for given, wanted in (([{"name": "own"}], [{"name": "own"}]), ([], [{"name": "p"}])):
            request = admit(plugin, attributes(pod(serviceAccount="a", imagePullSecrets=given)))
            assert request.obj is not None and request.obj["spec"]["imagePullSecrets"] == wanted
            assert request.obj["spec"]["serviceAccountName"] == "a"


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
    for more in ({"subresource": "status"}, {"group": "example.com"}):
        kind = default_class.DefaultIngressClass if resource == "ingresses" else default_class.DefaultStorageClass
        used = {"group": group if resource == "ingresses" else "", **more}
        request = attributes({"metadata": {"name": "a"}, "spec": {}}, resource=resource, **used)
        assert admit(kind(having(group, plural, made("a", 1))), request).obj == {"metadata": {"name": "a"}, "spec": {}}
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
        tolerations.TaintNodesByCondition(),
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

    @pytest.mark.parametrize("error", [already_exists(NAMESPACES, "n"), service_unavailable("away", 1)])
    def test_another_request_may_be_faster(self, error: StatusError) -> None:
        with patch.object(FakeResource, "create", side_effect=error):
            plugin = namespaces.NamespaceAutoProvision(initializer(FakeClient()))
            if isinstance(error, AlreadyExists):
                admit(plugin, attributes(pod()))
            else:
                assert refused(plugin, attributes(pod())) == "away"

    def test_one_that_is_there_stays(self) -> None:
        client = cluster(namespace("n", labels={"a": "b"}))
        admit(namespaces.NamespaceAutoProvision(initializer(client)), attributes(pod()))
        assert client.resource("", "namespaces").objects["", "n"]["metadata"]["labels"] == {"a": "b"}

    def test_namespaces_have_none(self) -> None:
        client = FakeClient()
        request = attributes({"metadata": {"name": "n"}}, resource="namespaces", kind="Namespace", namespace="n")
        admit(namespaces.NamespaceAutoProvision(initializer(client)), request)
        assert not client.resource("", "namespaces").objects


def test_the_namespace_of_a_request_exists() -> None:
    plugin = namespaces.NamespaceExists(initializer(FakeClient()))
    for operation in (CREATE, UPDATE, DELETE):
        request = attributes(pod(), None if operation == CREATE else pod(), operation=operation)
        with pytest.raises(NotFound) as caught:
            admit(plugin, request)
        assert caught.value.message == 'namespaces "n" not found'
        admit(namespaces.NamespaceExists(initializer(cluster())), request)
    request = attributes({"metadata": {"name": "n"}}, resource="namespaces", kind="Namespace", namespace="n")
    admit(plugin, request)
    admit(plugin, attributes({"metadata": {"name": "n"}}, resource="nodes", kind="Node", namespace=""))


class TestHardAntiAffinity:
    """Pods keep each other away from nodes only, not from whole zones."""

    def request(self, *keys: str, **more: Any) -> Attributes:
        terms = [{"topologyKey": key} for key in keys]
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        return attributes(pod(affinity=affinity), **more)

    def test_is_between_nodes(self) -> None:
        plugin = topology.LimitPodHardAntiAffinityTopology()
        text = (
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname "
            "is allowed"
        )
        for keys in (("zone",), ("kubernetes.io/hostname", "zone")):
            assert refusal(plugin, self.request(*keys)) == f'pods "p" is forbidden: {text}'
        admit(plugin, self.request("kubernetes.io/hostname"))
        admit(plugin, attributes(pod()))
        admit(plugin, self.request("zone", subresource="status"))


class TestTolerationsOfNamespaces:
    """PodTolerationRestriction: those that a namespace adds, and the only ones that it allows."""

    A: Object = {"key": "a", "operator": "Exists"}
    B: Object = {"key": "b", "operator": "Exists"}
    PRESSURE: Object = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}

    def plugin(self, defaults: str | None = None, allowed: str | None = None, **configuration: Any) -> Plugin:
        given = {"defaultTolerations": defaults, "tolerationsWhitelist": allowed}
        annotations = {f"scheduler.alpha.kubernetes.io/{key}": text for key, text in given.items() if text is not None}
        made = initializer(cluster(namespace(annotations=annotations)))
        return tolerations.PodTolerationRestriction(made, configuration)

    def added(self, plugin: Plugin, **spec: Any) -> list[Object]:
        request = admit(plugin, attributes(pod(**spec)))
        assert request.obj is not None
        found: list[Object] = request.obj["spec"].get("tolerations") or []
        return found

    def test_the_namespace_comes_before_the_cluster(self) -> None:
        assert self.added(self.plugin(default=[self.B])) == [self.B]
        assert self.added(self.plugin('[{"key":"a","operator":"Exists"}]', default=[self.B])) == [self.A]
        for none in ("", "[]", "null"):
            assert self.added(self.plugin(none, default=[self.B])) == []

    def test_pods_with_requests_tolerate_nodes_that_are_short_of_memory(self) -> None:
        asking = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
        assert self.added(self.plugin(), containers=asking) == [self.PRESSURE]
        assert self.added(self.plugin()) == []

    def test_others_than_the_allowed_ones_are_refused(self) -> None:
        text = "pod tolerations (possibly merged with namespace default tolerations) conflict with its {} whitelist"
        plugin = self.plugin(whitelist=[self.A])
        assert self.added(plugin, tolerations=[self.A]) == [self.A]
        assert refusal(plugin, attributes(pod(tolerations=[self.B]))) == text.format("cluster")
        plugin = self.plugin(None, '[{"key":"a","operator":"Exists"}]', whitelist=[self.B])
        assert refusal(plugin, attributes(pod(tolerations=[self.B]))) == text.format("namespace")
        assert self.added(self.plugin(None, "[]", whitelist=[self.A]), tolerations=[self.B]) == [self.B]

    def test_an_update_is_given_no_defaults(self) -> None:
        new = pod()
        admit(self.plugin(default=[self.B]), attributes(new, pod(), operation=UPDATE))
        assert not new["spec"].get("tolerations")

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("[", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ('{"key": "a"}', "json: cannot unmarshal object into Go value of type []v1.Toleration"),
            ('["a"]', "json: cannot unmarshal string into Go value of type v1.Toleration"),
            ('[{"Key": 1}]', "json: cannot unmarshal number into Go struct field Toleration.key of type string"),
            (
                '[{"effect": true}]',
                "json: cannot unmarshal bool into Go struct field Toleration.effect of type v1.TaintEffect",
            ),
            (
                '[{"tolerationSeconds": "1"}]',
                "json: cannot unmarshal string into Go struct field Toleration.tolerationSeconds of type int64",
            ),
        ],
    )
    def test_a_broken_annotation_fails_the_request(self, text: str, why: str) -> None:
        with pytest.raises(StatusError) as caught:
            admit(self.plugin(text), attributes(pod()))
        assert caught.value.code == 500
        assert str(caught.value) == why

    @pytest.mark.parametrize("text", ['[{"KEY": "a", "operator": "Exists", "effect": null, "more": 1}]'])
    def test_an_annotation_is_read_as_go_reads_it(self, text: str) -> None:
        assert self.added(self.plugin(text)) == [self.A]
        assert self.added(self.plugin("[null]")) == [{}]

    @pytest.mark.parametrize(
        ("configuration", "why"),
        [
            (
                {"whitelist": [{"key": "foo", "operator": "Exists", "value": "bar", "effect": "NoSchedule"}]},
                'podtolerationrestriction.whitelist[0].operator: Invalid value: "bar": value must be empty when `operator` '
                "is 'Exists'",
            ),
            (
                {"default": [{"key": "a"}, {"operator": "Equal", "effect": "No"}], "whitelist": [{}]},
                'podtolerationrestriction.default[1].operator: Invalid value: "Equal": operator must be Exists when `key` '
                'is empty, which means "match all values and all keys" podtolerationrestriction.default[1].effect: '
                'Unsupported value: "No": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute" '
                'podtolerationrestriction.whitelist[0].operator: Invalid value: "": operator must be Exists when `key` is '
                'empty, which means "match all values and all keys"',
            ),
        ],
    )
    def test_a_configuration_with_tolerations_that_no_pod_may_have_is_refused(
        self, configuration: Object, why: str
    ) -> None:
        with pytest.raises(ValueError) as caught:
            self.plugin(**configuration)
        assert str(caught.value) == f"invalid config: [{why}]"

    def test_a_configuration_with_valid_tolerations_is_used(self) -> None:
        lasting = {"key": "a", "effect": "NoExecute", "tolerationSeconds": 60}
        for given in ({**lasting, "operator": "Exists"}, {**lasting, "operator": "Equal", "value": "b"}, {"key": "a"}):
            assert self.added(self.plugin(default=[given])) == [given]

    def test_without_a_namespace_there_is_no_pod(self) -> None:
        plugin = tolerations.PodTolerationRestriction(initializer(FakeClient()), None)
        assert refusal(plugin, attributes(pod())) == 'namespaces "n" not found'


def test_a_node_selector_needs_the_namespace() -> None:
    plugin = pod_node_selector.PodNodeSelector(initializer(FakeClient()), None)
    assert refusal(plugin, attributes(pod())) == "Internal error occurred: namespace n does not exist"


_TYPES = 'supported values: "Namespace", "Server", "SourceAndObject", "User"'


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (None, "limits: Invalid value: null: must not be empty"),
        ([], "limits: Invalid value: []: must not be empty"),
        ([{"type": "Server", "burst": 1}], "limits[0].qps: Invalid value: 0: must be positive"),
        ([{"type": "User", "qps": 1, "burst": -1}], "limits[0].burst: Invalid value: -1: must be positive"),
        (
            [{"type": "Namespace", "qps": 1, "burst": 1, "cacheSize": -1}],
            "limits[0].cacheSize: Invalid value: -1: must not be negative",
        ),
        (
            [{"type": "Server", "qps": 1, "burst": 1}, {"type": "server", "cacheSize": -1}],
            f'[limits[1].type: Unsupported value: "server": {_TYPES}, limits[1].burst: Invalid value: 0: must be positive, '
            "limits[1].qps: Invalid value: 0: must be positive, limits[1].cacheSize: Invalid value: -1: must not be negative]",
        ),
    ],
)
def test_all_that_is_wrong_with_limits_of_events_is_said(limits: list[Object] | None, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        event_rate_limit.EventRateLimit(initializer(), {"limits": limits})
    assert str(caught.value) == why
    with pytest.raises(ValueError, match='couldn\'t init admission plugin "EventRateLimit": ') as caught:
        make_plugins(["EventRateLimit"], initializer(), {"EventRateLimit": {"limits": limits}})


def test_the_size_of_the_one_bucket_of_a_server_does_not_matter() -> None:
    limits = [{"type": "Server", "qps": 1, "burst": 1, "cacheSize": -1}]
    event_rate_limit.EventRateLimit(initializer(), {"limits": limits})


@pytest.mark.parametrize("kind", ["User", "SourceAndObject", "Server"])
def test_events_are_limited_by_what_their_limit_says(kind: str) -> None:
    limits = {"limits": [{"type": kind, "qps": 1, "burst": 1, "cacheSize": 2}]}
    plugin = event_rate_limit.EventRateLimit(initializer(monotonic=lambda: 0.0), limits)

    def event(who: str, group: str = "", **more: Any) -> Attributes:
        obj = {"metadata": {"name": "e"}, "source": {"component": who}, "involvedObject": {"kind": "Pod", "name": "p"}}
        return attributes(obj, resource="events", group=group, kind="Event", user=UserInfo(who), **more)

    key = {"User": "a", "SourceAndObject": "aPodp", "Server": ""}[kind]
    for _ in range(3):
        admit(plugin, event("a", dry_run=True))
        admit(plugin, event("a", group="events.k8s.io"))
    admit(plugin, event("a"))
    assert refusal(plugin, event("a")) == f"Too many requests: limit reached on type {kind} for key {key}"
    if kind != "Server":
        for who in ("b", "c"):  # of more keys than fit the one that was used longest ago is forgotten
            admit(plugin, event(who))
        admit(plugin, event("a"))
