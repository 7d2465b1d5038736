"""Clusters whose uids and generated names are the same each time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kapi.testing.cluster import Cluster, LogicalCluster, RequestError
from kapi.testing.process import KapiProcess

MAPS = "/api/v1/namespaces/default/configmaps"
_CONTROLLED = ("/api/v1/namespaces/kube-system", "/api/v1/namespaces/default/serviceaccounts/default")


def made(server: KapiProcess, directory: Path, seed: str) -> dict[str, Any]:
    directory.mkdir()
    cluster = LogicalCluster(server, directory, seed=seed)
    cluster.open()
    try:
        found: dict[str, Any] = {"namespace": cluster.namespace}
        found["generated"] = []
        for _ in range(3):
            new = cluster.request("POST", MAPS, {"metadata": {"generateName": "some-"}})["metadata"]
            found["generated"].append((new["name"], new["uid"]))
        first = cluster.request("POST", MAPS, {"metadata": {"name": "one"}})["metadata"]["uid"]
        cluster.request("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "two"}})
        cluster.request("DELETE", f"{MAPS}/one")
        found["again"] = [first, cluster.request("POST", MAPS, {"metadata": {"name": "one"}})["metadata"]["uid"]]
        cluster.settled()
        paths = (*_CONTROLLED, f"/api/v1/namespaces/{cluster.namespace}/serviceaccounts/default")
        found["controlled"] = [cluster.request("GET", path)["metadata"]["uid"] for path in paths]
        return found
    finally:
        cluster.close()


def test_a_seed_makes_them_the_same_in_each_run(server: KapiProcess, tmp_path: Path) -> None:
    first, again = (made(server, tmp_path / name, "x") for name in ("a", "b"))
    assert first == again
    assert first["namespace"] == "test"
    uids = [*first["again"], *first["controlled"], *(uid for _, uid in first["generated"])]
    assert len(set(uids)) == len(uids)
    other = made(server, tmp_path / "c", "y")
    assert not {*other["again"], *other["controlled"]} & set(uids)


def test_it_is_told_and_bounded(server: KapiProcess, tmp_path: Path) -> None:
    root = Cluster(server, tmp_path)
    assert root.request("PUT", "/clusters/seeded", {"seed": "x"})["seed"] == "x"
    root.request("DELETE", "/clusters/seeded")
    with pytest.raises(RequestError, match="400 seed: at most 256 characters"):
        root.request("PUT", "/clusters/seeded", {"seed": "x" * 257})


@pytest.mark.kapi(seed="x")
def test_the_marker_gives_one(kapi: Cluster, kapi_factory: Callable[..., Cluster]) -> None:
    assert kapi.namespace == "test"
    uids = [
        each.request("GET", "/api/v1/namespaces/test")["metadata"]["uid"] for each in (kapi, kapi_factory(seed="x"))
    ]
    assert uids[0] == uids[1]
    assert kapi_factory().namespace != "test"
