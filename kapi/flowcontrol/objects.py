"""Keeps the bootstrap objects and the schemas' Dangling condition as they should be (upstream: ``storage/rest`` of
flowcontrol, ``apf_controller.go``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from kapi.client.interface import Client, ResourceClient
from kapi.flowcontrol import bootstrap
from kapi.flowcontrol.bootstrap import AUTO_UPDATE, GROUP
from kapi.flowcontrol.controller import FlowController
from kapi.machinery import status, tree

Object = dict[str, Any]
log = Logger()

ENSURE_EVERY = 60.0  # seconds
_MANDATORY = frozenset({"exempt", "catch-all"})


class Producer:
    """Makes the objects that must be there.  ``client`` writes as the config producer."""

    def __init__(self, client: Client, reactor: Any) -> None:
        self._levels = client.resource(GROUP, "prioritylevelconfigurations")
        self._schemas = client.resource(GROUP, "flowschemas")
        self._loop = LoopingCall(lambda: Deferred.fromCoroutine(self._again()))
        self._loop.clock = reactor

    async def start(self) -> None:
        """Done when all objects are there; goes on to look after them."""
        await self.ensure()
        self._loop.start(ENSURE_EVERY, now=False)

    def stop(self) -> None:
        if self._loop.running:
            self._loop.stop()

    async def _again(self) -> None:
        try:
            await self.ensure()
        except status.StatusError as error:
            log.error("flow control objects could not be ensured: {error}", error=str(error))

    async def ensure(self) -> None:
        """Raises StatusError when the store is away."""
        for mandatory in (True, False):
            for obj in bootstrap.levels(mandatory=mandatory):
                await _ensure(self._levels, obj, mandatory)
            for obj in bootstrap.schemas(mandatory=mandatory):
                await _ensure(self._schemas, obj, mandatory)


async def _ensure(client: ResourceClient, wanted: Object, mandatory: bool) -> None:
    name = wanted["metadata"]["name"]
    current = client.lister.get("", name)
    if current is None:
        try:
            await client.create(tree.copy(wanted))
        except status.AlreadyExists:
            pass
        return
    annotation = (current["metadata"].get("annotations") or {}).get(AUTO_UPDATE)
    if mandatory:
        follows = True
    elif annotation in ("true", "false"):
        follows = annotation == "true"
    else:
        follows = current["metadata"].get("generation", 1) == 1  # nobody has touched it
    text = "true" if follows else "false"
    if annotation == text and (not follows or current["spec"] == wanted["spec"]):
        return
    new = tree.copy(current)
    new["metadata"].setdefault("annotations", {})[AUTO_UPDATE] = text
    if follows:
        new["spec"] = tree.copy(wanted["spec"])
    try:
        await client.update(new)
    except (status.Conflict, status.NotFound):
        pass  # the next look will see


class Consumer:
    """Feeds the controller from the watch caches and writes the Dangling condition.  ``now`` gives RFC 3339."""

    def __init__(self, client: Client, controller: FlowController, now: Callable[[], str] | None = None) -> None:
        self._client = client
        self._controller = controller
        self._now = now or (lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        self._stops: list[Callable[[], None]] = []
        self._writing: set[str] = set()

    def start(self) -> None:
        self._controller.on_configured = self._configured
        levels = self._client.resource(GROUP, "prioritylevelconfigurations")
        self._stops.append(levels.watch(self._controller.level_changed))
        self._stops.append(self._client.resource(GROUP, "flowschemas").watch(self._controller.schema_changed))
        self._controller.start()

    def stop(self) -> None:
        for stop in self._stops:
            stop()
        self._controller.stop()

    def _configured(self, schemas: list[Object], levels: frozenset[str]) -> None:
        for schema in schemas:
            name = schema["metadata"]["name"]
            if name in self._writing:
                continue
            condition = dangling(schema, levels, self._now)
            if condition is not None:
                self._writing.add(name)
                writing = Deferred.fromCoroutine(self._write(name, condition))
                writing.addErrback(lambda failure: log.failure("writing a FlowSchema's status failed", failure))

    async def _write(self, name: str, condition: Object) -> None:
        try:
            patch = {"status": {"conditions": [condition]}}
            await self._client.resource(GROUP, "flowschemas").patch(name, patch, subresource="status")
        except status.NotFound:
            pass
        except status.StatusError as error:
            log.info("FlowSchema {name}: {error}", name=name, error=str(error))
        finally:
            self._writing.discard(name)


def dangling(schema: Object, levels: frozenset[str], now: Callable[[], str]) -> Object | None:
    """The condition that a FlowSchema should have; None when it has it."""
    level = schema["spec"]["priorityLevelConfiguration"]["name"]
    there = level in levels or level in _MANDATORY
    about = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    wanted = {
        "type": "Dangling",
        "status": "False" if there else "True",
        "reason": "Found" if there else "NotFound",
        "message": f"{about} and it exists" if there else f"{about} but there is no such object",
    }
    for condition in (schema.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Dangling" and all(condition.get(key) == value for key, value in wanted.items()):
            return None
    return {
        "type": wanted["type"], "status": wanted["status"], "lastTransitionTime": now(), "reason": wanted["reason"],
        "message": wanted["message"],
    }  # fmt: skip
