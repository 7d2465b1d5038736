"""Annotations of pods that Kubernetes itself reads: what is refused, in pods and in templates."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.apps.deployments import RESOURCE as DEPLOYMENTS
from kapi.resources.core.pods import RESOURCE as PODS
from tests.resources.strategy_kit import problems

TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_C = "container.seccomp.security.alpha.kubernetes.io/c"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/c"
MIRROR = "kubernetes.io/config.mirror"
HERE = "metadata.annotations"


def of(annotations: dict[str, str], **spec: Any) -> list[str]:
    spec = {"containers": [{"name": "c", "image": "i:1"}], **spec}
    return problems(PODS, metadata={"annotations": annotations}, spec=spec)


@pytest.mark.parametrize(
    ("annotations", "texts"),
    [
        ({COST: "-2147483648"}, []),
        ({COST: "2147483648"}, [f'{HERE}[{COST}]: Invalid value: "2147483648": must be a 32bit integer']),
        ({COST: "01"}, [f'{HERE}[{COST}]: Invalid value: "01": must be a 32bit integer']),
        ({COST: ""}, [f'{HERE}[{COST}]: Invalid value: "": must be a 32bit integer']),
        ({MIRROR: "m"}, [f'{HERE}[{MIRROR}]: Invalid value: "m": must set spec.nodeName if mirror pod annotation is set']),
        ({SECCOMP: "docker/default", SECCOMP_C: "localhost/a"}, []),
        ({SECCOMP: "x"}, [f'{HERE}.{SECCOMP}: Invalid value: "x": must be a valid seccomp profile']),
        ({SECCOMP: "localhost//a"}, [f'{HERE}.{SECCOMP}: Invalid value: "/a": must be a relative path']),
        ({SECCOMP_C: "x"}, [f'{HERE}.{SECCOMP_C}: Invalid value: "x": must be a valid seccomp profile']),
        ({APP_ARMOR: "localhost/a"}, []),
        ({APP_ARMOR: "x"}, [f'{HERE}[{APP_ARMOR}]: Invalid value: "x": invalid AppArmor profile name: "x"']),
        ({APP_ARMOR + "d": "unconfined"}, [f'{HERE}[{APP_ARMOR}d]: Invalid value: "cd": container not found']),
        ({TOLERATIONS: '[{"Key": "k", "operator": "Exists"}]'}, []),
        ({TOLERATIONS: "{}"},
         [f'{HERE}: Invalid value: "{TOLERATIONS}": json: cannot unmarshal object into Go value of type []core.Toleration']),
        ({TOLERATIONS: "[1]"},
         [f'{HERE}: Invalid value: "{TOLERATIONS}": json: cannot unmarshal number into Go value of type core.Toleration']),
        ({TOLERATIONS: '[{"key": 1}]'},
         [f'{HERE}: Invalid value: "{TOLERATIONS}": json: cannot unmarshal number into Go struct field Toleration.Key of type '
          "string"]),
        ({TOLERATIONS: '[{"key": "k", "operator": "X"}]'},
         [f'{HERE}.{TOLERATIONS}[0].operator: Unsupported value: "X": supported values: "Equal", "Exists"']),
    ],
)  # fmt: skip
def test_annotations_of_a_pod(annotations: dict[str, str], texts: list[str]) -> None:
    assert of(annotations) == texts


@pytest.mark.parametrize(
    ("annotation", "profile", "wrong"),
    [
        ("unconfined", {"type": "Unconfined"}, ""),
        ("runtime/default", {"type": "Unconfined"}, "type"),
        ("runtime/default", {"type": "RuntimeDefault"}, ""),
        ("unconfined", {"type": "RuntimeDefault"}, "type"),
        ("localhost/a", {"type": "Localhost", "localhostProfile": "a"}, ""),
        ("unconfined", {"type": "Localhost", "localhostProfile": "a"}, "type"),
        ("localhost/b", {"type": "Localhost", "localhostProfile": "a"}, "localhostProfile"),
    ],
)
def test_profiles_in_annotations_and_fields_are_the_same(annotation: str, profile: Object, wrong: str) -> None:
    def text(what: str, place: str) -> list[str]:
        said = "type" if wrong == "type" else "profile"
        return [f"spec.{place}.{wrong}: Forbidden: {what} {said} in annotation and field must match"] if wrong else []

    seccomp, app_armor = {"seccompProfile": profile}, {"appArmorProfile": profile}
    container = "containers[0].securityContext"
    assert of({SECCOMP: annotation}, securityContext=seccomp) == text("seccomp", "securityContext.seccompProfile")
    with_seccomp = [{"name": "c", "image": "i:1", "securityContext": seccomp}]
    assert of({SECCOMP_C: annotation}, containers=with_seccomp) == text("seccomp", f"{container}.seccompProfile")
    with_app_armor = [{"name": "c", "image": "i:1", "securityContext": app_armor}]
    assert of({APP_ARMOR: annotation}, containers=with_app_armor) == text("apparmor", f"{container}.appArmorProfile")


def test_annotations_of_a_template() -> None:
    def of_template(annotations: dict[str, str]) -> list[str]:
        template = {
            "metadata": {"labels": {"a": "b"}, "annotations": annotations},
            "spec": {
                "containers": [{"name": "c", "image": "i:1"}],
                "securityContext": {"seccompProfile": {"type": "Unconfined"}},
            },
        }
        return problems(DEPLOYMENTS, spec={"selector": {"matchLabels": {"a": "b"}}, "template": template})

    assert of_template({"a": "b"}) == []
    assert of_template({COST: "x"}) == [
        f'spec.template.annotations[{COST}]: Invalid value: "x": must be a 32bit integer'
    ]
    assert of_template({SECCOMP: "runtime/default"}) == [
        "spec.template.spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"
    ]
    (found,) = of_template({"a b": ""})
    assert found.startswith('spec.template.annotations: Invalid value: "a b": name part must consist of')
