"""Times at the ends of the calendar, as Go has them: they are answered in every form, but their text is no time for Go."""

from __future__ import annotations

import pytest

from kapi.testing.memory_api import MemoryAPI, succeed

LEASES = "/apis/coordination.k8s.io/v1/namespaces/n/leases"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MERGE = "application/merge-patch+json"


@pytest.mark.parametrize(
    ("sent", "answered", "why"),
    [
        ("9999-12-31T23:59:59.5-01:00", "10000-01-01T00:59:59.500000Z", 'cannot parse "0-01-01T'),
        ("0000-01-01T00:00:00.5+01:00", "-0001-12-31T23:00:00.500000Z", 'cannot parse "-0001-'),
        ("0000-01-01T00:00:00.5Z", "0000-01-01T00:00:00.500000Z", ""),
    ],
)
def test_a_time_beyond_the_calendar(sent: str, answered: str, why: str) -> None:
    api = succeed(MemoryAPI.started())
    body = {"metadata": {"name": "x"}, "spec": {"renewTime": sent.replace(".5", ".500000")}}
    created = api.ask("POST", LEASES, body)
    assert (created.code, created.json["spec"]["renewTime"]) == (201, answered)
    assert api.ask("GET", LEASES, headers={"Accept": TABLE}).code == 200
    assert api.ask("GET", f"{LEASES}/x", headers={"Accept": "application/vnd.kubernetes.protobuf"}).code == 200
    again = api.ask("PUT", f"{LEASES}/x", created.json)
    patched = api.ask("PATCH", f"{LEASES}/x", {"metadata": {"labels": {"a": "b"}}}, type=MERGE)
    if not why:
        assert (again.code, patched.code) == (200, 200)
        return
    assert (again.code, patched.code) == (400, 422)
    assert why in again.json["message"] and why in patched.json["message"]
