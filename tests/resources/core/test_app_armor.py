"""AppArmor profiles of the deprecated annotations, which become fields."""

from __future__ import annotations

import pytest

from kapi.machinery.tree import Object
from kapi.resources.core.pods import RESOURCE
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
        ("runtime/default", None, DEFAULT, {}, DEFAULT, True),
        ("runtime/default", None, LOCAL, {}, LOCAL, False),
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
    pod = made(RESOURCE, metadata={"annotations": {KEY: annotation}}, spec={**spec, "containers": [container]})
    [container] = pod["spec"]["containers"]
    assert (container.get("securityContext") or {}).get("appArmorProfile") == profile
    assert (WARNING in RESOURCE.strategy.warnings_on_create(pod, CTX)) is warned
