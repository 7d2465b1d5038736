"""Keeps the APIServices of what is served here registered.

Upstream: kube-aggregator ``autoregister`` and apiextensions ``crdregistration``.  It talks to nobody but the store, so that
no server elsewhere can make a new custom resource wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.aggregator import registration
from kapi.aggregator.registration import service_name
from kapi.client.interface import ResourceClient
from kapi.client.workqueue import WorkQueue
from kapi.machinery import status
from kapi.machinery.gvk import GroupVersion

GROUP = "apiregistration.k8s.io"
WORKERS = 5


class AutoRegistration:
    """``built_in`` gives the built-in group versions, ``custom`` those of custom resources, ``is_custom`` says whether one
    is of these; all as of now.
    """

    log = Logger()

    def __init__(
        self,
        services: ResourceClient,
        reactor: IReactorTime,
        *,
        built_in: Callable[[], Iterable[GroupVersion]],
        custom: Callable[[], Iterable[GroupVersion]],
        is_custom: Callable[[GroupVersion], bool],
    ) -> None:
        self._services = services
        self._built_in = built_in
        self._custom = custom
        self._is_custom = is_custom
        self._queue: WorkQueue[GroupVersion] = WorkQueue(reactor, "autoregister", self._register, WORKERS)
        self.complete = False

    async def start(self) -> None:
        """Done when everything served here has its APIService."""
        wanted = [registration.built_in(gv) for gv in self._built_in() if gv.group != GROUP]
        wanted += [registration.custom(gv) for gv in self._custom()]
        by_name = {obj["metadata"]["name"]: obj for obj in wanted}
        existing = {obj["metadata"]["name"]: obj for obj in self._services.lister.list()}
        for name in [*by_name, *(name for name in existing if name not in by_name)]:
            await self._write(registration.decide(by_name.get(name), existing.get(name), starting=True))
        self.complete = True

    def stop(self) -> None:
        self._queue.stop()

    def look_at(self, gv: GroupVersion) -> None:
        """A custom resource of a group version, or its APIService, came, went or changed."""
        if self.complete:
            self._queue.add(gv)

    async def _register(self, gv: GroupVersion) -> None:
        wanted = registration.custom(gv) if self._is_custom(gv) else None
        found = self._services.lister.get("", service_name(gv))
        await self._write(registration.decide(wanted, found, starting=False))

    async def _write(self, change: registration.Change | None) -> None:
        if change is None:
            return
        obj = change.service
        if change.verb == "create":
            await self._tolerate(self._services.create(obj), status.AlreadyExists)
        elif change.verb == "update":
            await self._tolerate(self._services.update(obj), status.Conflict, status.NotFound)
        else:
            options = {"preconditions": {"uid": obj["metadata"]["uid"]}}
            deletion = self._services.delete(obj["metadata"]["name"], options=options)
            await self._tolerate(deletion, status.Conflict, status.NotFound)

    async def _tolerate(self, action: Awaitable[object], *errors: type[status.StatusError]) -> None:
        """Ignores the error: an event of the object is on its way and adds the key to the queue again."""
        try:
            await action
        except errors as error:
            self.log.info("apiservice: {message}", message=error.message)
