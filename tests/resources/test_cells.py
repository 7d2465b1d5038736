"""Cells of tables that are made of several fields, or of a list that is cut short."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.core.persistentvolumes import RESOURCE as VOLUMES
from kapi.resources.core.resourcequotas import RESOURCE as QUOTAS
from kapi.resources.definition import Resource
from kapi.resources.discovery import ENDPOINT_SLICE as SLICES

CLAIM = {"claimRef": {"namespace": "n", "name": "c"}}
HARD = {"limits.cpu": "2", "pods": "3", "requests.cpu": "1"}


def endpoints(count: int) -> Object:
    return {"endpoints": [{"addresses": [f"10.0.0.{number}"]} for number in range(count)]}


@pytest.mark.parametrize(
    ("row", "parts", "column", "cell"),
    [
        (VOLUMES, {"spec": CLAIM}, "Claim", "n/c"),
        (VOLUMES, {}, "Claim", ""),
        (QUOTAS, {"status": {"hard": HARD, "used": {"pods": "1"}}}, "Request", "pods: 1/3, requests.cpu: 0/1"),
        (QUOTAS, {"status": {"hard": HARD, "used": {"limits.cpu": "1"}}}, "Limit", "limits.cpu: 1/2"),
        (SLICES, endpoints(0), "Endpoints", "<unset>"),
        (SLICES, endpoints(3), "Endpoints", "10.0.0.0,10.0.0.1,10.0.0.2"),
        (SLICES, endpoints(5), "Endpoints", "10.0.0.0,10.0.0.1,10.0.0.2 + 2 more..."),
    ],
)
def test_cell(row: Resource, parts: Object, column: str, cell: Any) -> None:
    assert row.table is not None
    obj = {"metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"}, **parts}
    cells = dict(zip((each.name for each in row.table.columns), row.table.cells(obj, 1_704_067_260.0), strict=True))
    assert cells[column] == cell
