"""AppArmor profiles of the deprecated annotations, which become fields."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kapi.machinery.tree import Object
from kapi.resources.core.pods import RESOURCE
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.resources.strategy_kit import CTX, made

KEY = "container.apparmor.security.beta.kubernetes.io/c"
DEFAULT: Object = {"type": "RuntimeDefault"}
LOCAL: Object = {"type": "Localhost", "localhostProfile": "p"}
WARNING = f'metadata.annotations[{KEY}]: deprecated since v1.30; use the "appArmorProfile" field instead'


@pytest.mark.parametrize(
    ("annotation", "whole", "own", "spec", "profile", "warned"),
    [
        ("runtime/default", None, None, {}, DEFAULT, True),
        ("unconfined", None, None, {}, {"type": "Unconfined"}, True),
        ("localhost/p", None, None, {}, LOCAL, True),
        ("localhost/", None, None, {}, None, True),
        ("localhost/ p", None, None, {}, None, True),
        ("odd", None, None, {}, None, True),
        ("runtime/default", DEFAULT, None, {}, None, False),
        ("runtime/default", LOCAL, None, {}, DEFAULT, True),
        ("runtime/default", None, DEFAULT, {}, DEFAULT, False),
        ("runtime/default", None, LOCAL, {}, LOCAL, False),
        ("odd", None, LOCAL, {}, LOCAL, False),
        ("runtime/default", None, None, {"os": {"name": "windows"}}, None, False),
        ("runtime/default", None, None, {"os": {"name": "linux"}}, DEFAULT, True),
    ],
)
def test_profile(
    annotation: str, whole: Object | None, own: Object | None, spec: Object, profile: Object | None, warned: bool
) -> None:
    container: Object = {"name": "c", "image": "i"}
    if own is not None:
        container["securityContext"] = {"appArmorProfile": own}
    if whole is not None:
        spec = {**spec, "securityContext": {"appArmorProfile": whole}}
    ctx = replace(CTX, warnings=[])
    pod = made(RESOURCE, ctx, metadata={"annotations": {KEY: annotation}}, spec={**spec, "containers": [container]})
    [container] = pod["spec"]["containers"]
    assert (container.get("securityContext") or {}).get("appArmorProfile") == profile
    assert ctx.warnings == ([WARNING] if warned else [])


def test_a_refused_pod_is_warned_of_its_annotation() -> None:
    api = succeed(MemoryAPI.started())
    pod = {"metadata": {"name": "p", "annotations": {KEY: "unconfined"}}, "spec": {"containers": [{"name": "c"}]}}
    answer = api.ask("POST", "/api/v1/namespaces/n/pods", pod)
    assert answer.code == 422
    shown = WARNING.replace('"', '\\"')
    assert answer.responseHeaders.getRawHeaders("Warning") == [f'299 - "{shown}"']


def test_each_container_is_looked_at() -> None:
    names = ("own", "same", "none")
    containers: list[Object] = [{"name": name} for name in names]
    containers[0]["securityContext"] = {"appArmorProfile": LOCAL}
    annotations = {KEY[:-1] + name: "runtime/default" for name in names}
    annotations[KEY[:-1] + "none"] = "unconfined"
    spec = {"securityContext": {"appArmorProfile": DEFAULT}, "containers": containers}
    pod = made(RESOURCE, replace(CTX, warnings=[]), metadata={"annotations": annotations}, spec=spec)
    found = [(each.get("securityContext") or {}).get("appArmorProfile") for each in pod["spec"]["containers"]]
    assert found == [LOCAL, None, {"type": "Unconfined"}]
