"""``kapi backup`` beside a server that is written to, and ``kapi restore`` into a place where nothing is."""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests import fork_server
from tests.integration.server_process import ForkedServer, Kubectl, ServerProcess, api_request
from tests.integration.test_data_safety import CONFIGMAPS, Client
from tests.integration.test_store_faults import Watcher
from tests.store.servers import Server
from tests.waiting import until

BUMP = 1_000_000_000


def kapi(*arguments: object) -> subprocess.CompletedProcess[str]:
    return fork_server.run([*map(str, arguments)])


def done(*arguments: object) -> str:
    finished = kapi(*arguments)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


class Writes:
    """Writes of a client in a thread: pairs of objects, the second of which names the first."""

    def __init__(self, server: ServerProcess) -> None:
        self._client = Client(server)
        self._ending = False
        self.number = 0  # of pairs that are being written, or were
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending:
            self.number += 1
            number = self.number
            for kind in ("first", "second"):
                assert self._client.create(f"{kind}-{number}")[0] == 201
            if number % 3 == 0:
                for kind in ("second", "first"):
                    assert self._client.ask("DELETE", f"{CONFIGMAPS}/{kind}-{number}")[0] == 200

    def end(self) -> None:
        self._ending = True
        self._thread.join()
        self._client.close()


def names(server: ServerProcess) -> set[str]:
    client = Client(server)
    found = {name for name in client.names() if name.startswith(("first", "second"))}
    client.close()
    return found


