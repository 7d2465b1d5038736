"""Reads a cluster's state at an earlier revision (``?kapiRevision=``), and the changes between two revisions.

Upstream has ``resourceVersionMatch=Exact`` for lists; here it works for single objects too.  Both go back as far as the history
of watches does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

import orjson

from kapi.authorization.forbidden import require_masters
from kapi.codecs.negotiation import output_media_type
from kapi.endpoints.dispatch import ResourceTable
from kapi.endpoints.encoding import respond_message, respond_object
from kapi.endpoints.scope import RequestScope
from kapi.filters.chain import Handler
from kapi.machinery import status
from kapi.machinery.checkpoint import in_slices
from kapi.machinery.golang import NumberError, parse_uint, quote
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.routing import Routes
from kapi.store.errors import Compacted
from kapi.store.interface import CREATED, DELETED, Change

OPTION = "kapiRevision"
PATH = "/kapi/changes"


class History(Protocol):
    """The changes of a store."""

    @property
    def newest(self) -> int:
        """The revision of the last change."""

    def changes(self, since: int, until: int) -> list[Change]:
        """Changes after ``since`` up to ``until``, oldest first.  Raises Compacted when some of them are no longer known."""


class PastReads:
    """``tables`` have all resources in the store of ``history``."""

    app = Routes()

    def __init__(self, tables: Sequence[ResourceTable], history: History) -> None:
        self._tables = tables
        self._history = history

    def around(self, handler: Handler) -> Handler:
        """Wraps ``handler``; reads at an earlier revision are answered here.  Raises StatusError."""

        def handle(ctx: RequestContext) -> Response | Awaitable[Response]:
            if OPTION not in ctx.query:
                return handler(ctx)
            info, revision = ctx.info, _revision(ctx, OPTION)
            if info is not None and info.is_resource and info.verb == "list":
                if not ctx.first("continue"):  # a continue token names the revision itself
                    ctx.query["resourceVersion"], ctx.query["resourceVersionMatch"] = [str(revision)], ["Exact"]
                return handler(ctx)
            if info is None or info.verb != "get" or not info.name or info.subresource:
                raise status.bad_request(f"{OPTION} is for reading objects and lists")
            for table in self._tables:
                scope = table.scope(info.group, info.version, info.resource)
                if scope is not None and not scope.resource.handler:
                    return self._get(ctx, scope, info.namespace if scope.resource.namespaced else "", revision)
            raise status.no_such_resource()

        return handle

    async def _get(self, ctx: RequestContext, scope: RequestScope, namespace: str, revision: int) -> Response:
        assert ctx.info is not None
        name, cache = ctx.info.name, scope.store.cache
        media = output_media_type(ctx, "get")
        waiting = cache.wait_for(revision)
        if waiting is not None:
            await waiting
        try:
            found = cache.page_at(revision, namespace, None, name, 1).entries
        except Compacted:
            raise status.expired(f"revision {revision} is older than what is known of the past") from None
        if not found or found[0].name != name:
            raise status.not_found(scope.resource.group_resource, name)
        entry = found[0]
        if media.protobuf and not media.as_kind:
            return respond_message(ctx, scope, entry)
        if scope.same_version or media.plain:
            return respond_object(ctx, scope, 200, None, scope.served(entry), media)
        return respond_object(ctx, scope, 200, scope.from_storage(entry.object), None, media, entry.object)

    @app.route(PATH, methods=("GET",), listed=False)
    async def changes(self, ctx: RequestContext) -> Response:
        """Objects that were created, updated or deleted after ``from``, up to ``to``.  Raises StatusError."""
        require_masters(ctx.user, "changes of everything are for members of system:masters")
        since = _revision(ctx, "from")
        until = _revision(ctx, "to") if ctx.first("to") else self._history.newest
        await in_slices  # they may be many, and packed
        try:
            history = self._history.changes(since, until)
        except Compacted:
            raise status.expired(f"revision {since} is older than what is known of the past") from None
        first: dict[str, Change] = {}
        last: dict[str, Change] = {}
        for change in history:
            first.setdefault(change.key, change)
            last[change.key] = change
        found = []
        for key, change in last.items():
            new = first[key].kind == CREATED
            if new and change.kind == DELETED:
                continue  # neither before nor after
            group, resource, namespace, name = key.split("/", 3)
            kind = "created" if new else "deleted" if change.kind == DELETED else "updated"
            summary: Object = {"change": kind, "group": "" if group == "core" else group, "resource": resource}
            found.append({**summary, "namespace": namespace, "name": name, "revision": change.revision})
        return Response(200, orjson.dumps({"from": since, "to": until, "changes": found}))


def _revision(ctx: RequestContext, option: str) -> int:
    """The revision in a query option.  Raises BadRequest."""
    text = ctx.first(option)
    try:
        return parse_uint(text)
    except NumberError as error:
        raise status.bad_request(f"{option}: {quote(text)}: {error}") from None
