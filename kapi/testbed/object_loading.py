"""Loads the objects of another cluster unchanged: uids, owners, status and times are kept; admission is skipped.

So a test can load ``kubectl get -o json`` of a real cluster into a logical one.  Existing objects are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import orjson
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from kapi.authorization.forbidden import require_masters
from kapi.endpoints.body import raw_body
from kapi.endpoints.dispatch import ResourceTable
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.checkpoint import commit
from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.registry.errors import interpret
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.schema.decode import decode
from kapi.serving.routing import Routes
from kapi.store.errors import KeyExists, RevisionConflict, StoreError

PATH = "/kapi/objects"
_DEFINITION = "CustomResourceDefinition"
_MAX_ATTEMPTS = 5  # to write one object
_MAX_TURNS = 3  # of the reactor until loaded definitions are served


class LoadEndpoint:
    """Handles POST of a List; ``tables`` have all served resources."""

    app = Routes()

    def __init__(self, tables: Sequence[ResourceTable], reactor: IReactorTime, now: Callable[[], str]) -> None:
        self._tables = tables
        self._reactor = reactor
        self._now = now

    @app.route(PATH, methods=("POST",), listed=False)
    async def answer(self, ctx: RequestContext) -> Response:
        """Answers the number of loaded objects, and the reasons for refused ones.  Raises StatusError."""
        require_masters(ctx.user, "objects are taken as they are from members of system:masters")
        try:
            items = orjson.loads(raw_body(ctx))["items"]
            definitions = [item for item in items if item.get("kind") == _DEFINITION]
            others = [item for item in items if item.get("kind") != _DEFINITION]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise status.bad_request(f"expected a List of objects: {error}") from None
        refused = await self._take(definitions)
        if definitions:
            for _ in range(_MAX_TURNS):
                await deferLater(self._reactor, 0)
        refused += await self._take(others)
        return Response(200, orjson.dumps({"taken": len(items) - len(refused), "refused": refused}))

    async def _take(self, items: Iterable[Object]) -> list[str]:
        """Loads objects; returns a text for each that was refused."""
        scopes = {scope.kind: scope for table in self._tables for scope in table.scopes()}
        refused = []
        for item in items:
            try:
                await self._put(scopes, item)
            except StatusError as error:
                refused.append(f"{item.get('kind')} {(item.get('metadata') or {}).get('name')}: {error.message}")
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                refused.append(f"{item.get('kind')}: no object: {type(error).__name__}: {error}")
        return refused

    async def _put(self, scopes: dict[GroupVersionKind, RequestScope], item: Object) -> None:
        group_version = GroupVersion.parse(item["apiVersion"])
        kind = GroupVersionKind(group_version.group, group_version.version, item["kind"])
        scope = scopes.get(kind)
        if scope is None or scope.resource.handler:
            raise status.bad_request(f"no resource of {item['apiVersion']} is stored under this kind")
        store, row = scope.store, scope.resource
        if row.schema is None:
            item = decode(item, kind, scope.type, "Ignore", lambda text: None)
            item = scope.to_storage(item)
            store.row.strategy.default(item)
        else:
            item = await store.stored_form(item)
        metadata = item["metadata"]
        name, namespace = str(metadata["name"]), str(metadata.get("namespace") or "")
        if not name or bool(namespace) != row.namespaced:
            raise status.bad_request("a name is needed, and a namespace where the resource has one")
        metadata.setdefault("creationTimestamp", self._now())
        key = store.key(namespace, name)
        if "uid" not in metadata:
            metadata["uid"] = store.environment.uid(key)
        halves = store.encode(item)
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            entry = store.cache.get(namespace, name)
            try:
                commit()
                if entry is None:
                    await store.store.create(key, *halves, expires=store.expires())
                else:
                    await store.store.update(key, entry.revision, *halves, expires=store.expires())
                return
            except (KeyExists, RevisionConflict) as error:  # the cache does not have what is stored now
                if attempt == _MAX_ATTEMPTS:
                    raise interpret(error, store.group_resource, name) from error
                waiting = store.cache.wait_for(error.revision)
                if waiting is not None:
                    await waiting
            except StoreError as error:
                raise interpret(error, store.group_resource, name) from error
