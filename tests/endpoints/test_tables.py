"""Tables: what their cells are made from."""

from __future__ import annotations

from kapi.testing.memory_api import MemoryAPI

MAPS = "/api/v1/namespaces/n/configmaps"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def test_ages_follow_the_clock_that_creation_times_are_taken_from(api: MemoryAPI) -> None:
    api.ask("POST", MAPS, {"metadata": {"name": "one"}})
    api.turn(90)
    watch = api.ask("GET", f"{MAPS}?watch=1&timeoutSeconds=60", headers=TABLE)
    api.turn()
    found = [api.ask("GET", uri, headers=TABLE).json for uri in (f"{MAPS}/one", MAPS)]
    for table in (*found, watch.events[0]["object"]):
        assert table["rows"][0]["cells"] == ["one", 0, "90s"]
