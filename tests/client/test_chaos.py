"""A server that is killed under informers, and the tutorial's controller against a real server."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from kapi.client.clientcmd import load_config
from kapi.client.dynamic import DynamicClient
from kapi.client.errors import ClientError, StatusError
from kapi.runtime.informer import SharedInformer
from tests import fork_server
from tests.integration.server_process import ForkedServer
from tests.store.servers import free_port
from tests.waiting import eventually, until

INFORMERS, KILLS, OBJECTS = 20, 3, 30
EXAMPLE = Path(__file__).parents[2] / "docs" / "example_controller.py"


class Witness:
    """One informer, and whether it is told of a version twice."""

    def __init__(self, client: DynamicClient, resource: Any) -> None:
        self.client = client
        self.informer = SharedInformer(resource)
        self.told: set[tuple[str, str, str]] = set()
        self.twice: list[Any] = []
        self.view: dict[str, str] = {}
        self.informer.add_handler(
            lambda obj: self.tell("add", obj), lambda old, new: self.tell("update", new), self.gone
        )
        self.informer.start()

    def tell(self, what: str, obj: Any) -> None:
        metadata = obj["metadata"]
        version = ("", metadata["uid"], metadata["resourceVersion"])
        if version in self.told:
            self.twice.append((what, version))
        self.told.add(version)
        self.view[metadata["name"]] = metadata["resourceVersion"]

    def gone(self, obj: Any) -> None:
        metadata = obj["metadata"]
        if self.view.pop(metadata["name"], None) is None:
            self.twice.append(("delete", metadata["name"]))


class ChaosCase(TestCase):
    async def setUp(self) -> None:
        self.kapi = ForkedServer()
        self.kapi.flags.append(f"--secure-port={free_port()}")
        await deferToThread(self.kapi.start)
        self.clients: list[DynamicClient] = []
        self.writing = True

    async def tearDown(self) -> None:
        for client in self.clients:
            await client.close()
        await deferToThread(self.kapi.stop)
        await deferLater(reactor, 0.05)  # type: ignore[arg-type]
        for warning in self.flushWarnings():
            if warning["category"] is ResourceWarning:  # of another test, which the collector finds while this one runs
                continue
            self.assertIn("pyOpenSSL", str(warning["message"]))

    def client(self) -> DynamicClient:
        config = load_config(reactor, kubeconfig=str(self.kapi.kubeconfig), qps=0)
        client = DynamicClient.for_config(config, reactor)
        self.clients.append(client)
        return client

    async def write(self, maps: Any, rng: random.Random) -> None:
        """Writes while ``self.writing``; what fails while the server is away is left."""
        number = 0
        while self.writing:
            number += 1
            name = f"m{rng.randrange(OBJECTS)}"
            try:
                if rng.random() < 0.2:
                    await maps.delete(name)
                else:
                    obj = {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "metadata": {"name": name},
                        "data": {"n": str(number)},
                    }
                    await maps.apply(name, obj, manager="chaos")
            except (StatusError, ClientError):
                await deferLater(reactor, 0.02)  # type: ignore[arg-type]
            await deferLater(reactor, 0.005)  # type: ignore[arg-type]

    async def test_informers_converge_when_the_server_is_killed(self) -> None:
        """Twenty of them; none is told of a version twice, and at the end each holds what the store holds."""
        witnesses = []
        for _ in range(INFORMERS):
            client = self.client()
            maps = (await client.resource("configmaps")).namespace("default")
            witnesses.append(Witness(client, maps))
        for witness in witnesses:
            await witness.informer.synced()
        writer = Deferred.fromCoroutine(self.write(witnesses[0].informer.resource, random.Random(1)))
        for _ in range(KILLS):
            seen = sum(len(one.told) for one in witnesses)
            await eventually(lambda seen=seen: sum(len(one.told) for one in witnesses) > seen + 10 * INFORMERS)
            await deferToThread(self.kapi.end, signal.SIGKILL)
            await deferToThread(self.kapi.start)
        seen = sum(len(one.told) for one in witnesses)
        await eventually(lambda: sum(len(one.told) for one in witnesses) > seen + 10 * INFORMERS)
        self.writing = False  # a write that is cancelled might be done after the list
        await writer
        page = await witnesses[0].informer.resource.list()
        stored = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in page["items"]}
        await eventually(lambda: all(one.view == stored for one in witnesses))
        for witness in witnesses:
            witness.informer.stop()
            self.assertEqual(witness.view, stored)
            self.assertEqual(
                {key.partition("/")[2]: obj["metadata"]["resourceVersion"] for key, obj in _items(witness.informer)},
                stored,
            )
            self.assertEqual(witness.twice, [])
            self.assertGreater(len(witness.told), 30)


def _items(informer: SharedInformer) -> list[tuple[str, Any]]:
    return [(key, informer.store.get(key)) for key in informer.store.keys()]


def test_the_tutorials_controller_does_what_it_says() -> None:
    """in sixty lines, blank ones aside"""
    code = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]
    assert len(code) <= 60
    with ForkedServer() as kapi:
        environment = kapi.environment()

        def run(*arguments: str) -> str:
            return fork_server.run(list(arguments), env=environment).stdout

        def becomes(text: str, *arguments: str) -> None:
            until(lambda: run(*arguments) == text)

        manifest = kapi.root / "ns.yaml"
        manifest.write_text(
            '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"team": "red"}}}'
        )
        assert run("create", "-f", str(manifest)) == "namespace/n created\n"
        with subprocess.Popen([sys.executable, str(EXAMPLE)], env=environment, stderr=subprocess.DEVNULL) as controller:
            try:
                becomes("red", "get", "cm", "team", "-n", "n", "-o", "jsonpath={.data.name}")
                run("delete", "cm", "team", "-n", "n")
                becomes("red", "get", "cm", "team", "-n", "n", "-o", "jsonpath={.data.name}")
                manifest.write_text(manifest.read_text().replace("red", "blue"))
                run("apply", "--server-side", "--force-conflicts", "-f", str(manifest))
                becomes("blue", "get", "cm", "team", "-n", "n", "-o", "jsonpath={.data.name}")
                reasons = "jsonpath={range .items[*]}{.reason}{end}"
                assert "TeamWritten" in run("get", "events", "-o", reasons)
            finally:
                os.kill(controller.pid, signal.SIGTERM)
                controller.wait(120)
