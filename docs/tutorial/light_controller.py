"""A controller: makes each light as bright as it is wanted, and reports it."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from kapi.client import DynamicClient, load_config
from kapi.runtime import SharedInformer, WorkQueue


class LightController:
    def __init__(self, client: DynamicClient, lights: Any) -> None:
        self.lights = lights
        self.queue: WorkQueue[str] = WorkQueue(client.session.reactor, "lights", self.reconcile)
        self.informer = SharedInformer(lights)
        self.informer.add_handler(self.seen, lambda old, new: self.seen(new))

    def seen(self, light: Any) -> None:
        self.queue.add(f"{light['metadata']['namespace']}/{light['metadata']['name']}")

    async def reconcile(self, key: str) -> None:
        """What fails is tried again by the queue, later each time."""
        light = self.informer.store.get(key)
        if light is None:
            return
        wanted = light["spec"]["brightness"]
        if light.get("status", {}).get("brightness") == wanted:
            return
        print(f"{key}: {wanted} %", flush=True)  # here a real one would speak to the lamp
        namespace, name = key.split("/")
        await self.lights.namespace(namespace).patch(name, {"status": {"brightness": wanted}}, subresource="status")


async def main(reactor: Any) -> None:
    client = DynamicClient.for_config(load_config(), reactor)
    controller = LightController(client, await client.resource("lights.example.com"))
    controller.informer.start()
    await Deferred()  # until Ctrl-C


if __name__ == "__main__":
    react(main)
