"""A controller: each Namespace with the label ``team`` has a ConfigMap ``team`` with the team's name."""

import sys
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.logger import globalLogBeginner, textFileLogObserver

from kapi.client import DynamicClient, load_config
from kapi.runtime import EventRecorder, SharedInformer, WorkQueue

NAME = "team"


class TeamController:
    def __init__(self, client: DynamicClient, namespaces: Any, maps: Any) -> None:
        reactor = client.session.reactor
        self.queue: WorkQueue[str] = WorkQueue(reactor, "team", self.reconcile)
        self.recorder = EventRecorder(client, "team-controller")
        self.maps = maps
        self.namespaces = SharedInformer(namespaces, label_selector="team")
        self.copies = SharedInformer(maps, field_selector=f"metadata.name={NAME}")
        self.namespaces.add_handler(self.changed, lambda old, new: self.changed(new))
        self.copies.add_handler(None, lambda old, new: self.copied(new), self.copied)

    def changed(self, namespace: Any) -> None:
        self.queue.add(namespace["metadata"]["name"])

    def copied(self, copy: Any) -> None:
        self.queue.add(copy["metadata"]["namespace"])

    async def run(self) -> None:
        for informer in (self.namespaces, self.copies):
            informer.start()
            await informer.synced()

    async def reconcile(self, key: str) -> None:
        """After an error the queue calls it again, with growing delays."""
        namespace = self.namespaces.store.get(key)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return
        team = namespace["metadata"]["labels"]["team"]
        copy = self.copies.store.get(f"{key}/{NAME}")
        if copy is not None and copy.get("data") == {"name": team}:
            return
        desired = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"name": team}}
        await self.maps.namespace(key).apply(NAME, desired, manager="team-controller", force=True)
        self.recorder.event(namespace, "Normal", "TeamWritten", f"the team is {team}")


async def main(reactor: Any) -> None:
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stderr)])
    client = DynamicClient.for_config(load_config(), reactor)
    controller = TeamController(client, await client.resource("namespaces"), await client.resource("configmaps"))
    await controller.run()
    await Deferred()  # until Ctrl-C


if __name__ == "__main__":
    react(main)
