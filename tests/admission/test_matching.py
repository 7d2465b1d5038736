"""Under which versions rules name a request."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.versions import in_version
from kapi.admission.webhook.matching import Rule, by_rules
from kapi.machinery.gvk import GroupVersionKind
from kapi.options.options import Options
from tests.admission.fakes import attributes, initializer


def named(version: str, asked: str, *flags: str, equivalent: bool = True) -> str | None:
    """The version under which a rule for ``version`` of IP addresses names a request to another one."""
    rule = Rule.read(
        {
            "apiGroups": ["networking.k8s.io"],
            "apiVersions": [version],
            "operations": ["*"],
            "resources": ["ipaddresses"],
        }
    )
    what: dict[str, Any] = {"group": "networking.k8s.io", "resource": "ipaddresses", "kind": "IPAddress"}
    request = attributes({"metadata": {"name": "10.0.0.9"}}, version=asked, namespace="", **what)
    serves = Options.from_command_line(flags).api_enablement.enabled
    found = by_rules([rule], equivalent, initializer(serves=serves), request)
    if found is None:
        return None
    kind, resource = found
    assert kind.version == resource.version
    return resource.version


BETA = "--runtime-config=networking.k8s.io/v1beta1=true"


@pytest.mark.parametrize(
    ("version", "asked", "flags", "expected"),
    [
        ("v1", "v1", (), "v1"),
        ("v1beta1", "v1", (), None),
        ("v1beta1", "v1", (BETA,), "v1beta1"),
        ("v1", "v1beta1", (BETA,), "v1"),
        ("v1", "v1beta1", (BETA, "--runtime-config=networking.k8s.io/v1/ipaddresses=false"), None),
    ],
)
def test_only_versions_that_are_served_are_equivalent(
    version: str, asked: str, flags: tuple[str, ...], expected: str | None
) -> None:
    assert named(version, asked, *flags) == expected


@pytest.mark.parametrize(
    ("resource", "namespace", "scopes"),
    [("pods", "n", ("*", "Namespaced")), ("nodes", "", ("*", "Cluster")), ("namespaces", "n", ("*", "Cluster")),
     ("namespaces", "", ("*", "Cluster"))],
)  # fmt: skip
def test_a_rule_is_for_one_scope_and_a_namespace_is_of_the_cluster(
    resource: str, namespace: str, scopes: tuple[str, ...]
) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}
    request = attributes({"metadata": {"name": "n"}}, resource=resource, namespace=namespace)
    found = {
        scope: by_rules([Rule.read({**rule, "scope": scope})], False, initializer(), request)
        for scope in ("*", "Namespaced", "Cluster", None)
    }
    assert {scope for scope, named in found.items() if named} == {*scopes, None}


def test_exact_rules_know_no_equivalents() -> None:
    assert named("v1beta1", "v1", BETA, equivalent=False) is None


def test_events_of_both_groups_are_the_same_objects() -> None:
    rule = Rule.read({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["events"]})
    event = attributes(
        {"metadata": {"name": "e"}}, group="events.k8s.io", version="v1", resource="events", kind="Event"
    )
    found = by_rules([rule], True, initializer(), event)
    assert found is not None
    assert [str(part.group) + "/" + part.version for part in found] == ["/v1", "/v1"]


def test_an_object_has_the_version_under_which_a_rule_names_it() -> None:
    kind = GroupVersionKind("x.io", "v1", "Thing")
    same = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}}
    assert in_version(same, kind) is same
    for other in ({**same, "apiVersion": "x.io/v2"}, {**same, "kind": "Other"}):
        assert in_version(other, kind) == same
    assert in_version(None, kind) is None and in_version(same, GroupVersionKind("", "", "")) is same
