"""Times at the ends of the calendar, as Go has them: they are answered in every form, but their text is no time for Go."""

from __future__ import annotations

import pytest

from kapi.schema.protobuf_writing import encode_tree
from kapi.testing.memory_api import MemoryAPI, succeed

LEASES = "/apis/coordination.k8s.io/v1/namespaces/n/leases"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MERGE = "application/merge-patch+json"
PROTOBUF = "application/vnd.kubernetes.protobuf"


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
    assert api.ask("GET", f"{LEASES}/x", headers={"Accept": PROTOBUF}).code == 200
    again = api.ask("PUT", f"{LEASES}/x", created.json)
    patched = api.ask("PATCH", f"{LEASES}/x", {"metadata": {"labels": {"a": "b"}}}, type=MERGE)
    if not why:
        assert (again.code, patched.code) == (200, 200)
        return
    assert (again.code, patched.code) == (400, 422)
    assert why in again.json["message"] and why in patched.json["message"]


@pytest.mark.parametrize(
    "moment",
    [
        "10000-01-01T00:59:59.500000Z",
        "-0001-12-31T23:00:00.500000Z",
        "146138514283-06-19T07:45:04.000000Z",
        "-146138510344-07-14T16:14:56.000000Z",
    ],
)
def test_protobuf_holds_seconds_of_any_year(moment: str) -> None:
    """And no text, which JSON would have to read."""
    api = succeed(MemoryAPI.started())
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}}
    body = encode_tree({**lease, "spec": {"acquireTime": moment}})
    created = api.ask("POST", LEASES, body, type=PROTOBUF)
    assert (created.code, created.json["spec"]) == (201, {"acquireTime": moment})
    stored = api.ask("GET", f"{LEASES}/x", headers={"Accept": PROTOBUF})
    changed = encode_tree({**created.json, "spec": {"acquireTime": moment, "renewTime": moment}})
    assert api.ask("PUT", f"{LEASES}/x", changed, type=PROTOBUF).json["spec"]["renewTime"] == moment
    assert b"".join(stored.chunks) == encode_tree(created.json)
    for method, path in (("PUT", f"{LEASES}/x"), ("POST", LEASES)):  # after protobuf too, text is text
        assert api.ask(method, path, {**lease, "spec": {"acquireTime": moment}}).code == 400


def test_other_times_of_an_event_may_be_of_any_year() -> None:
    api = succeed(MemoryAPI.started())
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "x"}, "involvedObject": {"namespace": "n"}}
    events = "/api/v1/namespaces/n/events"
    body = encode_tree({**event, "firstTimestamp": "10000-01-01T00:00:00Z", "lastTimestamp": "-0001-01-01T00:00:00Z"})
    created = api.ask("POST", events, body, type=PROTOBUF)
    assert (created.code, created.json["firstTimestamp"]) == (201, "10000-01-01T00:00:00Z")
    assert api.ask("GET", events, headers={"Accept": TABLE}).code == 200
