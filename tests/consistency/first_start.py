"""``python -m tests.consistency.first_start``: servers that are killed at random moments of their first start.

The next start must find out what was made and make the rest: keys, certificates and kubeconfig, the store, and all objects of a
start that nothing has disturbed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.integration.server_process import Kubectl, ServerProcess, kubectl_path
from tests.security.built_in import Admin, unserved
from tests.waiting import until

SETTLED_SECONDS = 60.0  # until controllers have made what is missing


class FirstStart:
    """``kind`` is how servers are started.  ``seconds`` is how long a first start takes that nothing disturbs."""

    def __init__(self, kind: type[ServerProcess]) -> None:
        self._kind = kind
        self.seconds = 0.0
        self._made: set[str] = set()

    def measure(self) -> None:
        directory = Path(tempfile.mkdtemp(prefix="kapi-first-"))
        server = self._kind(directory=directory)
        try:
            begun = time.monotonic()
            admin = Admin(server.start())
            self.seconds = time.monotonic() - begun
            before: set[str] = set()
            while before != self._made or not complete(before):  # controllers are still at work
                before = self._made
                time.sleep(0.5)
                self._made = objects(admin)
        finally:
            server.end(signal.SIGKILL)
            shutil.rmtree(directory, ignore_errors=True)

    def interrupted(self, seconds: float) -> None:
        """Kills a first start after so many seconds, and starts again.  Fails when something is missing then."""
        directory = Path(tempfile.mkdtemp(prefix="kapi-first-"))
        server = self._kind(directory=directory)
        try:
            server.process = server._spawn()
            time.sleep(seconds)
            server.end(signal.SIGKILL)
            server = self._kind(directory=directory)
            admin = Admin(server.start(SETTLED_SECONDS))
            assert not unserved(admin)
            until(lambda: objects(admin) == self._made, SETTLED_SECONDS, state=lambda: objects(admin) ^ self._made)
            kubectl = kubectl_path()
            if kubectl is not None:
                assert Kubectl(server, kubectl).run("get", "--raw", "/readyz") == "ok"
        finally:
            server.end(signal.SIGKILL)
            shutil.rmtree(directory, ignore_errors=True)


def complete(made: set[str]) -> bool:
    """Whether what the server makes when it is ready is among these, however long that takes."""
    namespaces = [each.rpartition("/")[2] for each in made if each.startswith("/api/v1/namespaces ")]
    known = {
        f"/api/v1/{what}"
        for name in namespaces
        for what in (f"configmaps {name}/kube-root-ca.crt", f"serviceaccounts {name}/default")
    }
    lease = "/apis/coordination.k8s.io/v1/leases kube-system/apiserver-"
    return known <= made and any(each.startswith(lease) for each in made)


def objects(admin: Admin) -> set[str]:
    """The paths of all objects, but for Events."""
    found = set()
    for root in ("/api/v1", *(f"/apis/{name}" for name in admin.versions())):
        for each in admin.get(root)["resources"]:
            if "list" in each["verbs"] and each["name"] != "events":
                items = admin.get(f"{root}/{each['name']}")["items"]
                names = (f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}" for item in items)
                found |= {f"{root}/{each['name']} {name}" for name in names}
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.consistency.first_start", description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(1 << 30) if options.seed is None else options.seed
    chosen, failures = random.Random(seed), 0
    start = FirstStart(ServerProcess)
    start.measure()
    print(f"seed {seed}, a first start takes {start.seconds:.2f} s", flush=True)
    for number in range(options.times):
        seconds = chosen.uniform(0, 1.1 * start.seconds)
        try:
            start.interrupted(seconds)
        except (AssertionError, RuntimeError) as error:
            failures += 1
            print(f"  FAILURE {number}, killed after {seconds:.3f} s: {error}", flush=True)
    print(f"{options.times} first starts were killed, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
