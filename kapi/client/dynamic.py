"""Objects of any resource as plain trees (upstream: client-go ``dynamic``).

::

    client = DynamicClient.for_config(load_config(), reactor)
    deployments = (await client.resource("deployments.apps")).namespace("default")
    await deployments.apply("web", manifest, manager="me")
    async for item in deployments.items(label_selector="app=web"):
        ...
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Callable, Iterable

from twisted.internet.defer import Deferred, TimeoutError

from kapi.client.config import Config
from kapi.client.discovery import APIResource, Discovery
from kapi.client.errors import ConnectionFailed, RequestTimeout
from kapi.client.mapper import RESTMapper
from kapi.client.rest import PatchType, Request, RESTClient
from kapi.client.session import Session, base_path
from kapi.client.watching import Watch
from kapi.machinery.status import Expired, NotFound, StatusError
from kapi.machinery.tree import Object
from kapi.process.reactor import Reactor
from kapi.wire.transport import Stream, Transport

PAGE_SIZE = 500  # objects


class DynamicClient:
    """Finds resources by kubectl's names, or by an APIResource."""

    def __init__(self, session: Session, mapper: RESTMapper | None = None) -> None:
        self.session = session
        self.mapper = mapper or RESTMapper(Discovery(session))

    @classmethod
    def for_config(
        cls, config: Config, reactor: Reactor | None = None, *, transport: Transport | None = None
    ) -> DynamicClient:
        return cls(Session.for_config(config, reactor, transport=transport))

    async def resource(self, text: str) -> ResourceInterface:
        """``pods``, ``deploy``, ``deployments.v1.apps``, ``Deployment``.  Raises NoMatch."""
        return ResourceInterface(self.session, await self.mapper.resource_for(text))

    def of(self, resource: APIResource) -> ResourceInterface:
        return ResourceInterface(self.session, resource)

    async def for_object(self, obj: Object) -> ResourceInterface:
        """The resource of an object, in the object's namespace.  Raises NoMatch."""
        resource = await self.mapper.kind_for(str(obj.get("apiVersion") or ""), str(obj.get("kind") or ""))
        namespace = str((obj.get("metadata") or {}).get("namespace") or "")
        return self.of(resource).namespace(namespace if resource.namespaced else "")

    def close(self) -> Deferred[None]:
        return self.session.close()


