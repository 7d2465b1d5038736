"""Single plugins: what they change, what they refuse and in which words."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from kapi.admission import catalogue
from kapi.admission.chain import build_chain
from kapi.admission.interface import CREATE, DELETE, UPDATE, Attributes, Plugin
from kapi.admission.plugins import (
    always_pull_images,
    certificates,
    event_rate_limit,
    limit_ranger,
    namespaces,
    node_restriction,
    owner_references_permission_enforcement,
    pod_node_selector,
    priority,
    runtime_class,
    service_account,
    tolerations,
)
from kapi.machinery import status, tree
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo
from kapi.resources.catalogue import BUILT_IN
from tests.admission.certificates import make_request, make_unreadable_request
from tests.admission.fakes import FakeClient, FakeResource, attributes, finish, initializer, pod
from tests.admission.plugin_kit import Rules, admit, cluster, namespace, refusal


def test_every_plugin_of_the_catalogue_can_be_made_that_needs_no_configuration() -> None:
    needing = {"EventRateLimit", "ImagePolicyWebhook"}
    chain = build_chain(initializer(FakeClient(), authorizer=Rules()), enable=catalogue.PLUGINS.keys() - needing)
    assert [plugin.name for plugin in chain.plugins] == [name for name in catalogue.PLUGINS if name not in needing]


def test_a_plugin_does_nothing_to_resources_that_it_does_not_name() -> None:
    """It is not called for them, so nothing may be lost by that: every built-in resource and subresource is tried."""
    chain = build_chain(initializer(cluster()))
    limited = [plugin for plugin in chain.plugins if plugin.resources is not None]
    assert len(limited) > 10
    for row in BUILT_IN:
        for plugin in limited:
            assert plugin.resources is not None
            if row.plural in plugin.resources:
                continue
            for subresource in ("", *(sub.name for sub in row.subresources)):
                for operation in plugin.operations:
                    obj = {"metadata": {"name": "x"}, "spec": {"template": {"spec": {"hostNetwork": True}}}}
                    request = attributes(
                        tree.copy(obj), obj if operation == UPDATE else None, operation=operation, subresource=subresource,
                        group=row.group, version=row.version, resource=row.plural, kind=row.kind,
                    )  # fmt: skip
                    assert admit(plugin, request).obj == obj, (plugin.name, row.plural, subresource)
                    assert not request.warnings and not request.annotations and not request.charges


def test_an_unknown_plugin_is_refused() -> None:
    with pytest.raises(ValueError, match="Nope"):
        build_chain(initializer(), enable=["Nope"])


class TestNamespaceLifecycle:
    def test_nothing_is_made_in_a_missing_namespace(self) -> None:
        plugin = namespaces.NamespaceLifecycle(initializer())
        assert refusal(plugin, attributes(pod())) == 'namespaces "n" not found'

    def test_nothing_is_made_in_a_namespace_that_ends(self) -> None:
        ending = {
            "metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"phase": "Terminating"},
        }
        plugin = namespaces.NamespaceLifecycle(initializer(cluster(ending)))
        text = refusal(plugin, attributes(pod()))
        assert (
            text == 'pods "p" is forbidden: unable to create new content in namespace n because it is being terminated'
        )

    def test_a_store_that_is_away_is_no_missing_namespace(self) -> None:
        client = FakeClient()
        error = status.service_unavailable("the store is not available", 1)
        with patch.object(FakeResource, "get", side_effect=error):
            plugin = namespaces.NamespaceLifecycle(initializer(client))
            assert refusal(plugin, attributes(pod())) == "the store is not available"

    def test_a_deleted_namespace_is_looked_up_for_half_a_minute(self) -> None:
        """The cache may not know of its end yet, or have it from before that."""
        now = [0.0]
        client = cluster(namespace("n"), namespace("m"))
        plugin = namespaces.NamespaceLifecycle(initializer(client, monotonic=lambda: now[0]))

        def asks(name: str) -> bool:
            waiting = plugin.admit(attributes(pod(), namespace=name))
            finish(waiting)
            return waiting is not None

        assert not asks("n")
        gone = attributes(None, namespace("n"), operation=DELETE, resource="namespaces", kind="Namespace", namespace="")
        assert plugin.admit(gone) is None
        found = []
        for seconds in (0.0, 29.9, 30.0, 30.1, 30.0):
            now[0] = seconds
            found.append((asks("n"), asks("m")))
        assert found == [(True, False)] * 3 + [(False, False)] * 2

    @pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
    def test_namespaces_of_the_system_stay(self, name: str) -> None:
        plugin = namespaces.NamespaceLifecycle(initializer(cluster(namespace(name))))
        request = attributes(
            None, namespace(name), operation=DELETE, resource="namespaces", kind="Namespace", namespace=name
        )
        assert "this namespace may not be deleted" in refusal(plugin, request)


class TestServiceAccount:
    def test_a_pod_gets_the_default_account_and_its_token(self) -> None:
        client = cluster()
        client.put("", "serviceaccounts", {"metadata": {"name": "default", "namespace": "n"}})
        request = admit(service_account.ServiceAccount(initializer(client)), attributes(pod()))
        assert request.obj is not None
        spec = request.obj["spec"]
        assert spec["serviceAccountName"] == "default"
        mount = spec["containers"][0]["volumeMounts"][0]
        assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
        assert [v["name"] for v in spec["volumes"]] == [mount["name"]]
        sources = spec["volumes"][0]["projected"]["sources"]
        assert [next(iter(source)) for source in sources] == ["serviceAccountToken", "configMap", "downwardAPI"]

    def test_an_account_that_wants_no_token_gets_none(self) -> None:
        client = cluster()
        account = {"metadata": {"name": "default", "namespace": "n"}, "automountServiceAccountToken": False}
        client.put("", "serviceaccounts", account)
        request = admit(service_account.ServiceAccount(initializer(client)), attributes(pod()))
        assert request.obj is not None and "volumes" not in request.obj["spec"]


class TestLimitRanger:
    limits = {
        "metadata": {"name": "l", "namespace": "n"},
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    "default": {"cpu": "200m"},
                    "defaultRequest": {"cpu": "100m"},
                    "max": {"cpu": "1"},
                    "min": {"cpu": "50m"},
                    "maxLimitRequestRatio": {"cpu": "4"},
                }
            ]
        },
    }

    def plugin(self) -> Plugin:
        client = cluster()
        client.put("", "limitranges", self.limits)
        return limit_ranger.LimitRanger(initializer(client))

    def test_defaults(self) -> None:
        request = admit(self.plugin(), attributes(pod()))
        assert request.obj is not None
        resources = request.obj["spec"]["containers"][0]["resources"]
        assert resources == {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
        note = request.obj["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
        assert note == "LimitRanger plugin set: cpu request for container c; cpu limit for container c"

    def test_limits(self) -> None:
        wide = {"requests": {"cpu": "20m"}, "limits": {"cpu": "2"}}
        text = refusal(self.plugin(), attributes(pod(containers=[{"name": "c", "image": "i", "resources": wide}])))
        assert "minimum cpu usage per Container is 50m, but request is 20m" in text
        assert "maximum cpu usage per Container is 1, but limit is 2" in text
        assert "cpu max limit to request ratio per Container is 4, but provided ratio is 100" in text

    @pytest.mark.parametrize(
        ("limit", "requests", "limits", "texts"),
        [
            ({"min": {"cpu": "1"}}, {}, {}, ["minimum cpu usage per {} is 1.  No request is specified"]),
            ({"min": {"cpu": "1"}}, {"cpu": "999m"}, {}, ["minimum cpu usage per {} is 1, but request is 999m"]),
            ({"min": {"cpu": "1"}}, {"cpu": "1"}, {}, []),
            ({"min": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "500m"}, ["minimum cpu usage per {} is 1, but limit is 500m"]),
            ({"min": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "1"}, []),
            ({"max": {"cpu": "1"}}, {"cpu": "1"}, {}, ["maximum cpu usage per {} is 1.  No limit is specified"]),
            ({"max": {"cpu": "1"}}, {}, {"cpu": "1"}, []),
            ({"max": {"cpu": "1"}}, {}, {"cpu": "1001m"}, ["maximum cpu usage per {} is 1, but limit is 1001m"]),
            ({"max": {"cpu": "1"}}, {"cpu": "2"}, {"cpu": "1"}, ["maximum cpu usage per {} is 1, but request is 2"]),
            ({"max": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "1"}, []),
            ({"maxLimitRequestRatio": {"cpu": "2"}}, {}, {"cpu": "1"},
             ["cpu max limit to request ratio per {} is 2, but no request is specified or request is 0"]),
            ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "0"}, {"cpu": "1"},
             ["cpu max limit to request ratio per {} is 2, but no request is specified or request is 0"]),
            ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {},
             ["cpu max limit to request ratio per {} is 2, but no limit is specified or limit is 0"]),
            ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "2"}, []),
            ({"maxLimitRequestRatio": {"cpu": "1500m"}}, {"cpu": "1"}, {"cpu": "1501m"},
             ["cpu max limit to request ratio per {} is 1500m, but provided ratio is 1.501000"]),
            ({"max": {"memory": "1", "cpu": "1"}, "min": {"memory": "3", "cpu": "3"}}, {"cpu": "2", "memory": "2"},
             {"cpu": "2", "memory": "2"}, [
                "minimum cpu usage per {} is 3, but request is 2", "minimum memory usage per {} is 3, but request is 2",
                "maximum cpu usage per {} is 1, but limit is 2", "maximum memory usage per {} is 1, but limit is 2",
            ]),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("kind", ["Container", "Pod"])
    def test_each_limit(self, kind: str, limit: Object, requests: Object, limits: Object, texts: list[str]) -> None:
        client = cluster()
        spec = {"limits": [{"type": kind, **limit}, {"type": "Other", "min": {"cpu": "99"}}]}
        client.put("", "limitranges", {"metadata": {"name": "l", "namespace": "n"}, "spec": spec})
        resources = {"requests": requests, "limits": limits}
        request = attributes(pod(containers=[{"name": "c", "image": "i", "resources": resources}]))
        plugin, found = limit_ranger.LimitRanger(initializer(client)), ""
        try:
            plugin.validate(request)
        except StatusError as error:
            found = error.message.partition("is forbidden: ")[2]
        named = [text.format(kind) for text in texts]
        assert found == ("[" + ", ".join(named) + "]" if len(named) > 1 else "".join(named))

    @pytest.mark.parametrize(
        ("storage", "text"),
        [
            ("1", "minimum storage usage per PersistentVolumeClaim is 2, but request is 1"), ("2", ""), ("3", ""),
            ("4", "maximum storage usage per PersistentVolumeClaim is 3, but request is 4"),
            (None, "[minimum storage usage per PersistentVolumeClaim is 2.  No request is specified, "
             "maximum storage usage per PersistentVolumeClaim is 3.  No request is specified]"),
        ],
    )  # fmt: skip
    def test_each_limit_of_claims(self, storage: str | None, text: str) -> None:
        client = cluster()
        spec = {"limits": [{"type": "PersistentVolumeClaim", "min": {"storage": "2"}, "max": {"storage": "3"}}]}
        client.put("", "limitranges", {"metadata": {"name": "l", "namespace": "n"}, "spec": spec})
        requests = {} if storage is None else {"storage": storage}
        claim = {"metadata": {"name": "c", "namespace": "n"}, "spec": {"resources": {"requests": requests}}}
        request = attributes(claim, resource="persistentvolumeclaims", kind="PersistentVolumeClaim")
        found = "" if not text else refusal(limit_ranger.LimitRanger(initializer(client)), request)
        assert found.partition("is forbidden: ")[2] == text

    def test_changes_that_are_limited(self) -> None:
        client = cluster()
        spec = {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}
        client.put("", "limitranges", {"metadata": {"name": "l", "namespace": "n"}, "spec": spec})
        claim = {"metadata": {"name": "c", "namespace": "n"}, "spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        claims = {"resource": "persistentvolumeclaims", "kind": "PersistentVolumeClaim"}
        plugin = limit_ranger.LimitRanger(initializer(client))
        text = "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
        for operation, old in ((CREATE, None), (UPDATE, claim)):
            assert text in refusal(plugin, attributes(claim, old=old, operation=operation, **claims))
        finish(plugin.validate(attributes(claim, old=claim, operation=UPDATE, subresource="status", **claims)))
        wide = {"requests": {"cpu": "20m"}, "limits": {"cpu": "2"}}
        large = pod(containers=[{"name": "c", "image": "i", "resources": wide}])
        for subresource, limited in (("", False), ("status", False), ("resize", True)):
            changed = attributes(large, old=large, operation=UPDATE, subresource=subresource)
            if limited:
                assert "maximum cpu usage per Container is 1" in refusal(self.plugin(), changed)
            else:
                finish(self.plugin().validate(changed))

    def test_fractions_count_as_long_as_thousandths_fit_into_64_bits(self) -> None:
        client = cluster()
        spec = {"limits": [{"type": "Container", "max": {"example.com/x": "9220000000000000400m"}}]}
        client.put("", "limitranges", {"metadata": {"name": "l", "namespace": "n"}, "spec": spec})
        amount = {"example.com/x": "9220000000000000500m"}
        resources = {"requests": amount, "limits": amount}
        request = attributes(pod(containers=[{"name": "c", "image": "i", "resources": resources}]))
        text = refusal(limit_ranger.LimitRanger(initializer(client)), request)
        assert "maximum example.com/x usage per Container is" in text

    def test_the_pod_as_a_whole_has_the_defaults_of_its_containers(self) -> None:
        """Otherwise they are added when the pod is changed, and the change is refused."""
        client = cluster()
        spec = {"limits": [{"type": "Container", "default": {"hugepages-2Mi": "2Mi"}}]}
        client.put("", "limitranges", {"metadata": {"name": "l", "namespace": "n"}, "spec": spec})
        request = attributes(pod(resources={"requests": {"cpu": "1", "memory": "1Gi"}}))
        finish(limit_ranger.LimitRanger(initializer(client)).admit(request))
        assert request.obj is not None
        assert request.obj["spec"]["resources"] == {
            "requests": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"},
            "limits": {"hugepages-2Mi": "2Mi"},
        }


class TestPriority:
    def test_the_class_sets_the_number(self) -> None:
        client = cluster()
        client.put("scheduling.k8s.io", "priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
        plugin = priority.Priority(initializer(client))
        request = admit(plugin, attributes(pod(priorityClassName="high")))
        assert request.obj is not None and request.obj["spec"]["priority"] == 1000
        assert "no PriorityClass with name none was found" in refusal(plugin, attributes(pod(priorityClassName="none")))
        wrong = attributes(pod(priorityClassName="high", priority=5))
        assert "the integer value of priority (5) must not be provided in pod spec" in refusal(plugin, wrong)


class TestPodNodeSelector:
    def test_namespaces_selector_is_added_and_checked(self) -> None:
        annotations = {"scheduler.alpha.kubernetes.io/node-selector": "env=prod,zone=a"}
        client = cluster(namespace(annotations=annotations))
        configuration = {"podNodeSelectorPluginConfig": {"n": "env=prod,zone=a,disk=ssd"}}
        plugin = pod_node_selector.PodNodeSelector(initializer(client), configuration)
        request = admit(plugin, attributes(pod(nodeSelector={"disk": "ssd"})))
        assert request.obj is not None
        assert request.obj["spec"]["nodeSelector"] == {"env": "prod", "zone": "a", "disk": "ssd"}
        conflict = refusal(plugin, attributes(pod(nodeSelector={"env": "test"})))
        assert "conflicts with its namespace node label selector" in conflict
        assert "conflict with its namespace whitelist" in refusal(plugin, attributes(pod(nodeSelector={"x": "y"})))

    def test_without_a_selector_nothing_is_added_and_a_check_adds_nothing(self) -> None:
        request = admit(pod_node_selector.PodNodeSelector(initializer(cluster()), None), attributes(pod()))
        assert request.obj is not None and "nodeSelector" not in request.obj["spec"]
        configuration = {"podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": "a=b"}}
        finish(pod_node_selector.PodNodeSelector(initializer(cluster()), configuration).validate(request))
        assert "nodeSelector" not in request.obj["spec"]

    def test_default_of_the_cluster(self) -> None:
        configuration = {"podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": "a=b"}}
        request = admit(pod_node_selector.PodNodeSelector(initializer(cluster()), configuration), attributes(pod()))
        assert request.obj is not None and request.obj["spec"]["nodeSelector"] == {"a": "b"}

    @pytest.mark.parametrize(
        ("selector", "said"),
        [
            ("a", "invalid selector: [a]"),
            ("a=b=c", "invalid selector: [a b c]"),
            ("a b=c", '<nil>: Invalid value: "a b": name part must consist of'),
            ("a=b c", '[a]: Invalid value: "b c": a valid label must be'),
        ],
    )
    def test_a_selector_nobody_understands_fails_what_needs_it(self, selector: str, said: str) -> None:
        client = cluster(namespace(annotations={"scheduler.alpha.kubernetes.io/node-selector": selector}))
        with pytest.raises(StatusError) as caught:
            admit(pod_node_selector.PodNodeSelector(initializer(client), None), attributes(pod()))
        assert (caught.value.code, caught.value.message[: len(said)]) == (500, said)


class TestAlwaysPullImages:
    def test_images_are_pulled_whatever_a_pod_says(self) -> None:
        volumes = [{"name": "v", "image": {"reference": "r", "pullPolicy": "Never"}}]
        never = {"name": "c", "image": "i", "imagePullPolicy": "Never"}
        request = attributes(pod(containers=[never], initContainers=[{"name": "d", "image": "j"}], volumes=volumes))
        spec = (admit(always_pull_images.AlwaysPullImages(initializer()), request).obj or {})["spec"]
        assert [c["imagePullPolicy"] for c in (*spec["containers"], *spec["initContainers"])] == ["Always"] * 2
        assert spec["volumes"][0]["image"]["pullPolicy"] == "Always"

    def test_who_changes_that_later_is_refused_with_all_that_is_wrong(self) -> None:
        plugin = always_pull_images.AlwaysPullImages(initializer())
        one = {"name": "c", "image": "i", "imagePullPolicy": "Never"}
        wrong = 'imagePullPolicy: Unsupported value: "Never": supported values: "Always"'
        text = 'pods "p" is forbidden: spec.containers[{}].' + wrong
        for containers, said in (([one], text.format(0)), ([one, one], f"[{text.format(0)}, {text.format(1)}]")):
            with pytest.raises(StatusError) as caught:
                finish(plugin.validate(attributes(pod(containers=containers))))
            assert (caught.value.code, caught.value.reason, caught.value.message) == (500, "", said)

    def test_an_update_without_new_images_stays_as_it_is(self) -> None:
        old = pod(containers=[{"name": "c", "image": "i", "imagePullPolicy": "Never"}])
        admit(always_pull_images.AlwaysPullImages(initializer()), attributes(old, old, operation=UPDATE))
        assert old["spec"]["containers"][0]["imagePullPolicy"] == "Never"

    @pytest.mark.parametrize(("resource", "subresource"), [("pods", "ephemeralcontainers"), ("services", "")])
    def test_only_pods_themselves_are_looked_at(self, resource: str, subresource: str) -> None:
        other = pod(containers=[{"name": "c", "image": "i", "imagePullPolicy": "Never"}])
        request = attributes(other, resource=resource, subresource=subresource)
        admit(always_pull_images.AlwaysPullImages(initializer()), request)
        assert other["spec"]["containers"][0]["imagePullPolicy"] == "Never"


class TestExtendedResourceToleration:
    def test_pods_tolerate_the_nodes_that_have_what_they_ask_for(self) -> None:
        names = ("example.com/gpu", "cpu", "kubernetes.io/x", "a.kubernetes.io/x", "requests.example.com/x")
        resources = {"requests": dict.fromkeys(names, "1")}
        request = attributes(pod(containers=[{"name": "c", "image": "i", "resources": resources}]))
        spec = (admit(tolerations.ExtendedResourceToleration(initializer()), request).obj or {})["spec"]
        assert spec["tolerations"] == [{"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]

    def test_what_is_tolerated_already_is_not_repeated(self) -> None:
        resources = {"requests": {"example.com/gpu": "1"}}
        exists = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
        for own, added in ((exists, []), ({**exists, "effect": "NoExecute"}, [exists])):
            containers = [{"name": "c", "image": "i", "resources": resources}]
            request = attributes(pod(containers=containers, tolerations=[own]))
            spec = (admit(tolerations.ExtendedResourceToleration(initializer()), request).obj or {})["spec"]
            assert spec["tolerations"] == [own, *added]


class TestPodTolerationRestriction:
    def test_adds_and_restricts(self) -> None:
        annotations = {
            "scheduler.alpha.kubernetes.io/defaultTolerations": '[{"key":"a","operator":"Exists"}]',
            "scheduler.alpha.kubernetes.io/tolerationsWhitelist": '[{"key":"a","operator":"Exists"}]',
        }
        plugin = tolerations.PodTolerationRestriction(initializer(cluster(namespace(annotations=annotations))), None)
        request = admit(plugin, attributes(pod()))
        assert request.obj is not None and request.obj["spec"]["tolerations"] == [{"key": "a", "operator": "Exists"}]
        text = refusal(plugin, attributes(pod(tolerations=[{"key": "b", "operator": "Exists"}])))
        assert "conflict with its namespace whitelist" in text


class TestEventRateLimit:
    def test_a_bucket_for_each_namespace(self) -> None:
        now = [0.0]
        limits = {"limits": [{"type": "Namespace", "qps": 1, "burst": 2}]}
        plugin = event_rate_limit.EventRateLimit(initializer(monotonic=lambda: now[0]), limits)

        def event(where: str) -> Attributes:
            obj = {"metadata": {"name": "e", "namespace": where}}
            return attributes(obj, resource="events", kind="Event", namespace=where)

        admit(plugin, event("a"))
        admit(plugin, event("a"))
        assert refusal(plugin, event("a")) == "Too many requests: limit reached on type Namespace for key a"
        admit(plugin, event("b"))
        now[0] = 1.0
        admit(plugin, event("a"))


class TestRuntimeClass:
    def test_a_name_that_no_request_can_have(self) -> None:
        plugin = runtime_class.RuntimeClass(initializer(cluster()))
        assert 'RuntimeClass "none" not found' in refusal(plugin, attributes(pod(runtimeClassName="none")))
        assert refusal(plugin, attributes(pod(runtimeClassName=""))) == "resource name may not be empty"
        said = refusal(plugin, attributes(pod(runtimeClassName="a/b%")))
        assert said == "invalid resource name \"a/b%\": [may not contain '/', may not contain '%']"


class TestOwnerReferences:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "1", "blockOwnerDeletion": True}

    def changed(self) -> Attributes:
        new = pod()
        new["metadata"]["ownerReferences"] = [self.owner]
        return attributes(new, pod(), operation=UPDATE)

    def make(self, *allowed: tuple[str, str]) -> Plugin:
        return owner_references_permission_enforcement.OwnerReferencesPermissionEnforcement(
            initializer(authorizer=Rules(*allowed))
        )

    def test_rights_needed(self) -> None:
        assert refusal(self.make(), self.changed()).endswith("you can't delete: , <nil>")
        assert "you can't set finalizers on" in refusal(self.make(("delete", "pods")), self.changed())
        admit(self.make(("delete", "pods"), ("update", "deployments/finalizers")), self.changed())
        admit(self.make(("delete", "pods"), ("update", "*/finalizers")), self.changed())


@pytest.mark.parametrize("signer", ["kubernetes.io/kube-apiserver-client", "kubernetes.io/kubelet-serving"])
def test_a_signing_request_with_an_unreadable_subject_is_refused(signer: str) -> None:
    encoded = base64.b64encode(make_unreadable_request("system:node:n1")).decode()
    request = attributes(
        {"metadata": {"name": "r"}, "spec": {"signerName": signer, "request": encoded}},
        group="certificates.k8s.io", resource="certificatesigningrequests", kind="CertificateSigningRequest",
        user=UserInfo("system:node:n1", groups=("system:nodes",)),
    )  # fmt: skip
    client = signer.endswith("-client")
    made = certificates.CertificateSubjectRestriction if client else node_restriction.NodeRestriction
    assert "parse" in refusal(made(initializer()), request)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (b"", "PEM block type must be CERTIFICATE REQUEST"),
        (
            b"-----BEGIN CERTIFICATE REQUEST-----\nYWJj\n-----END CERTIFICATE REQUEST-----\n",
            "asn1: structure error: tags don't match (16 vs {class:1 tag:1 length:98 isCompound:true}) {optional:false "
            "explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false "
            "omitEmpty:false} certificateRequest @2",
        ),
    ],
)
def test_why_a_signing_request_cannot_be_read(request_: bytes, why: str) -> None:
    for signer, made, text in (
        ("kube-apiserver-client", certificates.CertificateSubjectRestriction, "failed to parse CSR: "),
        ("kubelet-serving", node_restriction.NodeRestriction, "unable to parse csr: "),
    ):
        spec = {"signerName": f"kubernetes.io/{signer}", "request": base64.b64encode(request_).decode()}
        request = attributes(
            {"metadata": {"name": "r"}, "spec": spec}, group="certificates.k8s.io",
            resource="certificatesigningrequests", kind="CertificateSigningRequest",
            user=UserInfo("system:node:n1", groups=("system:nodes",)),
        )  # fmt: skip
        assert refusal(made(initializer()), request).endswith(f" is forbidden: {text}{why}")


@pytest.mark.parametrize(
    ("signer", "allowed", "forbidden"),
    [
        ("kubernetes.io/kube-apiserver-client", ("jane", "dev"), ("jane", "system:masters")),
        ("kubernetes.io/kubelet-serving", ("system:node:n1", ""), ("system:node:n2", "")),
    ],
)
@pytest.mark.parametrize(
    "hide", [lambda pem: b"x" + pem, lambda pem: pem.replace(b"\n---", b"\n=\n---"), lambda pem: b""]
)
def test_a_signing_request_is_judged_by_what_its_signer_reads(
    signer: str, allowed: tuple[str, str], forbidden: tuple[str, str], hide: Callable[[bytes], bytes]
) -> None:
    """A signer in Go skips a block with text before it, or with broken base64."""
    pem = hide(make_request(*allowed)) + make_request(*forbidden)
    request = attributes(
        {"metadata": {"name": "r"}, "spec": {"signerName": signer, "request": base64.b64encode(pem).decode()}},
        group="certificates.k8s.io", resource="certificatesigningrequests", kind="CertificateSigningRequest",
        user=UserInfo("system:node:n1", groups=("system:nodes",)),
    )  # fmt: skip
    client = signer.endswith("-client")
    made = certificates.CertificateSubjectRestriction if client else node_restriction.NodeRestriction
    assert ("system:masters" if client else "CN=system:node:n1") in refusal(made(initializer()), request)


SIGNER = "example.com/signer"
_REQUEST: Object = {"metadata": {"name": "r"}, "spec": {"signerName": SIGNER}}
_BUNDLE: Object = {"metadata": {"name": "b"}, "spec": {"signerName": SIGNER, "trustBundle": "x"}}


@pytest.mark.parametrize(
    ("made", "verb", "text", "new", "old", "subresource"),
    [
        (certificates.CertificateApproval, "approve", "approve requests with", _REQUEST, _REQUEST, "approval"),
        (certificates.CertificateSigning, "sign", "sign requests with", {**_REQUEST, "status": {"certificate": "c"}},
         _REQUEST, "status"),
        (certificates.CertificateSigning, "sign", "sign requests with", {**_REQUEST, "status": {"conditions": [{}]}},
         _REQUEST, "status"),
        (certificates.ClusterTrustBundleAttest, "attest", "attest for", _BUNDLE, None, ""),
        (certificates.ClusterTrustBundleAttest, "attest", "attest for", {**_BUNDLE, "spec": {**_BUNDLE["spec"], "a": "b"}},
         _BUNDLE, ""),
    ],
)  # fmt: skip
def test_acting_for_a_signer_needs_its_permission(
    made: Any, verb: str, text: str, new: Object, old: Object | None, subresource: str
) -> None:
    plural = "clustertrustbundles" if verb == "attest" else "certificatesigningrequests"
    request = attributes(
        new, old, operation=CREATE if old is None else UPDATE, group="certificates.k8s.io", resource=plural,
        kind="K", subresource=subresource, namespace="",
    )  # fmt: skip
    for asked, allowed in ((verb, True), ("get", False)):
        plugin = made(initializer(cluster(), authorizer=Rules((asked, "signers"))))
        if allowed:
            finish(plugin.validate(request))
        else:
            assert refusal(plugin, request).endswith(f'user not permitted to {text} signerName "{SIGNER}"')
