"""One noisy client beside a quiet one: ``python -m tests.flowcontrol.benchmark [SECONDS]``.

Prints the quiet client's latencies alone and beside a flood of 100 connections, with priority and fairness and with plain
in-flight limits.  The load generator is another process on the same machine, so figures of small machines are harsh.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.store.servers import free_port

ROOT = Path(__file__).parents[2]
CONNECTIONS = 100
PATH = "/api/v1/namespaces/default/configmaps"


class Connection:
    """One keep-alive connection."""

    def __init__(self, port: int, token: str, authority: str) -> None:
        self.port, self.token = port, token
        self.context = ssl.create_default_context(cafile=authority)

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context)

    async def ask(self, path: str, method: str = "GET", body: bytes = b"") -> int:
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await self.reader.readexactly(length)
        return int(answer.split(b" ", 2)[1])


async def flood(port: int, authority: str) -> None:
    async def one() -> None:
        connection = Connection(port, "noisy", authority)
        await connection.open()
        while True:
            if await connection.ask(PATH + "?resourceVersion=0") == 429:
                await asyncio.sleep(0.1)

    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))


async def quiet(port: int, authority: str, seconds: float) -> list[float]:
    """Milliseconds of each of a hundred requests a second, sorted."""
    connection = Connection(port, "quiet", authority)
    await connection.open()
    took: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        assert await connection.ask(f"{PATH}/c0") == 200
        took.append((time.perf_counter() - start) * 1000)
        await asyncio.sleep(0.01)
    return sorted(took)


async def fill(port: int, authority: str) -> None:
    connection = Connection(port, "admin", authority)
    await connection.open()
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "bench"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "bench"}],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    assert await connection.ask(path, "POST", json.dumps(binding).encode()) == 201
    for n in range(20):
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{n}"}, "data": {"x": "y" * 500}}
        assert await connection.ask(PATH, "POST", json.dumps(obj).encode()) == 201


@contextmanager
def server(*flags: str) -> Iterator[tuple[int, str]]:
    directory = Path(tempfile.mkdtemp())
    (directory / "tokens").write_text('admin,a,1,"system:masters"\nnoisy,noisy,2,"bench"\nquiet,quiet,3,"bench"\n')
    port = free_port()
    command = [
        str(Path(sys.executable).with_name("twistd")), "-n", "--pidfile=", "kapi", f"--data-dir={directory}/data",
        f"--secure-port={port}", "--bind-address=127.0.0.1", f"--token-auth-file={directory}/tokens", "--controllers=",
        "--authorization-mode=Node,RBAC", *flags,
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "KUBECONFIG" in line:
                break
        yield port, str(directory / "data" / "pki" / "ca.crt")
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def show(title: str, took: list[float]) -> None:
    print(f"  {title:12} p50 {took[len(took) // 2]:6.1f} ms, p99 {took[int(len(took) * 0.99)]:6.1f} ms")


def main(seconds: float) -> None:
    for title, flags in (
        ("priority and fairness", ()),
        ("in-flight limits", ("--enable-priority-and-fairness=false",)),
    ):
        print(title)
        with server(*flags) as (port, authority):
            asyncio.run(fill(port, authority))
            show("alone", asyncio.run(quiet(port, authority, seconds)))
            noise = subprocess.Popen([sys.executable, "-m", __spec__.name, "flood", str(port), authority], cwd=ROOT)
            try:
                time.sleep(2)
                show("beside noise", asyncio.run(quiet(port, authority, seconds)))
            finally:
                noise.kill()
                noise.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["flood"]:
        os.nice(19)  # the noise is meant for the server, not for the client beside it
        asyncio.run(flood(int(sys.argv[2]), sys.argv[3]))
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0)
