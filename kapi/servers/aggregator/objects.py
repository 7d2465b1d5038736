"""A client for objects of the servers behind APIServices, for controllers of this process."""

from __future__ import annotations

import builtins
import contextlib
import urllib.parse
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

import orjson
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.iweb import IResponse

from kapi.codecs import json_pieces
from kapi.machinery import status
from kapi.machinery.gvk import GroupResource, GroupVersion
from kapi.machinery.tree import Object
from kapi.request.user import LOOPBACK_USER
from kapi.servers.aggregator.backend import Backends
from kapi.servers.aggregator.registration import service_name
from kapi.wire.answer import Answer
from kapi.wire.collected import Collected
from kapi.wire.head import identity_headers

MAX_ANSWER_BYTES = MAX_EVENT_BYTES = 16 * 1024 * 1024
PAGE_SIZE = 100  # objects of a page of a list
MAX_PAGES = 100_000  # of a list
TIMEOUT_SECONDS = 30.0  # of a request
WATCH_SECONDS = 300  # timeoutSeconds of a watch
_NEEDED_VERBS = frozenset(["list", "watch", "get", "patch", "delete"])


class RemoteObjects:
    """Makes requests as the loopback user.  ``backends`` has the server of each APIService, by its name."""

    def __init__(self, reactor: IReactorTime, backends: Backends) -> None:
        self._reactor = reactor
        self._backends = backends

    async def request(
        self, key: str, method: str, path: str, body: object = None, media: str = "application/json"
    ) -> Object:
        """The decoded answer.  Raises StatusError: that of the server, or ServiceUnavailable when it cannot be reached."""
        request: Deferred[Object] = Deferred.fromCoroutine(self._request(key, method, path, body, media))
        request.addTimeout(TIMEOUT_SECONDS, self._reactor)
        try:
            return await request
        except (CancelledError, status.StatusError):
            raise
        except Exception as error:  # any network error
            raise status.service_unavailable(f"{key}: {str(error) or type(error).__name__}") from error

    async def _request(self, key: str, method: str, path: str, body: object, media: str) -> Object:
        answer = await self._send(key, method, path, body, media)
        collected = Collected(MAX_ANSWER_BYTES)
        answer.deliverBody(collected)
        data = await collected.done
        try:
            tree = json_pieces.loads(data)
        except ValueError:
            tree = {"message": data[:200].decode("latin-1")}
        if answer.code >= 400:
            raise _refused(answer.code, str(tree.get("message", "")))
        return tree  # type: ignore[no-any-return]

    async def follow(self, key: str, path: str, on_line: Callable[[bytes], None]) -> None:
        """Calls ``on_line`` with each line until the server ends the answer.  Raises as ``request`` and ``on_line``."""
        answer = await self._send(key, "GET", path, None, "")
        if answer.code >= 400:
            lines = _Lines()
            answer.deliverBody(lines)
            lines.close()
            raise _refused(answer.code, "the watch was refused")
        lines = _Lines()
        answer.deliverBody(lines)
        try:
            while (line := await lines.next()) is not None:
                on_line(line)
        finally:
            lines.close()

    async def _send(self, key: str, method: str, path: str, body: object, media: str) -> IResponse:
        from kapi.wire.agent import Agent  # imported only when it is used

        pool, host = self._backends.pool(key)
        headers = [(b"Accept", b"application/json"), *identity_headers(LOOPBACK_USER)]
        if body is not None:
            headers.append((b"Content-Type", media.encode()))
        data = None if body is None else orjson.dumps(body)
        return await Agent(pool, headers).ask(method, f"https://{host.decode()}{path}", data)


class _Lines(Protocol):
    """The lines of a body; the connection is paused while a line waits for its reader."""

    transport: Answer  # type: ignore[assignment]

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._rest: list[bytes] = []  # the received parts of a line that has not ended
        self._size = 0  # their bytes
        self._waiting: Deferred[None] | None = None
        self._end: Failure | None = None  # of the body
        self._over = False

    async def next(self) -> bytes | None:
        """The next line without its end; None at the end of the body.  Raises ValueError for one that is too long."""
        while not self._lines:
            if self._end is not None:
                if self._end.check(ValueError):
                    self._end.raiseException()
                return None
            self._waiting = Deferred()
            await self._waiting
        line = self._lines.popleft()
        if not self._lines and not self._over:
            self.transport.resumeProducing()
        return line

    def close(self) -> None:
        """Aborts the connection."""
        if not self._over:
            self._over = True
            self.transport.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        if self._over:
            return
        first, *others = data.split(b"\n")
        self._rest.append(first)
        self._size += len(first)
        for other in others:
            if self._size:
                self._lines.append(b"".join(self._rest))
            self._rest, self._size = [other], len(other)
        if self._size > MAX_EVENT_BYTES:
            self.close()
            self._notify(Failure(ValueError("an event is too long")))
        elif self._lines:
            self.transport.pauseProducing()
            self._notify(None)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._over = True
        self._notify(reason)

    def _notify(self, end: Failure | None) -> None:
        self._end = self._end or end
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)


def _refused(code: int, message: str) -> status.StatusError:
    kind = {404: status.NotFound, 409: status.Conflict}.get(code)
    return status.generic(message, code) if kind is None else kind(message)


