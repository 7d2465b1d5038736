"""Waits for conditions of objects, such as their deletion (upstream: kubectl ``cmd/wait``)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from twisted.internet.defer import Deferred, TimeoutError

from kapi.client.errors import ConnectionFailed
from kapi.client.rest import Request
from kapi.client.watching import WatchEvent
from kapi.kubectl.factory import Factory
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.machinery.status import Expired
from kapi.machinery.tree import Object

FOREVER_SECONDS = 7 * 24 * 3600.0  # a week, as kubectl


async def watched(factory: Factory, request: Request, since: float | None = None) -> AsyncIterator[WatchEvent]:
    """The events of a watch, until the server ends it or the time of ``--request-timeout`` since then is over.

    ``since`` is a time of the reactor, None for now.
    """
    reactor, timeout = factory.reactor, factory.config.timeout
    end = (reactor.seconds() if since is None else since) + timeout if timeout else None
    events = await request.watch()
    ending = reactor.callLater(max(0.0, end - reactor.seconds()), events.close) if end is not None else None
    try:
        async for event in events:
            yield event
    finally:
        if ending is not None and ending.active():
            ending.cancel()
        events.close()


async def wait_until_gone(factory: Factory, infos: list[tuple[Info, str]], timeout: float) -> None:
    """Waits until objects are deleted; one of the same name with a different uid counts as deleted.  Raises CommandError."""
    end = factory.reactor.seconds() + (timeout or FOREVER_SECONDS)
    for info, uid in infos:

        def gone(obj: Object | None, uid: str = uid) -> bool:
            return obj is None or bool(uid) and obj["metadata"].get("uid") != uid

        await wait_for(factory, info, gone, end)


async def wait_for(
    factory: Factory, info: Info, done: Callable[[Object | None], bool], end: float | None
) -> Object | None:
    """Waits until ``done(object)`` is true; returns the object.  ``end`` is a time of the reactor, None for a single check.

    Raises CommandError.
    """
    named = f"{info.mapping.name}/{info.name}"
    if end is None:
        found, current = await _now(info, done)
        if not found:
            raise CommandError(f"condition not met for {named}")
        return current
    running: Deferred[Object | None] = Deferred.fromCoroutine(until(info, done))
    running.addTimeout(max(0.0, end - factory.reactor.seconds()), factory.reactor)
    try:
        return await running
    except TimeoutError:
        raise CommandError(f"timed out waiting for the condition on {named}") from None


async def _now(info: Info, done: Callable[[Object | None], bool]) -> tuple[bool, Object | None]:
    current, _ = await _listed(info)
    return done(current), current


async def _listed(info: Info) -> tuple[Object | None, str]:
    """The object, if there is one, and the list's resourceVersion."""
    request = info.client.get().namespace(info.namespace).resource(info.mapping.name)
    page = await request.param("fieldSelector", f"metadata.name={info.name}").do()
    items = page.get("items") or []
    kind = {"apiVersion": info.mapping.group_version, "kind": info.mapping.kind}
    return (kind | items[0] if items else None), page["metadata"]["resourceVersion"]


async def until(info: Info, done: Callable[[Object | None], bool]) -> Object | None:
    """Asks ``done`` for each state of the object, None when there is none, until it is true.  Returns the object."""
    selector = f"metadata.name={info.name}"
    while True:
        current, version = await _listed(info)
        if done(current):
            return current
        request = info.client.get().namespace(info.namespace).resource(info.mapping.name).timeout(0)
        request.params({"fieldSelector": selector, "resourceVersion": version})
        watch = await request.watch()
        with contextlib.suppress(Expired, ConnectionFailed):  # list and watch again
            try:
                async for event in watch:
                    if event.type != "BOOKMARK":
                        current = None if event.type == "DELETED" else event.object
                        if done(current):
                            return current
            finally:
                watch.close()
