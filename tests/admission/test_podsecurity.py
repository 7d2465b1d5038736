"""Pod Security: every control of every version that changed it, exemptions, templates, and namespaces that get stricter."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from kapi.admission.interface import UPDATE, Attributes, Plugin
from kapi.admission.metrics import Meter
from kapi.admission.podsecurity import plugin as podsecurity
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo
from tests.admission.fakes import FakeClient, attributes, finish, initializer, pod
from tests.admission.podsecurity_kit import container

PREFIX = "pod-security.kubernetes.io/"


class Cluster:
    def __init__(self, configuration: Object | None = None, **labels: str) -> None:
        self.client = FakeClient()
        named = {PREFIX + key.replace("_", "-"): value for key, value in labels.items()}
        self.namespace = {"metadata": {"name": "n", "labels": named}}
        self.client.put("", "namespaces", self.namespace)
        self.meter = Meter(CollectorRegistry())
        self.plugin: Plugin = podsecurity.PodSecurity(initializer(self.client, meter=self.meter), configuration)

    def ask(self, request: Attributes) -> Attributes:
        finish(self.plugin.validate(request))
        return request

    def refused(self, request: Attributes) -> str:
        with pytest.raises(StatusError) as caught:
            self.ask(request)
        assert caught.value.code in (403, 422, 500)
        return caught.value.message

    def relabel(self, **labels: str) -> Attributes:
        new = {"metadata": {"name": "n", "labels": {PREFIX + k.replace("_", "-"): v for k, v in labels.items()}}}
        request = attributes(new, self.namespace, operation=UPDATE, resource="namespaces", kind="Namespace")
        return self.ask(request)


BAD = pod(containers=[container(privileged=True)])
SAID = 'privileged (container "c" must not set securityContext.privileged=true)'


def test_what_enforce_refuses_is_told_and_recorded() -> None:
    cluster = Cluster(enforce="baseline", enforce_version="v1.30")
    request = attributes(BAD)
    assert cluster.refused(request) == f'pods "p" is forbidden: violates PodSecurity "baseline:v1.30": {SAID}'
    assert request.annotations[PREFIX + "enforce-policy"] == "baseline:v1.30"
    assert request.warnings == []


def test_what_is_evaluated_exempted_and_misunderstood_is_counted() -> None:
    cluster = Cluster({"exemptions": {"usernames": ["free"]}}, enforce="baseline", enforce_version="v1.99", warn="x")
    pods = {("allow", "privileged", "latest", "enforce", operation, "pod", ""): 0 for operation in ("create", "update")}
    exempt = {(operation, kind, ""): 0 for operation in ("create", "update") for kind in ("pod", "controller")}
    assert (cluster.meter.pod_evaluations.rows, cluster.meter.pod_exemptions.rows) == (pods, exempt)
    cluster.refused(attributes(BAD))
    cluster.ask(attributes(pod(), pod(), subresource="resize", operation=UPDATE))  # not significant
    cluster.ask(attributes(BAD, user=UserInfo("free")))
    denied = {("deny", "baseline", "future", "enforce", "create", "pod", ""): 1}
    assert cluster.meter.pod_evaluations.rows == {**pods, **denied}
    assert cluster.meter.pod_exemptions.rows == {**exempt, ("create", "pod", ""): 1}
    assert cluster.meter.pod_errors.rows == {("false", "create", "pod", ""): 1}


@pytest.mark.parametrize("free", [False, True])
def test_each_mode_is_counted(free: bool) -> None:
    """Of audit and warnings only what violates them; of exempted users nothing."""
    cluster = Cluster({"exemptions": {"usernames": ["free"]}}, enforce="privileged", audit="baseline", warn="restricted",
                      audit_version="v1.20", warn_version="v1.35")  # fmt: skip
    for obj in (BAD, pod()):
        cluster.ask(attributes(obj, user=UserInfo("free" if free else "other")))
    labels = ("create", "pod", "")
    found = {key: count for key, count in cluster.meter.pod_evaluations.rows.items() if count}
    assert found == ({} if free else {
        ("allow", "privileged", "latest", "enforce", *labels): 2,
        ("deny", "baseline", "v1.20", "audit", *labels): 1,
        ("deny", "restricted", "v1.35", "warn", *labels): 2,
    })  # fmt: skip


def test_a_policy_that_refuses_nothing_has_no_version() -> None:
    request = Cluster(enforce="privileged", enforce_version="v1.20").ask(attributes(BAD))
    assert request.annotations == {PREFIX + "enforce-policy": "privileged:latest"}
    request = Cluster(enforce="privileged", enforce_version="v1.20", warn="baseline").ask(attributes(pod()))
    assert request.annotations == {PREFIX + "enforce-policy": "privileged:v1.20"}
    request = Cluster(enforce="privileged", enforce_version="x").ask(attributes(pod()))
    assert request.annotations[PREFIX + "error"].startswith("Failed to parse policy: ")


def test_audit_and_warn_let_pass() -> None:
    request = Cluster(audit="baseline", warn="restricted").ask(attributes(BAD))
    assert request.annotations[PREFIX + "audit-violations"] == f'would violate PodSecurity "baseline:latest": {SAID}'
    assert request.warnings[0].startswith('would violate PodSecurity "restricted:latest": privileged')


def test_who_enforces_is_warned_of_the_same_by_templates() -> None:
    template = {"metadata": {}, "spec": BAD["spec"]}
    deployment = {"metadata": {"name": "d", "namespace": "n"}, "spec": {"template": template}}
    request = attributes(deployment, group="apps", resource="deployments", kind="Deployment")
    assert Cluster(enforce="baseline").ask(request).warnings == [f'would violate PodSecurity "baseline:latest": {SAID}']


@pytest.mark.parametrize(
    ("group", "resource", "path"),
    [
        ("", "replicationcontrollers", ("spec", "template")),
        ("", "podtemplates", ("template",)),
        ("apps", "replicasets", ("spec", "template")),
        ("apps", "statefulsets", ("spec", "template")),
        ("apps", "daemonsets", ("spec", "template")),
        ("batch", "jobs", ("spec", "template")),
        ("batch", "cronjobs", ("spec", "jobTemplate", "spec", "template")),
    ],
)
def test_templates_of_all_controllers(group: str, resource: str, path: tuple[str, ...]) -> None:
    inner: Object = {"spec": BAD["spec"]}
    for key in reversed(path):
        inner = {key: inner}
    request = attributes({"metadata": {"name": "x", "namespace": "n"}, **inner}, group=group, resource=resource)
    assert Cluster(warn="baseline").ask(request).warnings


def test_other_resources_and_subresources_are_free() -> None:
    cluster = Cluster(enforce="restricted")
    for request in (
        attributes(BAD, subresource="status", operation=UPDATE),
        attributes(BAD, subresource="eviction"),
        attributes({"metadata": {"name": "s"}, "spec": BAD["spec"]}, resource="services", kind="Service"),
        attributes({"metadata": {"name": "d"}, "spec": {}}, group="apps", resource="deployments", subresource="scale"),
    ):
        assert cluster.ask(request).warnings == []


def test_updates_count_when_they_change_images_or_containers() -> None:
    cluster = Cluster(enforce="baseline")
    labelled = {**BAD, "metadata": {**BAD["metadata"], "labels": {"a": "b"}}}
    cluster.ask(attributes(labelled, BAD, operation=UPDATE))
    newer = pod(containers=[{**container(privileged=True), "image": "other"}])
    assert "violates" in cluster.refused(attributes(newer, BAD, operation=UPDATE))
    debugged = pod(containers=BAD["spec"]["containers"], ephemeralContainers=[container("e", privileged=True)])
    request = attributes(debugged, BAD, operation=UPDATE, subresource="ephemeralcontainers")
    assert '"c", "e"' in cluster.refused(request)


@pytest.mark.parametrize(
    ("exemptions", "which"),
    [
        ({"namespaces": ["n"]}, "namespace"),
        ({"usernames": ["someone"]}, "user"),
        ({"runtimeClasses": ["sandbox"]}, "runtimeClass"),
    ],
)
def test_exemptions(exemptions: Object, which: str) -> None:
    cluster = Cluster({"exemptions": exemptions}, enforce="restricted")
    exempt = pod(containers=[container(privileged=True)], runtimeClassName="sandbox")
    request = cluster.ask(attributes(exempt))
    assert request.annotations[PREFIX + "exempt"] == which
    stranger = attributes(BAD, user=UserInfo("other"))
    if which == "namespace":
        cluster.ask(stranger)
    else:
        cluster.refused(stranger)


def test_defaults_hold_where_labels_say_nothing() -> None:
    cluster = Cluster({"defaults": {"enforce": "baseline", "enforce-version": "v1.20"}})
    assert 'PodSecurity "baseline:v1.20"' in cluster.refused(attributes(BAD))


def test_a_label_nobody_understands_is_as_strict_as_can_be() -> None:
    cluster = Cluster(enforce="nonsense")
    request = attributes(BAD)
    assert 'violates PodSecurity "restricted:latest"' in cluster.refused(request)
    assert "Failed to parse policy: " in request.annotations[PREFIX + "error"]


@pytest.mark.parametrize("labels", [{"enforce": "x"}, {"warn_version": "1.2"}, {"audit_version": "v1.02"}])
def test_a_namespace_cannot_get_labels_nobody_understands(labels: dict[str, str]) -> None:
    cluster = Cluster()
    with pytest.raises(StatusError) as caught:
        cluster.relabel(**labels)
    assert caught.value.code == 422
    new = {
        "metadata": {"name": "n", "labels": {PREFIX + key.replace("_", "-"): value for key, value in labels.items()}}
    }
    with pytest.raises(StatusError) as caught:
        cluster.ask(attributes(new, resource="namespaces", kind="Namespace"))
    assert caught.value.code == 422
    stuck = Cluster(**labels)
    assert stuck.relabel(**labels).warnings == []


def test_a_stricter_namespace_warns_of_its_pods() -> None:
    cluster = Cluster()
    owned = {"ownerReferences": [{"uid": "u", "controller": True}]}
    for name, holder in (("b", container(privileged=True)), ("a", container(privileged=True)), ("ok", container())):
        cluster.client.put("", "pods", pod(name, containers=[holder]))
    replica = pod("c", containers=[container(privileged=True)])
    replica["metadata"] |= owned
    cluster.client.put("", "pods", replica)
    assert cluster.relabel(enforce="baseline").warnings == [
        'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 2 other pods): privileged",
    ]
    assert cluster.relabel(audit="restricted", warn="restricted").warnings == []


def test_a_look_at_running_pods_ends_after_a_second() -> None:
    cluster = Cluster()
    times = iter(range(100))
    cluster.plugin.initializer.monotonic = lambda: next(times)  # type: ignore[attr-defined]
    for name in "abc":
        cluster.client.put("", "pods", pod(name, containers=[container(privileged=True)]))
    assert cluster.relabel(enforce="baseline").warnings == [
        "new PodSecurity enforce level only checked against the first 2 of 3 existing pods",
        'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 1 other pod): privileged",
    ]


@pytest.mark.parametrize(
    "owners", [None, [{"uid": "u"}], [{"uid": "u", "controller": False}, {"uid": "v", "controller": True}]], ids=str
)
def test_pods_without_a_controller_and_one_of_each_are_looked_at_first(owners: list[Object] | None) -> None:
    cluster = Cluster({"exemptions": {"runtimeClasses": ["free"]}})
    times = iter(range(100))
    cluster.plugin.initializer.monotonic = lambda: next(times)  # type: ignore[attr-defined]
    controller = {"uid": "u", "controller": True}
    for name, above, spec in (
        ("a", None, {"runtimeClassName": "free"}),
        ("b", [{"uid": "v"}, controller], {}),
        ("c", [{"uid": "w"}, controller], {}),
        ("d", owners, {"hostPID": True}),
    ):
        made = pod(name, containers=[container(privileged=True)], **spec)
        made["metadata"]["ownerReferences"] = above
        cluster.client.put("", "pods", made)
    assert cluster.relabel(enforce="baseline").warnings == [
        "new PodSecurity enforce level only checked against the first 2 of 3 existing pods",
        'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"',
        "b: privileged",
        "d: host namespaces, privileged",
    ]


def test_without_their_namespace_pods_are_refused_and_templates_let_pass() -> None:
    cluster = Cluster()
    cluster.client.resource("", "namespaces").objects.clear()
    request, text = attributes(BAD), 'Internal error occurred: failed to lookup namespace "n"'
    assert cluster.refused(request) == text
    assert request.annotations == {f"{PREFIX}error": f'{text}: namespaces "n" not found'}
    assert cluster.meter.pod_errors.rows == {("true", "create", "pod", ""): 1}
    template = {"spec": {"template": {"spec": BAD["spec"]}}}
    request = attributes(template, group="apps", resource="deployments", kind="Deployment")
    assert cluster.ask(request).annotations == {
        f"{PREFIX}error": 'failed to lookup namespace "n": namespaces "n" not found'
    }


def test_a_namespace_that_gets_more_lenient_is_not_looked_at() -> None:
    cluster = Cluster(enforce="restricted")
    cluster.client.put("", "pods", BAD)
    assert cluster.relabel(enforce="baseline").warnings == []
    assert cluster.relabel(enforce="privileged").warnings == []
    assert cluster.relabel(enforce="restricted", enforce_version="v1.20").warnings


def test_labels_of_an_exempt_namespace_are_of_no_use() -> None:
    cluster = Cluster({"exemptions": {"namespaces": ["n"]}})
    assert cluster.relabel(enforce="baseline", warn="restricted").warnings == [
        'namespace "n" is exempt from Pod Security, and the policy (enforce=baseline:latest, warn=restricted:latest) will be ignored'  # noqa: E501
    ]
