"""Clients that watch from about now, resume after what they were told last, and note each event."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from tests.consistency.client import UNAVAILABLE, Client, Object, revision_of
from tests.consistency.http_client import NoAnswer
from tests.consistency.records import Event, Gone, Item, Selector, Stream
from tests.consistency.resources import COLLECTIONS, Kind
from tests.consistency.workers import any_selector, item_of

AROUND = 100  # revisions before and after now


class Watcher(Client):
    """One watch at a time."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.stream: Stream | None = None

    async def run(self) -> None:
        while not self.stopping:
            kind, namespace = self.rng.choice(COLLECTIONS)
            if self.rng.random() < 0.4:
                namespace = ""
            selector = any_selector(self, kind)
            # the same objects for some watches in a row, each from where the one before ended; then others
            since = await self._begin(kind, namespace, selector)
            for _ in range(self.rng.randrange(1, 6)):
                if since is None or self.stopping:
                    break
                since = await self._watch(kind, namespace, selector, since, "")
        self.close()

    async def _begin(self, kind: Kind, namespace: str, selector: Selector) -> int | None:
        """A first watch; the revision to go on from, None when there is none."""
        newest = max((revision for _, revision in self.journal.observed[-50:]), default=0)
        if newest and self.rng.random() < 0.6:
            since = max(1, newest + self.rng.randint(-AROUND, AROUND))
            return await self._watch(kind, namespace, selector, since, "")
        wanted = newest if newest and self.rng.random() < 0.5 else 0
        query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        return await self._watch(kind, namespace, selector, wanted, query)

    async def _watch(self, kind: Kind, namespace: str, selector: Selector, since: int, query: str) -> int | None:
        query += f"&resourceVersion={since or ''}" if since or query else ""
        target = (
            f"{kind.path(namespace)}?watch=1&allowWatchBookmarks=true&timeoutSeconds={self.rng.randrange(3, 9)}"
            f"{query}{selector.query}"
        )
        prefix = kind.prefix + (f"{namespace}/" if namespace else "")
        initial = "sendInitialEvents" in query
        stream = Stream(prefix, selector, None if initial else since, self.server, self.now())
        stream.wanted = since if initial else 0
        self.journal.operations["watch"] += 1
        try:
            status, chunks = await self.connection.stream(target)
            self.journal.statuses[status] += 1
            if status != 200:
                body = b"".join([chunk async for chunk in chunks])
                await self._refused(stream, target, since, status, body)
                return None
            self.stream = stream
            self.journal.streams.append(stream)
            rest = b""
            async for chunk in chunks:
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                if not self._received(stream, [orjson.loads(line) for line in lines]):
                    self.connection.close()
                    return None
                if self.rng.random() < 0.001:
                    self.connection.close()  # in the middle
                    break
        except NoAnswer:
            await self.elsewhere()
        finally:
            stream.end = self.now()
            self.stream = None
        if self.rng.random() < 0.3:
            await self.elsewhere()
        complete = not initial or any(event.type == "INITIAL" for event in stream.events)
        return stream.last if complete and stream.last else None

    async def _refused(self, stream: Stream, target: str, since: int, status: int, body: bytes) -> None:
        if status == 410:
            self.journal.gone.append(Gone("watch", stream.server, since, self.now()))
        elif status == 500:
            self.noted_error(f"GET {target}", body, allowed=False)
        elif status not in UNAVAILABLE:
            self.journal.complaints.append(f"watch of {stream.prefix} after {since}: {status} {body[:300]!r}")
        self.connection.close()
        await asyncio.sleep(0.02)

    def _received(self, stream: Stream, told: list[Object]) -> bool:
        """Notes events; False when the watch cannot go on."""
        now = self.now()
        for event in told:
            kind, obj = event["type"], event["object"]
            if kind == "ERROR":
                self._ended(stream, obj, now)
                return False
            if kind == "BOOKMARK":
                if (obj["metadata"].get("annotations") or {}).get("k8s.io/initial-events-end"):
                    kind = "INITIAL"
                item = Item("", "", revision_of(obj), "")
            else:
                item = item_of(obj)
            stream.events.append(Event(kind, item))
            self.journal.watch_events += 1
        if told:
            # of initial events the objects' revisions say nothing about how far the server is
            if stream.since is not None or stream.events[-1].type == "INITIAL":
                self.journal.observe(now, stream.last)
        return True

    def _ended(self, stream: Stream, obj: Object, now: float) -> None:
        code = obj.get("code")
        if code == 410:
            self.journal.gone.append(Gone("watching", stream.server, stream.last, now))
        elif code not in UNAVAILABLE:
            self.journal.complaints.append(f"watch of {stream.prefix} after {stream.last}: {obj}")
