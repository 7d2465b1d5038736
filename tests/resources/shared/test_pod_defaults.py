"""Defaults of a pod's parts: pull policies of images, names of accounts, addresses, and what older objects still have."""

from __future__ import annotations

import pytest

from kapi.machinery.tree import Object
from kapi.resources.shared.gated import _drop_stop_signals
from kapi.resources.shared.poddefaults import (
    default_pod_status,
    drop_old_init_annotations,
    name_service_account,
    pull_policy,
    tag_of,
)

SHA = "a" * 64


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("a", "latest"), ("a:latest", "latest"), ("a:1", "1"), ("a/b", "latest"), ("a.io/b", "latest"), ("a.io/b:1", "1"),
        ("a:5000/b", "latest"), ("a:5000/b:1", "1"), ("localhost/b:1", "1"), ("Reg/b:1", "1"), ("a/B:1", ""), ("A", ""),
        (f"a@sha256:{SHA}", ""), (f"a:1@sha256:{SHA}", "1"), (f"a:1@sha256:{SHA[1:]}", ""), (f"a:1@sha256:{SHA.upper()}", ""),
        (f"a:1@sha384:{'a' * 96}", "1"), (f"a:1@sha512:{'a' * 128}", "1"), (f"a:1@md5:{'a' * 32}", ""), (SHA, ""),
        (SHA[1:], "latest"), (f"{SHA}:1", "1"), ("", ""), ("a b", ""), ("a:", ""), ("-a", ""), ("a_b", "latest"),
        ("a.io/" + "b" * 250, "latest"), ("a.io/" + "b" * 251, ""), ("b" * 243 + "/c:1", "1"), ("b" * 244 + "/c:1", ""),
    ],
)  # fmt: skip
def test_the_tag_of_an_image(image: str, tag: str) -> None:
    assert (tag_of(image), pull_policy(image)) == (tag, "Always" if tag == "latest" else "IfNotPresent")


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({}, {}), ({"serviceAccount": "b"}, {"serviceAccountName": "b", "serviceAccount": "b"}),
        ({"serviceAccountName": "a", "serviceAccount": "b"}, {"serviceAccountName": "a", "serviceAccount": "a"}),
    ],
)  # fmt: skip
def test_both_names_of_an_account_are_one(spec: Object, named: Object) -> None:
    name_service_account(spec)
    assert spec == named


def test_annotations_for_init_containers_of_old_are_dropped() -> None:
    old = {
        f"pod.{stage}.kubernetes.io/init-container{what}": "x"
        for stage in ("alpha", "beta")
        for what in ("s", "-statuses")
    }
    for given, kept in (({**old, "a": "b"}, {"a": "b"}), (old, {}), ({"a": "b"}, {"a": "b"}), (None, None)):
        metadata = {"annotations": given}
        drop_old_init_annotations(metadata)
        assert metadata == {"annotations": kept}


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"podIP": "1.2.3.4"}, {"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}]}),
        ({"podIP": "1.2.3.4", "podIPs": [{"ip": "5.6.7.8"}, {"ip": "::1"}]}, {"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}]}),
        ({"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}, {"ip": "::1"}]},
         {"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}, {"ip": "::1"}]}),
        ({"podIPs": [{"ip": "::1"}, {"ip": "1.2.3.4"}]}, {"podIP": "::1", "podIPs": [{"ip": "::1"}, {"ip": "1.2.3.4"}]}),
        ({"podIPs": [{}]}, {"podIP": "", "podIPs": [{}]}), ({}, {}),
        ({"containerStatuses": [{"allocatedResources": {"cpu": "0.1m"}, "resources": {"limits": {"cpu": "0.1m"}}}],
          "allocatedResources": {"cpu": "0.1m"}, "resources": {"requests": {"cpu": "0.1m"}}},
         {"containerStatuses": [{"allocatedResources": {"cpu": "1m"}, "resources": {"limits": {"cpu": "1m"}}}],
          "allocatedResources": {"cpu": "1m"}, "resources": {"requests": {"cpu": "1m"}}}),
    ],
)  # fmt: skip
def test_a_status_has_one_first_address_and_rounded_amounts(status: Object, wanted: Object) -> None:
    default_pod_status(status)
    assert status == wanted


def test_a_lifecycle_of_a_stop_signal_alone_goes_with_it() -> None:
    hook = {"preStop": {"sleep": {"seconds": 1}}}
    spec: Object = {"containers": [{"lifecycle": {"stopSignal": "SIGTERM"}}, {"lifecycle": {"stopSignal": "SIGTERM", **hook}},
                                   {"lifecycle": hook}, {"lifecycle": {}}, {}]}  # fmt: skip
    _drop_stop_signals(spec)
    assert spec["containers"] == [{}, {"lifecycle": hook}, {"lifecycle": hook}, {"lifecycle": {}}, {}]
