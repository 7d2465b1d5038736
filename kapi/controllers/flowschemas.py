"""Maintains the flow schemas and priority levels that every cluster has, and the Dangling condition of all schemas.

Ensures them at the start and every minute.  Part of the API server: ``--controllers`` does not switch it off.
Upstream: ``pkg/registry/flowcontrol/{rest,ensurer}``, apiserver ``pkg/apis/flowcontrol/bootstrap`` and
``util/flowcontrol/apf_controller.go`` (presyncFlowSchemaStatus).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Container, Iterable
from contextlib import suppress

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.watching import Ends, QueueController
from kapi.machinery import status
from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.resources.flowcontrol import bootstrap
from kapi.runtime.interface import Client, ResourceClient
from kapi.runtime.persistent import Persistent, Refusals

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")
GROUP = "flowcontrol.apiserver.k8s.io"
PRODUCER = "api-priority-and-fairness-config-producer-v1"
CONSUMER = "api-priority-and-fairness-config-consumer-v1"
_INTERVAL_SECONDS = 60.0
_MAX_STATUS_WRITES = 6  # for one schema in a minute: servers that disagree must not write without end
_MINUTE = 60.0
_PAUSE_SECONDS, _PAUSE_JITTER_SECONDS = 30.0, 45.0


def desired_levels() -> list[tuple[Object, bool]]:
    """(priority level, mandatory) of all levels that every cluster has."""
    return _desired(bootstrap.PRIORITY_LEVELS, bootstrap.SUGGESTED_PRIORITY_LEVELS)


def desired_schemas() -> list[tuple[Object, bool]]:
    return _desired(bootstrap.FLOW_SCHEMAS, bootstrap.SUGGESTED_FLOW_SCHEMAS)


def _desired(required: dict[str, Object], suggestions: dict[str, Object]) -> list[tuple[Object, bool]]:
    specs = [(name, spec, True) for name, spec in required.items()] + [
        (name, spec, False) for name, spec in suggestions.items()
    ]
    return [
        ({"metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}}, "spec": spec}, is_mandatory)
        for name, spec, is_mandatory in specs
    ]


def obsolete(objects: Iterable[Object], desired: Iterable[tuple[Object, bool]]) -> list[str]:
    """Names of objects that servers maintain, by their annotation, but that are not in ``desired``."""
    known = {obj["metadata"]["name"] for obj, _ in desired}
    return [
        obj["metadata"]["name"]
        for obj in objects
        if obj["metadata"]["name"] not in known and (obj["metadata"].get("annotations") or {}).get(AUTO_UPDATE) in _TRUE
    ]


def corrected(existing: Object, desired: Object, is_mandatory: bool) -> Object | None:
    """The patch that updates an existing object; None when it is up to date, or an operator maintains it."""
    metadata = existing["metadata"]
    annotation = (metadata.get("annotations") or {}).get(AUTO_UPDATE)
    if is_mandatory or annotation in _TRUE:
        update = True
    else:
        update = annotation not in _FALSE and metadata.get("generation") == 1
    patch: Object = {}
    spec = existing.get("spec") or {}
    if update and not _covers(spec, desired["spec"]):
        dropped = {name: None for name in spec if name not in desired["spec"]}
        patch["spec"] = {**desired["spec"], **dropped}
    is_known = annotation in (_TRUE if update else _FALSE)
    if not is_known:
        patch["metadata"] = {"annotations": {AUTO_UPDATE: "true" if update else "false"}}
    return patch or None


def _covers(spec: Object, desired: Object) -> bool:
    """Whether they are equal except for defaulted fields."""
    for name, value in desired.items():
        have = spec.get(name)
        if isinstance(value, dict):
            if not isinstance(have, dict) or not _covers(have, value):
                return False
        elif have != value:
            return False
    return all(name in desired or not value for name, value in spec.items() if name not in ("lendablePercent",))


def condition_patch(schema: Object, levels: Container[str], now: str) -> Object | None:
    """The status to apply, with whether the schema's priority level exists; None when the condition is up to date."""
    level = ((schema.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name", "")
    names = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    if level in levels:
        condition = {"type": "Dangling", "status": "False", "reason": "Found", "message": f"{names} and it exists"}
    else:
        text = f"{names} but there is no such object"
        condition = {"type": "Dangling", "status": "True", "reason": "NotFound", "message": text}
    conditions = (schema.get("status") or {}).get("conditions") or []
    for known in elements(conditions):
        if all(known.get(name) == value for name, value in condition.items()):
            return None
    condition["lastTransitionTime"] = now
    return {"status": {"conditions": [condition]}}


class FlowSchemaController(QueueController[str]):
    """``producer`` and ``consumer`` write under the names of upstream's two parts.  ``jitter``: random, from 0 to 1."""

    name = "priority-and-fairness-config-producer"

    def __init__(
        self,
        producer: Client,
        consumer: Client,
        reactor: IReactorTime,
        now: Callable[[], str],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._reactor, self._jitter = reactor, jitter
        self._written: dict[str, deque[float]] = {}  # times of the last status writes of a schema, oldest first
        self._schemas = producer.resource(GROUP, "flowschemas")
        self._levels = producer.resource(GROUP, "prioritylevelconfigurations")
        self._statuses = consumer.resource(GROUP, "flowschemas")
        self._now = now
        self._ensuring = Persistent(self.name, self._ensure_all, reactor, _INTERVAL_SECONDS)
        super().__init__(reactor)

    def _watches(self) -> Ends:
        return [self._schemas.watch(self._schema_changed), self._levels.watch(self._level_changed)]

    async def start(self) -> None:
        await self._ensuring.start()
        await super().start()

    def stop(self) -> None:
        self._ensuring.stop()
        super().stop()

    def _schema_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event != "DELETED":
            self._queue.add(obj["metadata"]["name"])

    def _level_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event == "MODIFIED":
            return
        for schema in self._schemas.lister.list():
            self._queue.add(schema["metadata"]["name"])

    async def _handle(self, key: str) -> float | None:
        schema = self._schemas.lister.get("", key)
        if schema is None:
            self._written.pop(key, None)
            return None
        levels = {level["metadata"]["name"] for level in self._levels.lister.list()}
        patch = condition_patch(schema, levels, self._now())
        if patch is not None:
            now = self._reactor.seconds()
            written = self._written.setdefault(key, deque(maxlen=_MAX_STATUS_WRITES))
            if len(written) == _MAX_STATUS_WRITES and now - written[0] <= _MINUTE:
                return _PAUSE_SECONDS + _PAUSE_JITTER_SECONDS * self._jitter()
            written.append(now)
            try:
                await self._statuses.apply(key, patch, subresource="status")
            except status.NotFound:
                return None
        return None

    async def _ensure_all(self) -> None:
        refusals = Refusals()
        levels, schemas = (self._levels, desired_levels()), (self._schemas, desired_schemas())
        for resource, known in (levels, schemas):
            for desired, is_mandatory in known:
                with refusals:
                    await self._ensure(resource, desired, is_mandatory)
        for resource, known in (schemas, levels):
            for name in obsolete(resource.lister.list(), known):
                with refusals, suppress(status.NotFound):
                    await resource.delete(name)
        refusals.check()

    async def _ensure(self, resource: ResourceClient, desired: Object, is_mandatory: bool) -> None:
        name = desired["metadata"]["name"]
        existing = resource.lister.get("", name)
        if existing is None:
            try:
                await resource.create(desired)
            except status.AlreadyExists:
                pass  # another server was faster
            return
        patch = corrected(existing, desired, is_mandatory)
        if patch is not None:
            await resource.patch(name, patch)
