"""Cells of tables that are made of several fields, or of a list that is cut short."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.apps.deployments import RESOURCE as DEPLOYMENTS
from kapi.resources.autoscaling.horizontalpodautoscalers import RESOURCE as SCALERS
from kapi.resources.certificates.podcertificaterequests import RESOURCE as POD_CERTIFICATES
from kapi.resources.core.persistentvolumes import RESOURCE as VOLUMES
from kapi.resources.core.resourcequotas import RESOURCE as QUOTAS
from kapi.resources.definition import Resource
from kapi.resources.discovery import ENDPOINT_SLICE as SLICES
from kapi.resources.resource.devicetaintrules import RESOURCE as TAINTS
from kapi.resources.resource.resourcepoolstatusrequests import RESOURCE as POOLS
from kapi.resources.storagemigration import STORAGE_VERSION_MIGRATION as MIGRATIONS

CLAIM = {"claimRef": {"namespace": "n", "name": "c"}}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}
QUEUE = {"type": "External", "external": {"target": {"value": "5"}}}
NOTHING_IN = {"key": "a", "operator": "In", "values": []}
TAINT = {"key": "example.com/broken", "effect": "NoExecute", "timeAdded": "2024-01-01T00:00:30Z"}
HARD = {"limits.cpu": "2", "pods": "3", "requests.cpu": "1"}


def metrics(*specs: Object, current: list[Object] | None = None) -> Object:
    return {"spec": {"metrics": list(specs)}, "status": {"currentMetrics": current or []}}


def endpoints(count: int) -> Object:
    return {"endpoints": [{"addresses": [f"10.0.0.{number}"]} for number in range(count)]}


def conditions(**states: str) -> Object:
    return {"status": {"conditions": [{"type": kind, "status": state} for kind, state in states.items()]}}


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
        (DEPLOYMENTS, {"spec": {"selector": {"matchLabels": {"a": "b"}}}}, "Selector", "a=b"),
        (DEPLOYMENTS, {"spec": {"selector": {"matchExpressions": [NOTHING_IN]}}}, "Selector", "<invalid>"),
        (SCALERS, metrics(), "Targets", "<none>"),
        (SCALERS, metrics(CPU), "Targets", "cpu: <unknown>/80%"),
        (SCALERS, metrics(CPU, QUEUE), "Targets", "cpu: <unknown>/80%, <unknown>/5"),
        (SCALERS, metrics(CPU, QUEUE, CPU), "Targets", "cpu: <unknown>/80%, <unknown>/5 + 1 more..."),
        (SCALERS, metrics(CPU, QUEUE, CPU, CPU), "Targets", "cpu: <unknown>/80%, <unknown>/5 + 2 more..."),
        (
            SCALERS,
            metrics(CPU, current=[{"resource": {"current": {"averageUtilization": 0}}}]),
            "Targets",
            "cpu: 0%/80%",
        ),
        (SCALERS, metrics(QUEUE, current=[{"external": {"current": {"value": "3"}}}]), "Targets", "3/5"),
        (SCALERS, metrics(QUEUE, current=[{"external": {}}]), "Targets", "<nil>/5"),
        (SCALERS, metrics({"type": "Odd"}), "Targets", "<unknown type>"),
        (TAINTS, {"spec": {"taint": TAINT}}, "Key", "example.com/broken"),
        (TAINTS, {"spec": {"taint": TAINT}}, "Value", ""),
        (TAINTS, {"spec": {"taint": TAINT}}, "Effect", "NoExecute"),
        (TAINTS, {"spec": {"taint": TAINT}}, "TimeAdded", "30s"),
        (TAINTS, {"spec": {}}, "TimeAdded", ""),
        (MIGRATIONS, {"spec": {"resource": {"resource": "pods"}}}, "Resource", "pods"),
        (MIGRATIONS, {}, "Status", "Unknown"),
        (POD_CERTIFICATES, {}, "UnverifiedUserAnnotations", "<none>"),
        (
            POD_CERTIFICATES,
            {"spec": {"unverifiedUserAnnotations": {"b.c/d": "", "a.b/c": "x"}}},
            "UnverifiedUserAnnotations",
            "a.b/c=x,b.c/d=",
        ),
        (MIGRATIONS, conditions(Other="True", Running="Unknown"), "Status", "Unknown"),
        (MIGRATIONS, conditions(Failed="True", Running="False"), "Status", "Failed"),
        (MIGRATIONS, conditions(Failed="True", Running="True"), "Status", "Running"),
    ],
)
def test_cell(row: Resource, parts: Object, column: str, cell: Any) -> None:
    assert row.table is not None
    obj = {"metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"}, **parts}
    cells = dict(zip((each.name for each in row.table.columns), row.table.cells(obj, 1_704_067_260.0), strict=True))
    assert cells[column] == cell


def _pools(kind: str = "Complete", **more: Any) -> Object:
    pools = [
        {"totalDevices": 4, "allocatedDevices": 1, "availableDevices": 2, "unavailableDevices": 1},
        {"totalDevices": 3, "availableDevices": 3, "validationError": ""},
    ]
    status = {"type": kind, "status": "True", "lastTransitionTime": "2024-01-01T00:00:30Z"}
    return {"poolCount": 2, "pools": pools, "conditions": [status], **more}


@pytest.mark.parametrize(
    ("status", "cells"),
    [
        (None, ["-", "-", "-", "-", "-", 0, "Pending", "<none>"]),
        ({"poolCount": 0}, ["0", "0", "0", "0", "0", 0, "Pending", "<none>"]),
        (_pools(), ["7", "5", "1", "1", "1", 2, "Complete", "30s"]),
        (_pools(poolCount=3), ["7", "5", "1", "1", "1", 3, "Complete (2/3 pools)", "30s"]),
        (_pools("Failed", poolCount=3), ["-", "-", "-", "-", "-", 3, "Failed", "<none>"]),
        (_pools("Other"), ["7", "5", "1", "1", "1", 2, "Pending", "<none>"]),
        (
            _pools(conditions=[{"type": "Failed", "status": "False"}, {"type": "Complete", "status": "True"}]),
            ["7", "5", "1", "1", "1", 2, "Complete", "<unknown>"],
        ),
    ],
)
def test_numbers_of_devices(status: Object | None, cells: list[Any]) -> None:
    assert POOLS.table is not None
    obj = {"metadata": {"name": "a"}, "spec": {"driver": "d"}, "status": status}
    assert POOLS.table.cells(obj, 1_704_067_260.0)[1:] == ["d", *cells]