@pytest.mark.parametrize("external", [False, True])
def test_a_backup_under_writes_and_its_restore(tmp_path: Path, kubectl_binary: str, external: bool) -> None:
    stores = [Server(appendonly="yes", appendfsync="always") for _ in range(2)] if external else []
    flags = [[f"--redis-servers={store.url}"] for store in stores] or [[], []]
    file, server = tmp_path / "backup.tgz", ForkedServer(*flags[0], "--controllers=").start()
    restored = ForkedServer(*flags[1], "--controllers=", directory=tmp_path / "restored")
    try:
        kubectl = Kubectl(server, kubectl_binary)
        kubectl.run("create", "serviceaccount", "robot")
        token = kubectl.run("create", "token", "robot").strip()
        writes = Writes(server)
        until(lambda: writes.number > 12)
        said = done("backup", file, f"--data-dir={server.data}", *flags[0])
        written = writes.number
        until(lambda: writes.number > written + 3)  # some of them stay
        writes.end()
        revision = int(said.split(" at revision ")[1].split()[0])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert list(tmp_path.glob("*.tmp")) == []

        said = done("restore", file, f"--data-dir={restored.data}", *flags[1])
        assert f"goes on from {revision + BUMP}\n" in said
        restored.start()
        found = names(restored)
        seconds = {name.removeprefix("second-") for name in found if name.startswith("second")}
        firsts = {name.removeprefix("first-") for name in found if name.startswith("first")}
        assert len(seconds) > 3
        assert seconds <= firsts and len(firsts - seconds) <= 1, "a moment of a history has at most one half of a pair"
        assert len(firsts) < len({name for name in names(server) if name.startswith("first")}), "others came later"
        # a client that knows a state of the former store, or a later one, begins anew
        for known in (revision - 1, revision, revision + 1000):
            watcher = Watcher(restored, f"{CONFIGMAPS}?watch=1&resourceVersion={known}")
            assert watcher.next()["object"]["code"] == 410
            watcher.close()
        client = Client(restored)
        status, answer = client.create("after")
        assert status == 201 and int(answer["metadata"]["resourceVersion"]) > revision + BUMP
        client.close()
        # users and their credentials are known
        former = subprocess.run(
            [kubectl_binary, f"--server={restored.url}", f"--certificate-authority={restored.authority}",
             f"--token={token}", "auth", "whoami"],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert "system:serviceaccount:default:robot" in former.stdout, former.stderr
        refused = kapi("restore", file, f"--data-dir={tmp_path / 'third'}", *flags[1]) if external else None
        assert refused is None or (refused.returncode, "the store is not empty" in refused.stderr) == (1, True)
    finally:
        server.stop()
        restored.stop()
        for store in stores:
            store.stop()


def test_a_store_that_is_moved_goes_on_without_a_gap(tmp_path: Path) -> None:
    """From the embedded one to an external one, with the server stopped: watches go on where they were."""
    file, store = tmp_path / "backup.tgz", Server(appendonly="yes", appendfsync="always")
    server = ForkedServer("--controllers=", directory=tmp_path / "kapi").start()
    try:
        client = Client(server)
        assert client.create("before")[0] == 201
        client.close()
        server.end()
        said = done("backup", file, f"--data-dir={server.data}")
        revision = int(said.split(" at revision ")[1].split()[0])
        said = done("restore", file, "--bump-revision=0", f"--data-dir={server.data}", f"--redis-servers={store.url}")
        assert f"goes on from {revision}\n" in said
        server.flags.append(f"--redis-servers={store.url}")
        server.start()
        watcher = Watcher(server, f"{CONFIGMAPS}?watch=1&resourceVersion={revision}")
        client = Client(server)
        assert client.names() >= {"before"}
        assert client.create("after")[0] == 201
        assert watcher.next()["object"]["metadata"]["name"] == "after"
        watcher.close()
        client.close()
    finally:
        server.stop()
        store.stop()


def test_stores_of_single_resources_are_kept_apart(tmp_path: Path) -> None:
    events, target, file = Server(), Server(), tmp_path / "backup.tgz"
    flag = "--redis-servers-overrides=/events#{}"
    server = ForkedServer(flag.format(events.url), "--controllers=").start()
    restored = ForkedServer(flag.format(target.url), "--controllers=", directory=tmp_path / "restored")
    try:
        event = {
            "metadata": {"name": "e"}, "reason": "Tested", "type": "Normal",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        }  # fmt: skip
        assert api_request(server, "POST", "api/v1/namespaces/default/events", event)[0] == 201
        said = done("backup", file, f"--data-dir={server.data}", flag.format(events.url))
        assert "1 objects of events" in said and " at revision 1\n" in said
        refused = kapi("restore", file, f"--data-dir={restored.data}")
        assert (refused.returncode, "--redis-servers-overrides: the backup has stores" in refused.stderr) == (1, True)
        done("restore", file, f"--data-dir={restored.data}", flag.format(target.url))
        restored.start()
        answer = json.loads(api_request(restored, "GET", "api/v1/namespaces/default/events")[1])
        assert [each["metadata"]["name"] for each in answer["items"]] == ["e"]
    finally:
        server.stop()
        restored.stop()
        events.stop()
        target.stop()


def test_what_cannot_be_backed_up_or_restored_is_one_line(tmp_path: Path) -> None:
    server = ForkedServer("--controllers=").start()
    file = tmp_path / "backup.tgz"
    try:
        done("backup", file, f"--data-dir={server.data}")
        running = kapi("restore", file, f"--data-dir={server.data}")
        assert (running.returncode, "is in use by another kapi" in running.stderr) == (1, True)
    finally:
        server.stop()
    whole = file.read_bytes()
    (tmp_path / "cut.tgz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text").write_text("text")
    (tmp_path / "other.tgz").write_bytes(gzip.compress(b"x" * 2000))
    for name in ("cut.tgz", "text", "other.tgz", "none"):
        refused = kapi("restore", tmp_path / name, f"--data-dir={tmp_path / 'd'}")
        assert refused.returncode == 1
        assert refused.stderr.startswith(f"kapi: {tmp_path / name}: ") and refused.stderr.count("\n") == 1
        assert not (tmp_path / "d" / "pki").exists() and not (tmp_path / "d" / "store").exists()
    for arguments, words in (
        (("backup",), "the name of the file is missing"),
        (("backup", tmp_path / "x", f"--data-dir={tmp_path / 'nothing'}"), "there is no store in"),
        (("backup", "/nowhere/x", "--redis-servers=redis://127.0.0.1:1"), "No such file or directory"),
        (("backup", tmp_path / "x", "--redis-servers=redis://127.0.0.1:1"), "cannot connect"),
        (("restore", file, "--bump-revision=x"), "--bump-revision must be a number"),
        (("restore", file, "--nosuch"), "unknown flag: --nosuch"),
    ):
        refused = kapi(*arguments)
        assert refused.returncode == 1 and words in refused.stderr and "Traceback" not in refused.stderr
    assert list(tmp_path.glob("x*")) == []


def test_other_keys_are_not_written_over(tmp_path: Path) -> None:
    server, other = ForkedServer("--controllers=").start(), ForkedServer("--controllers=", directory=tmp_path / "other")
    file = tmp_path / "backup.tgz"
    try:
        done("backup", file, f"--data-dir={server.data}")
        other.start()
        other.end()
        key = (other.data / "pki" / "ca.key").read_bytes()
        refused = kapi("restore", file, f"--data-dir={other.data}")
        assert (refused.returncode, "is another one than in the backup" in refused.stderr) == (1, True)
        assert (other.data / "pki" / "ca.key").read_bytes() == key
    finally:
        server.stop()
        other.stop()


def test_a_backup_that_cannot_be_written_is_one_line_with_its_name(tmp_path: Path) -> None:
    """As on a full disk: here it is the limit of a file's size."""
    store = Server()
    try:
        refused = subprocess.run(
            [sys.executable, "-m", "kapi", "backup", str(tmp_path / "x.tgz"), f"--redis-servers={store.url}"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
        )
    finally:
        store.stop()
    *warned, line = refused.stderr.splitlines()
    assert (refused.returncode, line) == (1, f"kapi: {tmp_path / 'x.tgz'}: File too large")
    assert ["no keys are in" in line for line in warned] == [True]
    assert list(tmp_path.glob("x*")) == []


def test_an_interrupted_backup_leaves_nothing(tmp_path: Path) -> None:
    store = Server()
    store.process.send_signal(signal.SIGSTOP)  # so that it waits for an answer
    command = [sys.executable, "-m", "kapi", "backup", str(tmp_path / "x.tgz"), f"--redis-servers={store.url}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        end = time.monotonic() + 120
        while not list(tmp_path.glob("x.tgz.*")) and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 1
        assert process.stderr is not None and "interrupted" in process.stderr.read()
        assert list(tmp_path.glob("*")) == []
    finally:
        process.kill()
        process.wait()
        store.process.send_signal(signal.SIGCONT)
        store.stop()


def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    """Those of docs/operations.rst, with other paths, and without what needs a system with systemd and a user kapi."""
    page = (Path(__file__).parents[2] / "docs" / "operations.rst").read_text()
    section = page[page.index("\nBackup and restore\n") : page.index("\nEncryption at rest\n")]
    *lines, find, fix = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    assert [line.split()[0] for line in lines] == ["kapi", "systemctl", "mv", "kapi", "chown", "systemctl"]
    data, backups = tmp_path / "lib" / "kapi", tmp_path / "backups"
    backups.mkdir()
    (tmp_path / "kapi.conf").write_text(f"--data-dir={data}\n--bind-address=127.0.0.1\n--secure-port=0\n")
    server = ForkedServer(f"--data-dir={data}", "--controllers=")
    server.data = data
    data.parent.mkdir()

    def typed(line: str, answer: str = "") -> None:
        for there, here in (
            ("/var/backups", backups), ("/etc/kapi/kapi.conf", tmp_path / "kapi.conf"), ("/var/lib", data.parent),
            (".venv/bin/python", sys.executable),
            ("kapi:kapi", f"{os.getuid()}:{os.getgid()}"), ("kapi-2026-01-31.tgz", "kapi-$(date +%F).tgz"),
        ):  # fmt: skip
            line = line.replace(there, str(here))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path}
        ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, input=answer)
        assert ended.returncode == 0, (line, ended.stdout, ended.stderr)

    actions = iter((server.end, server.start))
    server.start()
    try:
        client = Client(server)
        assert client.create("kept")[0] == 201
        for line in lines:
            if line.startswith("systemctl"):
                client.close()
                next(actions)()
            else:
                typed(line)
        client = Client(server)
        assert client.names() >= {"kept"}
        client.close()
        server.end()
        with (data / "store" / "appendonlydir" / "appendonly.aof.1.incr.aof").open("ab") as file:
            file.write(bytes(100))
        typed(f"{find}\n{fix}", "y\n")
        server.start()
        client = Client(server)
        assert client.names() >= {"kept"}
        client.close()
    finally:
        server.stop()
