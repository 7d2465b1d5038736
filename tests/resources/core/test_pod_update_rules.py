"""What may not change in a pod: each rule with its text, and the change next to it that may be made."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.core.pod_update import _ordering
from tests.resources.core.test_pods import CTX, STRATEGY, after, pod, strategy_of

MIRROR, APP_ARMOR = "kubernetes.io/config.mirror", "container.apparmor.security.beta.kubernetes.io/c"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def change(old: Object, subresource: str = "", annotations: Object | None = None, **spec: Any) -> list[str]:
    """What an update is refused for; ``None`` removes a field."""

    def make(new: Object) -> None:
        if annotations is not None:
            new["metadata"]["annotations"] = annotations
        for name, value in spec.items():
            if value is None:
                new["spec"].pop(name, None)
            else:
                new["spec"][name] = value

    return after(old, make, strategy_of(subresource) if subresource else STRATEGY)[1]


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ({"a": "b"}, {"c": "d"}, ""),
        ({MIRROR: "m"}, {MIRROR: "m"}, ""),
        ({MIRROR: "m"}, {}, f"[{MIRROR}]: Forbidden: may not remove or update mirror pod annotation"),
        ({MIRROR: "m"}, {MIRROR: "n"}, f"[{MIRROR}]: Forbidden: may not remove or update mirror pod annotation"),
        ({}, {MIRROR: "m"}, f"[{MIRROR}]: Forbidden: may not add mirror pod annotation"),
        ({"a": "b", MIRROR: "m"}, {"a": "b"}, f"[{MIRROR}]: Forbidden: may not remove or update mirror pod annotation"),
        ({"a": "b"}, {"a": "b", MIRROR: "m"}, f"[{MIRROR}]: Forbidden: may not add mirror pod annotation"),
        ({APP_ARMOR: "unconfined"}, {}, f"[{APP_ARMOR}]: Forbidden: may not remove or update AppArmor annotations"),
        ({}, {APP_ARMOR: "unconfined"}, f"[{APP_ARMOR}]: Forbidden: may not add AppArmor annotations"),
    ],
)
def test_annotations(before: Object, now: Object, text: str) -> None:
    old = pod({"nodeName": "n"}, {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, annotations=before)
    assert change(old, annotations=now) == ([f"metadata.annotations{text}"] if text else [])


def test_images() -> None:
    old = pod()

    def of_image(image: str) -> list[str]:
        return change(old, containers=[{**old["spec"]["containers"][0], "image": image}])

    assert of_image("j:2") == []
    # upstream looks at the image of any pod, and at that of a changed one
    image = "spec.containers[0].image"
    assert of_image("") == [f"{image}: Required value"] * 2
    assert of_image(" j") == [f'{image}: Invalid value: " j": must not have leading or trailing whitespace'] * 2
    assert change(old, containers=[*old["spec"]["containers"], {**old["spec"]["containers"][0], "name": "d"}]) == [
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    ]


@pytest.mark.parametrize(
    ("before", "now", "texts"),
    [
        (None, 5, []),
        (5, 5, []),
        (5, 4, []),
        (5, 0, ["0: must be between 1 and 2147483647, inclusive"]),
        (None, 2147483647, []),
        (None, 2147483648, [f"2147483648: must be between {least} and 2147483647, inclusive" for least in (1, 0)]),
        (5, 6, ["6: must be less than or equal to previous value"]),
        (5, None, ["null: must not update from a positive integer to nil value"]),
        (5, -1, [f"-1: must be between {least} and 2147483647, inclusive" for least in (1, 0)]),
    ],
)
def test_deadline(before: int | None, now: int | None, texts: list[str]) -> None:
    old = pod({} if before is None else {"activeDeadlineSeconds": before})
    found = change(old, activeDeadlineSeconds=now)
    assert found == [f"spec.activeDeadlineSeconds: Invalid value: {text}" for text in texts]


def test_tolerations() -> None:
    first = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    old = pod({"tolerations": [first]})
    assert change(old, tolerations=[{**first, "tolerationSeconds": 2}, {"key": "l", "operator": "Exists"}]) == []
    text = "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    assert change(old, tolerations=[{**first, "key": "l"}]) == [text]
    assert change(old, tolerations=None) == [text]
    added = change(old, tolerations=[first, {"key": "l", "operator": "X"}])
    text = 'spec.tolerations[1].operator: Unsupported value: "X": supported values: "Equal", "Exists"'
    assert added.count(text) == 2  # as of any pod, and as of a changed one


def affinity(*terms: Object) -> Object:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expression(key: str) -> Object:
    return {"key": key, "operator": "Exists"}


TERM = {"matchExpressions": [expression("a")]}
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


class TestWhileAGateHoldsThePod:
    def test_node_selector_grows(self) -> None:
        old = pod({"schedulingGates": [{"name": "g"}], "nodeSelector": {"a": "b"}})
        assert change(old, nodeSelector={"a": "b", "c": "d"}) == []
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        assert change(old, nodeSelector={"a": "x"}) == [f'spec.nodeSelector: Invalid value: {{"a":"x"}}: {text}']
        assert change(old, nodeSelector=None) == [f"spec.nodeSelector: Invalid value: null: {text}"]

    def test_without_a_gate_it_stays(self) -> None:
        (found,) = change(pod({"nodeSelector": {"a": "b"}}), nodeSelector={"a": "b", "c": "d"})
        assert found.startswith("spec: Forbidden: pod updates may not change fields other than")

    def test_node_affinity_is_set_and_narrowed(self) -> None:
        gate = {"schedulingGates": [{"name": "g"}]}
        assert change(pod(gate), affinity=affinity(TERM)) == []
        old = pod({**gate, "affinity": affinity(TERM)})
        assert change(old, affinity=affinity({"matchExpressions": [expression("a"), expression("b")]})) == []
        fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
        assert change(old, affinity=affinity({**TERM, **fields})) == []
        only = "only additions are allowed (no mutations or deletions)"
        (found,) = change(old, affinity=affinity({"matchExpressions": [expression("b")]}))
        assert found.startswith(f"{TERMS}[0]: Invalid value: ") and found.endswith(only)
        (found,) = change(old, affinity=affinity(TERM, TERM))
        assert found.startswith(f"{TERMS}: Invalid value: ")
        assert found.endswith("no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        (found,) = change(old, affinity=None)
        assert found.endswith("no additions/deletions to non-empty NodeSelectorTerms list are allowed")

    def test_affinity_to_pods_stays(self) -> None:
        old = pod({"schedulingGates": [{"name": "g"}], "affinity": affinity(TERM)})
        more = {**affinity(TERM), "podAffinity": {REQUIRED: [{"topologyKey": "t", "labelSelector": {}}]}}
        (found,) = change(old, affinity=more)
        assert found.startswith("spec: Forbidden: pod updates may not change fields other than")


EPHEMERAL = {"name": "d", "image": "b", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}


def test_ephemeral_containers_stay_as_they_are() -> None:
    strategy = strategy_of("ephemeralcontainers")
    old, _ = after(pod(), lambda new: new["spec"].update(ephemeralContainers=[dict(EPHEMERAL)]), strategy)
    more = [EPHEMERAL, {**EPHEMERAL, "name": "e"}]
    assert change(old, "ephemeralcontainers", ephemeralContainers=more) == []
    (found,) = change(old, "ephemeralcontainers", ephemeralContainers=[{**EPHEMERAL, "image": "c"}])
    assert found.startswith(
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be changed\n'
    )
    unread = pod(annotations={"scheduler.alpha.kubernetes.io/tolerations": "["})
    (found, again) = change(unread, "ephemeralcontainers", ephemeralContainers=more)
    assert found == again and found.startswith("metadata.annotations: Invalid value: ")  # as of any pod, too
    static = pod({"nodeName": "n"}, annotations={MIRROR: "m"})
    (found,) = change(static, "ephemeralcontainers", ephemeralContainers=more)
    assert found.endswith("Forbidden: static pods do not support ephemeral containers")


class TestResize:
    def resized(self, old: Object, resources: Object, **container: Any) -> list[str]:
        return change(old, "resize", containers=[{**old["spec"]["containers"][0], "resources": resources, **container}])

    def burstable(self, spec: Object | None = None, **metadata: Any) -> Object:
        resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
        return pod(spec, {"resources": resources}, **metadata)

    def test_amounts_change_but_do_not_vanish(self) -> None:
        old = self.burstable()
        assert self.resized(old, {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}) == []
        here = "spec.containers[0].resources"
        assert f"{here}.limits: Forbidden: resource limits cannot be removed" in self.resized(
            old, {"requests": {"cpu": "1"}}
        )

    def test_containers_keep_their_names_and_number(self) -> None:
        old = self.burstable()
        (container,) = old["spec"]["containers"]
        assert "spec.containers: Forbidden: containers may not be added or removed on resize" in change(
            old, "resize", containers=[container, {**container, "name": "d"}]
        )
        assert "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize" in change(
            old, "resize", containers=[{**container, "name": "d"}]
        )

    def test_pods_that_are_not_resized(self) -> None:
        more = {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}
        (found,) = self.resized(self.burstable({"nodeName": "n"}, annotations={MIRROR: "m"}), more)
        assert found.endswith("Forbidden: static pods cannot be resized")
        (found,) = self.resized(self.burstable({"os": {"name": "windows"}}), more)
        assert found.endswith("Forbidden: windows pods cannot be resized")

    @pytest.mark.parametrize(
        ("resources", "text"),
        [
            ({"requests": {"cpu": "2", "memory": "1"}, "limits": {"cpu": "3"}}, ""),
            (None, "spec.resources: Forbidden: pod-level resources cannot be removed"),
            (
                {"limits": {"cpu": "2"}},
                "spec.resources.requests: Forbidden: pod-level resource requests cannot be removed",
            ),
            (
                {"requests": {"cpu": "1"}},
                "spec.resources.limits: Forbidden: pod-level resource limits cannot be removed",
            ),
            (
                {"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}, "limits": {"cpu": "2", "hugepages-2Mi": "2Mi"}},
                "spec: Forbidden: only cpu and memory resources are mutable at pod-level",
            ),
            (
                {"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "2"}, "claims": [{"name": "a"}]},
                "spec: Forbidden: only cpu and memory resources are mutable at pod-level",
            ),
        ],
    )
    def test_amounts_of_the_pod_change_but_do_not_vanish(self, resources: Object | None, text: str) -> None:
        old = self.burstable({"resources": {"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "2"}}})
        found = change(old, "resize", resources=resources)
        assert text in found if text else found == []

    def test_a_pod_whose_claims_have_resources_of_the_node_is_not_resized(self) -> None:
        old = self.burstable()
        old["status"]["nodeAllocatableResourceClaimStatuses"] = [{"resourceClaimName": "c"}]
        assert self.resized(old, {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}) == [
            "spec: Forbidden: pods with node allocatable resource claims cannot be resized"
        ]

    @pytest.mark.parametrize(
        ("container", "changed", "text"),
        [
            ({"restartPolicy": "Always"}, {"resources": {"requests": {"cpu": "2"}}}, ""),
            ({"restartPolicy": "Always"}, {"resources": {"requests": {"cpu": "1", "ephemeral-storage": "1"}}},
             "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable"),
            ({}, {"resources": {"requests": {"cpu": "2"}}}, ""),
            ({"restartPolicy": "Always"}, {"name": "other"},
             "spec.initContainers[0].name: Forbidden: initContainers may not be renamed or reordered on resize"),
        ],
    )  # fmt: skip
    def test_init_containers(self, container: Object, changed: Object, text: str) -> None:
        initial = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "1"}}, **container}
        old = self.burstable({"initContainers": [initial]})
        found = change(old, "resize", initContainers=[{**old["spec"]["initContainers"][0], **changed}])
        assert text in found if text else found == []

    def test_other_amounts_of_a_container_stay(self) -> None:
        old = self.burstable()
        resources = {"requests": {"cpu": "1", "ephemeral-storage": "1"}, "limits": {"cpu": "2"}}
        (found,) = self.resized(old, resources)
        assert found.startswith("spec: Forbidden: only cpu and memory resources are mutable")

    def without(self, gate: str, old: Object, **spec: Any) -> list[str]:
        """With this feature off."""
        ctx = msgspec.structs.replace(CTX, features={gate: False})
        strategy, new = strategy_of("resize"), {**tree.copy(old), "spec": {**tree.copy(old["spec"]), **spec}}
        strategy.prepare_for_update(new, old, ctx)
        return [str(error) for error in strategy.validate_update(new, old, ctx)]

    def test_amounts_of_the_pod_stay_without_their_gate(self) -> None:
        old = self.burstable({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}})
        resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}
        (found,) = self.without("InPlacePodLevelResourcesVerticalScaling", old, resources=resources)
        assert found.endswith(
            "Forbidden: resize of pods with pod-level resources is forbidden when "
            "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
        )

    def test_init_containers_stay_without_their_gate(self) -> None:
        initial = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        old = self.burstable({"initContainers": [initial]})
        changed = [{**old["spec"]["initContainers"][0], "resources": {"requests": {"cpu": "2"}}}]
        gate = "InPlacePodVerticalScalingInitContainers"
        assert "spec: Forbidden: resources for non-sidecar init containers are immutable" in self.without(
            gate, old, initContainers=changed
        )

    def test_an_init_container_that_would_have_to_run_again_is_not_resized(self) -> None:
        """A new pod can have no such policy, a stored one may."""
        policy = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}
        initial = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "1"}}, "resizePolicy": [policy]}
        old = self.burstable({"initContainers": [initial]})
        changed = [{**old["spec"]["initContainers"][0], "resources": {"requests": {"cpu": "2"}}}]
        assert change(old, "resize", initContainers=changed) == [
            "spec.initContainers[0]: Forbidden: non-sidecar init containers with a resize policy of RestartContainer cannot be "
            "resized"
        ]

    @pytest.mark.parametrize("reported", [{"cpu": "1"}, None])
    def test_the_node_reports_what_containers_have(self, reported: Object | None) -> None:
        old = self.burstable()
        entry = {"name": "c", "state": {"running": {}}}
        old["status"]["containerStatuses"] = [
            entry if reported is None else {**entry, "resources": {"requests": reported}}
        ]
        text = "spec: Forbidden: Pod running on node without support for resize"
        found = self.resized(old, {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}})
        assert found == ([text] if reported is None else [])


def test_both_kinds_of_containers_keep_their_places_in_a_resize() -> None:
    def one(*names: str) -> list[Object]:
        return [{"name": name, "image": "i"} for name in names]

    errors: list[Any] = []
    new = {"containers": one("a", "b"), "initContainers": one("y", "x", "z")}
    assert not _ordering(new, {"containers": one("a"), "initContainers": one("x", "y", "z")}, errors)
    why = "name: Forbidden: initContainers may not be renamed or reordered on resize"
    renamed = [f"spec.initContainers[{i}].{why}" for i in (0, 1)]
    assert [str(error) for error in errors] == [
        "spec.containers: Forbidden: containers may not be added or removed on resize", *renamed,
    ]  # fmt: skip
    errors.clear()
    assert _ordering(new, new, errors) and _ordering({}, {}, errors) and not errors
