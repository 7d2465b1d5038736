"""What every row of the catalogue answers, whatever its type."""

from __future__ import annotations

import pytest

from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource
from kapi.testing.memory_api import MemoryAPI, succeed

STORED = [row for row in BUILT_IN if not row.handler]


@pytest.fixture(scope="module")
def api() -> MemoryAPI:
    started: MemoryAPI = succeed(MemoryAPI.started())
    return started


def path_of(row: Resource) -> str:
    prefix = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
    return f"{prefix}/namespaces/n/{row.plural}" if row.namespaced else f"{prefix}/{row.plural}"


def named(row: Resource) -> str:
    return f"{row.group or 'core'}/{row.version}/{row.plural}"


@pytest.mark.parametrize("row", STORED, ids=named)
def test_an_empty_list_is_typed(api: MemoryAPI, row: Resource) -> None:
    answer = api.ask("GET", path_of(row)).json
    assert (answer["kind"], answer["apiVersion"], answer["items"]) == (f"{row.kind}List", str(row.group_version), [])


@pytest.mark.parametrize("row", STORED, ids=named)
def test_a_table_has_columns(api: MemoryAPI, row: Resource) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = api.ask("GET", path_of(row), headers=accept).json
    assert table["kind"] == "Table" and table["columnDefinitions"][0]["name"]


@pytest.mark.parametrize("row", STORED, ids=named)
def test_what_is_not_there_is_not_found(api: MemoryAPI, row: Resource) -> None:
    for method in ("GET", "DELETE"):
        answer = api.ask(method, f"{path_of(row)}/none")
        assert (answer.code, answer.json["details"]["name"]) == (404, "none")


@pytest.mark.parametrize("row", STORED, ids=named)
def test_a_body_of_another_kind_is_refused(api: MemoryAPI, row: Resource) -> None:
    other = {"kind": "Secret", "apiVersion": "v1"} if row.kind != "Secret" else {"kind": "Pod", "apiVersion": "v1"}
    answer = api.ask("POST", path_of(row), {**other, "metadata": {"name": "x"}})
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize("row", STORED, ids=named)
def test_a_method_that_the_row_does_not_list_is_not_allowed(api: MemoryAPI, row: Resource) -> None:
    assert api.ask("PUT", path_of(row), {}).code == 405
    assert api.ask("POST", f"{path_of(row)}/x", {}).code == 405


@pytest.mark.parametrize("row", [row for row in STORED if not row.namespaced], ids=named)
def test_a_cluster_scoped_resource_is_not_reached_through_a_namespace(api: MemoryAPI, row: Resource) -> None:
    """CVE-2019-11247."""
    prefix = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
    if row.plural == "namespaces":
        return
    assert api.ask("GET", f"{prefix}/namespaces/n/{row.plural}").code == 404
    assert api.ask("GET", f"{prefix}/namespaces/n/{row.plural}/x").code == 404
