"""Creates and deletes the APIServices of the group versions that this process serves.

Upstream: kube-aggregator ``autoregister`` and apiextensions ``crdregistration``.  It makes no requests to other servers, so
that none of them can delay a new custom resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.machinery import status
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.runtime.interface import ResourceClient
from kapi.runtime.persistent import all_of
from kapi.runtime.workqueue import WorkQueue
from kapi.servers.aggregator import registration
from kapi.servers.aggregator.registration import service_name

GROUP = "apiregistration.k8s.io"
WORKERS = 5
_MAX_ATTEMPTS = 5
_PASSING = (status.AlreadyExists, status.Conflict, status.NotFound)  # another writer was faster


class AutoRegistration:
    """``built_in`` returns the built-in group versions, ``custom`` those of custom resources, ``is_custom`` whether one is
    among the latter; all return the current state.
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
        self.complete = False  # set when all that exist at the start have been registered, or refused

    async def register_all(self) -> None:
        """Makes, corrects and removes APIServices as the served group versions demand.

        Raises StatusError when a write is refused; the others are made all the same.
        """
        desired = [registration.built_in(gv) for gv in self._built_in() if gv.group != GROUP]
        desired += [registration.custom(gv) for gv in self._custom()]
        by_name = {obj["metadata"]["name"]: obj for obj in desired}
        names = {*by_name, *(obj["metadata"]["name"] for obj in self._services.lister.list())}
        await all_of(self._put_right(name, by_name.get(name)) for name in sorted(names))

    async def _put_right(self, name: str, desired: Object | None) -> None:
        """Raises Conflict when others, such as the controller of its status, write the APIService again and again."""
        for _ in range(_MAX_ATTEMPTS):
            change = registration.decide(desired, self._services.lister.get("", name), starting=True)
            try:
                return None if change is None else await self._write(change)
            except _PASSING as error:
                passing = error
        raise passing

    def stop(self) -> None:
        self._queue.stop()

    def enqueue(self, gv: GroupVersion) -> None:
        """Call it when a custom resource of a group version, or its APIService, was added, changed or removed."""
        if self.complete:
            self._queue.add(gv)

    async def _register(self, gv: GroupVersion) -> None:
        desired = registration.custom(gv) if self._is_custom(gv) else None
        change = registration.decide(desired, self._services.lister.get("", service_name(gv)), starting=False)
        if change is None:
            return
        try:
            await self._write(change)
        except _PASSING as error:  # an event of the object will follow and add the key to the queue again
            self.log.info("apiservice: {message}", message=error.message)

    async def _write(self, change: registration.Change) -> None:
        obj = change.service
        if change.verb == "create":
            await self._services.create(obj)
        elif change.verb == "update":
            await self._services.update(obj)
        else:
            options = {"preconditions": {"uid": obj["metadata"]["uid"]}}
            await self._services.delete(obj["metadata"]["name"], options=options)
