"""A server starts whatever API groups are switched off: what needs a resource does without it, and says so once."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kapi.resources.catalogue import BUILT_IN
from tests.integration.server_process import ForkedServer, ServerProcess
from tests.security.built_in import START_SECONDS, Admin, group_versions, unserved
from tests.waiting import until

EVERY = sorted({f"{row.group}/{row.version}" for row in BUILT_IN})
STABLE = {version.removeprefix("/") for version in EVERY}
SAYS = "is switched off"
NO_FAIRNESS = "--enable-priority-and-fairness=false"  # it needs flowcontrol.apiserver.k8s.io/v1


@contextmanager
def started(directory: Path, *flags: str) -> Iterator[ServerProcess]:
    server = ForkedServer(*flags, directory=directory).start(START_SECONDS)
    try:
        yield server
    finally:
        server.end(signal.SIGKILL)


def _said(server: ServerProcess) -> list[str]:
    return [line.partition("] ")[2] for line in server.output if SAYS in line]


@pytest.mark.parametrize("off", EVERY)
def test_a_server_starts_without(tmp_path: Path, off: str) -> None:
    with started(tmp_path, f"--runtime-config={off}=false", *[NO_FAIRNESS] * off.startswith("flowcontrol.")) as server:
        admin = Admin(server)
        assert group_versions(admin) == STABLE - {off.removeprefix("/")}
        assert not unserved(admin)
        assert max(Counter(_said(server)).values(), default=1) == 1


@pytest.mark.parametrize("off", ["api/ga=false", "api/all=false,apps/v1=true"])
def test_a_server_starts_with_hardly_anything(tmp_path: Path, off: str) -> None:
    with started(tmp_path, f"--runtime-config={off}", NO_FAIRNESS) as server:
        admin = Admin(server)
        assert not unserved(admin)


def test_nothing_is_said_when_all_is_on(server: ServerProcess) -> None:
    assert not _said(server)


def test_services_get_addresses_without_the_objects_that_record_them(tmp_path: Path) -> None:
    services = "/api/v1/namespaces/default/services"

    def create(admin: Admin, name: str, ip: str = "") -> tuple[int, Any]:
        spec = {"ports": [{"port": 80}], **({"clusterIP": ip} if ip else {})}
        return admin.ask("POST", services, {"metadata": {"name": name}, "spec": spec})

    off = "--runtime-config=networking.k8s.io/v1=false"
    cidr = "--service-cluster-ip-range=10.9.0.0/29"
    with started(tmp_path, off, cidr) as server:
        assert any("ipaddresses.networking.k8s.io is switched off" in line for line in _said(server))
        assert [create(Admin(server), name)[0] for name in ("a", "b")] == [201, 201]
    with started(tmp_path, off, cidr) as server:  # what is in use is found again
        assert [create(Admin(server), name)[0] for name in ("c", "d", "e", "f")] == [201, 201, 201, 500]
        admin = Admin(server)
        code, body = create(admin, "g", "10.9.0.1")
        assert code == 422 and "already allocated" in body["message"]
        admin.delete(f"{services}/a")
        assert create(admin, "g")[0] == 201
    with started(tmp_path, cidr) as server:  # and recorded when the group is back
        admin = Admin(server)
        until(lambda: admin.ask("GET", "/apis/networking.k8s.io/v1/ipaddresses/10.9.0.1")[0] == 200)
        assert create(admin, "h")[0] == 500


def test_logical_clusters_do_without_the_same(tmp_path: Path) -> None:
    off = (
        "--runtime-config=apiregistration.k8s.io/v1=false,networking.k8s.io/v1=false,rbac.authorization.k8s.io/v1=false"
    )
    with started(tmp_path, "--testbed", "--enable-logical-clusters", off) as server:
        admin = Admin(server)
        path = admin.create("/clusters", {})["path"]
        service = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
        assert admin.create(f"{path}/api/v1/namespaces/default/services", service)["spec"]["clusterIP"]
