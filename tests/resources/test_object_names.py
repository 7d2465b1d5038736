"""Which names objects may have, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.testing.memory_api import MemoryAPI, succeed

RC = "/api/v1/namespaces/default/replicationcontrollers"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
TEMPLATE: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture(scope="module")
def api() -> MemoryAPI:
    started: MemoryAPI = succeed(MemoryAPI.started())
    return started


def causes(answer: Any) -> list[tuple[str, str]]:
    assert answer.code == 422, answer.json
    return [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]


@pytest.mark.parametrize(("path", "spec"), [(RC, {"template": TEMPLATE}), (CLASSES, {})])
def test_some_kinds_check_the_generated_name_alone_and_count_bytes(api: MemoryAPI, path: str, spec: Object) -> None:
    generated = api.ask("POST", path, {"metadata": {"generateName": "Bad-"}, "spec": spec})
    assert [field for field, _ in causes(generated)] == ["metadata.name"]
    long = api.ask("POST", path, {"metadata": {"name": "a" * 254}, "spec": spec})
    ((field, text),) = causes(long)
    assert field == "metadata.name" and text.endswith(": must be no more than 253 bytes")


def test_other_kinds_check_both_and_count_characters(api: MemoryAPI) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    generated = api.ask("POST", path, {"metadata": {"generateName": "Bad-"}})
    assert [field for field, _ in causes(generated)] == ["metadata.generateName", "metadata.name"]
    ((field, text),) = causes(api.ask("POST", path, {"metadata": {"name": "a" * 254}}))
    assert field == "metadata.name" and text.endswith(": must be no more than 253 characters")


def test_the_names_of_custom_resources_are_counted_in_characters(api: MemoryAPI) -> None:
    plural = "a" * 64
    body = {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": plural, "singular": "a", "kind": "A", "listKind": "AList"},
            "versions": [{
                "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    }  # fmt: skip
    answer = api.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    assert [text for field, text in causes(answer) if field == "spec.names.plural"] == [
        f'Invalid value: "{plural}": must be no more than 63 characters'
    ]


@pytest.mark.parametrize("name", ["a:b", "A b", "system:x-"])
def test_roles_have_any_name_that_fits_into_a_path(api: MemoryAPI, name: str) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert api.ask("POST", path, {"metadata": {"name": name}}).code == 201
    ((field, text),) = causes(api.ask("POST", path, {"metadata": {"name": f"{name}/x"}}))
    assert (field, text) == ("metadata.name", f"Invalid value: \"{name}/x\": may not contain '/'")