class RemoteResource:
    """One resource of another server, in one version."""

    def __init__(self, objects: RemoteObjects, group_version: GroupVersion, entry: Object) -> None:
        self._objects = objects
        self._key = service_name(group_version)
        self._root = f"/apis/{group_version.group}/{group_version.version}"
        self._plural = str(entry["resource"])
        self._verbs = frozenset(entry.get("verbs") or ())
        self.resource = GroupResource(group_version.group, self._plural)
        self.namespaced = entry.get("scope") == "Namespaced"

    def _path(self, namespace: str = "", name: str = "", **query: str) -> str:
        place = f"/namespaces/{urllib.parse.quote(namespace, safe='')}" if namespace else ""
        tail = f"/{urllib.parse.quote(name, safe='')}" if name else ""
        asked = f"?{urllib.parse.urlencode(query)}" if query else ""
        return f"{self._root}{place}/{self._plural}{tail}{asked}"

    async def get(self, name: str, namespace: str = "") -> Object:
        return await self._objects.request(self._key, "GET", self._path(namespace, name))

    async def pages(self, namespace: str = "") -> AsyncIterator[Object]:
        """The pages of the list of a namespace; "" means all namespaces.  Raises StatusError, also for a list without end."""
        query = {"limit": str(PAGE_SIZE)}
        for _ in range(MAX_PAGES):
            page = await self._objects.request(self._key, "GET", self._path(namespace, **query))
            yield page
            query["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                return
        raise status.generic(f"{self.resource}: the list has more than {MAX_PAGES} pages")

    async def list(self, namespace: str) -> builtins.list[Object]:
        """All objects of a namespace; none when the server cannot list them."""
        if "list" not in self._verbs:
            return []
        return [item async for page in self.pages(namespace) for item in page.get("items") or ()]

    async def patch(self, name: str, patch: Object, namespace: str = "") -> None:
        path = self._path(namespace, name)
        await self._objects.request(self._key, "PATCH", path, patch, "application/merge-patch+json")

    async def delete_collection(self, namespace: str, options: Object) -> None:
        """Deletes the objects of a namespace: at once, or one by one when the server has no such request."""
        if "deletecollection" in self._verbs:
            await self.delete("", namespace, options)
            return
        for obj in await self.list(namespace):
            with contextlib.suppress(status.NotFound):
                await self.delete(obj["metadata"]["name"], namespace, options)

    async def delete(self, name: str, namespace: str, options: Object) -> None:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        await self._objects.request(self._key, "DELETE", self._path(namespace, name), body)

    async def watch(self, revision: str, on_event: Callable[[str, Object], None]) -> None:
        """Returns when the server ends the watch.  Raises StatusError for an ERROR event."""

        def on_line(line: bytes) -> None:
            event = json_pieces.loads(line)
            if event["type"] == "ERROR":
                raise status.generic(str(event["object"].get("message", "")), int(event["object"].get("code") or 500))
            on_event(event["type"], event["object"])

        query = {"watch": "1", "resourceVersion": revision, "timeoutSeconds": str(WATCH_SECONDS)}
        await self._objects.follow(self._key, self._path(**query, allowWatchBookmarks="true"), on_line)


class RemoteResources:
    """The resources of other servers that discovery knows; ``remote`` has the form of aggregated discovery.

    ``stale`` returns the group versions whose resources discovery does not know now.
    """

    def __init__(
        self,
        objects: RemoteObjects,
        remote: Mapping[GroupVersion, list[Object]],
        stale: Callable[[], Sequence[GroupVersion]] = list,
    ) -> None:
        self._objects = objects
        self._remote = remote
        self.stale = stale
        #: called when ``remote`` has changed
        self.listeners: list[Callable[[], None]] = []

    def changed(self) -> None:
        for listener in list(self.listeners):
            listener()

    def all(self) -> list[RemoteResource]:
        """The resources that can be watched and changed, each in its first version."""
        found: dict[GroupResource, RemoteResource] = {}
        for group_version, entry in self._entries():
            if _NEEDED_VERBS <= set(entry.get("verbs") or ()):
                made = RemoteResource(self._objects, group_version, entry)
                found.setdefault(made.resource, made)
        return list(found.values())

    def in_namespaces(self) -> list[RemoteResource]:
        """The resources in namespaces whose objects can be deleted now, each in its first version."""
        found: dict[GroupResource, RemoteResource] = {}
        stale = set(self.stale())
        for group_version, entry in self._entries():
            if group_version in stale:
                continue
            if entry.get("scope") == "Namespaced" and "delete" in (entry.get("verbs") or ()):
                made = RemoteResource(self._objects, group_version, entry)
                found.setdefault(made.resource, made)
        return [*found.values()]

    def find(self, group_version: GroupVersion, kind: str) -> RemoteResource | None:
        for entry in self._remote.get(group_version, ()):
            if (entry.get("responseKind") or {}).get("kind") == kind:
                return RemoteResource(self._objects, group_version, entry)
        return None

    def of(self, resource: GroupResource) -> RemoteResource | None:
        return next((one for one in self.all() if one.resource == resource), None)

    def _entries(self) -> Iterator[tuple[GroupVersion, Object]]:
        for group_version in sorted(self._remote):
            for entry in self._remote[group_version]:
                yield group_version, entry