class ResourceInterface:
    """One resource, in one namespace or in all ("").  Methods raise StatusError and ClientError."""

    def __init__(self, session: Session, resource: APIResource, namespace: str = "") -> None:
        self.session, self.resource, self.in_namespace = session, resource, namespace
        self._client = RESTClient(session, base_path(resource.group_version))

    def namespace(self, namespace: str) -> ResourceInterface:
        return ResourceInterface(self.session, self.resource, namespace)

    def _to(self, request: Request, name: str = "", subresource: str = "") -> Request:
        request = request.namespace(self.in_namespace).resource(self.resource.name)
        if name:
            request = request.name(name)
        return request.subresource(subresource)

    async def get(self, name: str, subresource: str = "", **options: object) -> Object:
        """``options`` are query parameters under their names in the API, here and below."""
        if not name:
            raise ValueError("name is required")
        return _tree(await self._to(self._client.get(), name, subresource).params(options).do())

    async def list(
        self, *, label_selector: str = "", field_selector: str = "", limit: int = 0, continue_token: str = "",
        resource_version: str = "", resource_version_match: str = "",
    ) -> Object:  # fmt: skip
        """One page: the List that the server answers with."""
        request = self._to(self._client.get()).params(
            {
                "labelSelector": label_selector,
                "fieldSelector": field_selector,
                "limit": limit or None,
                "continue": continue_token,
                "resourceVersion": resource_version,
                "resourceVersionMatch": resource_version_match,
            }
        )
        return _tree(await request.do())

    async def pages(self, *, limit: int = PAGE_SIZE, **selection: str) -> AsyncIterator[Object]:
        """All pages of a list; when the continue token has expired, the complete list in one page (as client-go's pager)."""
        token = ""
        while True:
            try:
                page = await self.list(limit=limit, continue_token=token, **selection)
            except Expired:
                if not token:
                    raise
                yield await self.list(**selection)  # type: ignore[arg-type]
                return
            yield page
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    async def items(self, *, limit: int = PAGE_SIZE, **selection: str) -> AsyncIterator[Object]:
        """All objects of a list; some come twice when the continue token expired."""
        async for page in self.pages(limit=limit, **selection):
            for item in page.get("items") or ():
                yield item

    async def create(self, obj: Object, subresource: str = "", name: str = "", **options: object) -> Object:
        return _tree(await self._to(self._client.post(), name, subresource).params(options).body(obj).do())

    async def update(self, obj: Object, subresource: str = "", **options: object) -> Object:
        """Replaces an object.  Raises Conflict when it has another resourceVersion than the stored object."""
        name = obj["metadata"]["name"]
        return _tree(await self._to(self._client.put(), name, subresource).params(options).body(obj).do())

    async def patch(
        self, name: str, patch: object, kind: PatchType = "merge", subresource: str = "", **options: object
    ) -> Object:
        """``patch`` is a tree, or bytes."""
        request = self._to(self._client.patch(kind), name, subresource).params(options)
        return _tree(await request.body(patch).do())

    async def apply(
        self,
        name: str,
        declared: Object,
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        **options: object,
    ) -> Object:
        """Server-side apply: sets the declared fields, which ``manager`` owns then.

        Raises Conflict for fields that another manager owns, unless ``force`` is set.
        """
        options = {"fieldManager": manager, "force": force, **options}
        return await self.patch(name, declared, "apply", subresource, **options)

    async def delete(self, name: str, options: Object | None = None, **query: object) -> Object:
        """``options`` are DeleteOptions: preconditions, propagationPolicy, gracePeriodSeconds."""
        if not name:
            raise ValueError("name is required")
        request = self._to(self._client.delete(), name).params(query)
        if options:
            request = request.body({"kind": "DeleteOptions", "apiVersion": "v1", **options})
        return _tree(await request.do())

    async def delete_collection(
        self, options: Object | None = None, *, label_selector: str = "", field_selector: str = ""
    ) -> Object:
        request = self._to(self._client.delete())
        request = request.param("labelSelector", label_selector).param("fieldSelector", field_selector)
        if options:
            request = request.body({"kind": "DeleteOptions", "apiVersion": "v1", **options})
        return _tree(await request.do())

    async def watch(
        self, *, resource_version: str = "", label_selector: str = "", field_selector: str = "", bookmarks: bool = True,
        timeout: int = 0, initial_events: bool = False,
    ) -> Watch:  # fmt: skip
        """``timeout``: seconds after which the server ends the watch.

        ``initial_events``: the watch begins with an event for each object that exists, then a bookmark (KEP-3157).  The request
        is retried once at most, since a client whose watch fails starts a new one anyway.
        """
        request = (
            self._to(self._client.get())
            .timeout(0)
            .params(
                {
                    "labelSelector": label_selector,
                    "fieldSelector": field_selector,
                    "resourceVersion": resource_version,
                    "allowWatchBookmarks": bookmarks,
                    "timeoutSeconds": timeout or None,
                }
            )
        )
        if initial_events:
            request.param("sendInitialEvents", True).param("resourceVersionMatch", "NotOlderThan")
        return await request.retries(1).watch()

    async def wait(self, name: str, done: Callable[[Object | None], bool], timeout: float = 30.0) -> Object | None:
        """Waits until ``done(object)`` is true and returns the object; None means that there is none.  Raises RequestTimeout."""
        running: Deferred[Object | None] = Deferred.fromCoroutine(self._wait(name, done))
        running.addTimeout(timeout, self.session.reactor)
        try:
            return await running
        except TimeoutError:
            raise RequestTimeout(f"timed out waiting for the condition on {self.resource.name}/{name}") from None

    async def _wait(self, name: str, done: Callable[[Object | None], bool]) -> Object | None:
        selector = f"metadata.name={name}"
        while True:
            page = await self.list(field_selector=selector)
            items: builtins.list[Object] = page.get("items") or []
            current = items[0] if items else None
            if done(current):
                return current
            version = page["metadata"]["resourceVersion"]
            watch = await self.watch(resource_version=version, field_selector=selector)
            try:
                async for event in watch:
                    if event.type == "BOOKMARK":
                        continue
                    current = None if event.type == "DELETED" else event.object
                    if done(current):
                        return current
            except (Expired, ConnectionFailed):
                pass  # list and watch again
            finally:
                watch.close()

    async def log(self, name: str, **options: object) -> Stream:
        """A container's log as a stream (pods): ``container``, ``follow``, ``tailLines`` ...  The caller closes it."""
        return await self._to(self._client.get(), name, "log").header("Accept", "*/*").params(options).stream()

    async def exists(self, name: str) -> bool:
        try:
            await self.get(name)
        except NotFound:
            return False
        return True


def condition_is(kind: str, status: str = "True") -> Callable[[Object | None], bool]:
    """For ``wait``: ``condition_is("Ready")``."""

    def done(obj: Object | None) -> bool:
        conditions: Iterable[Object] = ((obj or {}).get("status") or {}).get("conditions") or ()
        return any(
            str(one.get("type")).lower() == kind.lower() and str(one.get("status")).lower() == status.lower()
            for one in conditions
        )

    return done


def _tree(answer: object) -> Object:
    if not isinstance(answer, dict):
        raise StatusError("the answer is no object")
    return answer
