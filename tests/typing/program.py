"""A program as users write it, on public names alone: mypy (pyproject.toml) checks it with the sources.  It is not run."""

from __future__ import annotations

from twisted.application.service import Application
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import react
from twisted.web.server import Site

import kapi
from kapi.client import (
    Config,
    Conflict,
    DynamicClient,
    NotFound,
    ResourceInterface,
    RESTClient,
    WatchEvent,
    condition_is,
    load_config,
)
from kapi.process.reactor import Reactor
from kapi.runtime import EventRecorder, LeaderElector, SharedInformer, WorkQueue
from kapi.testing import KapiProcess, MemoryAPI, memory_client

VERSION: str = kapi.__version__


async def read(reactor: Reactor) -> list[str]:
    config: Config = load_config().replace(qps=50, burst=100)
    client = RESTClient.for_config(config, "v1", reactor)
    pods = await client.get().namespace("default").resource("pods").do()
    watch = await client.get().resource("pods").param("resourceVersion", "0").watch()
    async for event in watch:
        changed: WatchEvent = event
        print(changed.type, changed.object["metadata"]["name"])
    return [pod["metadata"]["name"] for pod in pods["items"]]


async def write(reactor: Reactor) -> None:
    client = DynamicClient.for_config(load_config(), reactor)
    deployments: ResourceInterface = (await client.resource("deployments")).namespace("default")
    try:
        await deployments.patch("web", {"spec": {"replicas": 3}})
        await deployments.wait("web", condition_is("Available"), timeout=60)
    except NotFound:
        await deployments.create({"metadata": {"name": "web"}})
    except Conflict as error:
        print(error.message)


async def follow(client: DynamicClient, reactor: IReactorTime) -> None:
    async def reconcile(name: str) -> None:
        print(name)

    queue: WorkQueue[str] = WorkQueue(reactor, "pods", reconcile)
    pods = await client.resource("pods")
    informer = SharedInformer(pods, indices={"node": lambda pod: [pod["spec"].get("nodeName", "")]})
    informer.add_handler(on_add=lambda pod: queue.add(pod["metadata"]["name"]))
    informer.start()
    await informer.synced()
    print(informer.store.by_index("node", "n1"), EventRecorder, LeaderElector)


async def in_memory() -> DynamicClient:
    api = await MemoryAPI.started()
    return memory_client(api)


def serve() -> None:
    application = Application("api")
    api = kapi.resource("--data-dir=/var/lib/kapi")
    api.service.setServiceParent(application)  # type: ignore[no-untyped-call]  # of Twisted's Service
    Site(api)


def in_a_process() -> str:
    with KapiProcess("--feature-gates=AllAlpha=true") as server:
        return server.url


if __name__ == "__main__":
    react(read)
