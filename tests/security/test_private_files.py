"""Keys, kubeconfig, audit log and the store's files are for their owner alone (class 6)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from twisted.internet.testing import MemoryReactorClock

from kapi.store.embedded import EmbeddedValkey
from tests.integration.server_process import ForkedServer, ServerProcess
from tests.security.attacker import Attacker

POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n"


def exposed(directory: Path) -> dict[str, str]:
    """What others have any right to, and the mode."""
    found = {}
    for root, directories, files in os.walk(directory):
        for path in (Path(root, name) for name in [".", *directories, *files]):
            mode = path.lstat().st_mode
            if mode & 0o077 and not stat.S_ISLNK(mode):
                found[str(path.relative_to(directory))] = oct(mode)
    return found


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_every_file_in_the_data_directory_is_private(tmp_path: Path, umask: int) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    log = tmp_path / "data" / "audit.log"
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    before = os.umask(umask)
    try:
        with ServerProcess(*flags, directory=tmp_path) as server:
            admin = Attacker(server, "admintoken")
            admin.create("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
            assert exposed(server.data) == {}
            assert log.exists()
        for name in ("older", "store/older", "pki/older.key"):
            path = server.data / name
            path.write_text("what an older server left")
            path.chmod(0o644)
        assert exposed(server.data)
        with ForkedServer(*flags, directory=tmp_path) as server:
            assert exposed(server.data) == {}
    finally:
        os.umask(before)


@pytest.mark.parametrize("kind", ["link", "directory"])
def test_nobody_keeps_the_socket_of_the_store(tmp_path: Path, kind: str) -> None:
    """It is below /tmp when the path of the data directory is too long; whoever made its directory there could exchange it."""
    root = tmp_path / ("long-" * 20)
    planted = Path(EmbeddedValkey(root / "data" / "store", MemoryReactorClock()).socket_path).parent
    assert tmp_path not in planted.parents
    if kind == "link":
        planted.symlink_to(tmp_path)
    elif os.getuid():
        pytest.skip("only root can make the directory of another user")
    else:
        planted.mkdir(mode=0o777)
        os.chown(planted, 65534, 65534)
    server = ForkedServer(directory=root)
    try:
        with pytest.raises(RuntimeError, match="is no directory of this user"):
            server.start()
        assert not (tmp_path / "valkey.sock").exists()
    finally:
        if server.running:
            server.stop()
        planted.unlink() if kind == "link" else planted.rmdir()
