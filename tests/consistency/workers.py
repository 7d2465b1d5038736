"""Clients that write, read and list at random and note what they were told, and when."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.consistency import resources
from tests.consistency.client import UNAVAILABLE, Client, Object, revision_of, value_of
from tests.consistency.records import Gone, Item, Listing, Read, Selector, Write
from tests.consistency.resources import COLLECTIONS, COLORS, NAMES, WIDGET, Kind

_MANAGER = "fieldManager=consistency"
_VERBS = {"create": 20, "update": 30, "patch": 22, "apply": 14, "delete": 12, "deletecollection": 1}
_ACTS = {"write": 48, "read": 34, "list": 9, "pages": 4, "exact": 5}


class Worker(Client):
    """One request at a time."""

    pause = 0.0  # seconds before an act, on average

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.known: dict[str, int] = {}  # the revision last seen of a key, 0 for gone
        self.count = 0

    async def run(self) -> None:
        acts = {"write": self.write, "read": self.read, "list": self.list, "pages": self.pages, "exact": self.exact}
        while not self.stopping:
            if self.pause:
                await asyncio.sleep(self.rng.expovariate(1 / self.pause))
            await acts[self.rng.choices(list(_ACTS), list(_ACTS.values()))[0]]()
            if self.rng.random() < 0.02:
                self.server = self.rng.randrange(len(self._connections))
        self.close()

    def _pick(self) -> tuple[Kind, str, str, str]:
        """Kind, namespace, name and key; some names are wanted by many."""
        kind, namespace = self.rng.choice(COLLECTIONS)
        name = NAMES[int(self.rng.random() ** 1.5 * len(NAMES))]
        return kind, namespace, name, f"{kind.prefix}{namespace}/{name}"

    # -- writes

    async def write(self) -> None:
        kind, namespace, name, key = self._pick()
        known = self.known.get(key)
        verb = self.rng.choices(list(_VERBS), list(_VERBS.values()))[0]
        if known == 0 and verb in ("update", "patch", "delete"):
            verb = "create"
        elif known and verb == "create":
            verb = "update"
        if verb == "delete":
            await self._delete(kind, namespace, name, key)
        elif verb == "deletecollection":
            await self._delete_collection(kind, namespace)
        else:
            await self._store(verb, kind, namespace, name, key)

    async def _store(self, verb: str, kind: Kind, namespace: str, name: str, key: str) -> None:
        rng = self.rng
        self.count += 1
        value, color = f"{self.name}-{self.count}", rng.choice(COLORS)
        known = self.known.get(key)
        expected = known if known and verb in ("update", "patch") and rng.random() < 0.6 else None
        if verb == "update" and expected is None and kind not in (resources.CONFIG_MAP, resources.SECRET):
            verb = "patch"  # an update without a version is not for all kinds
        path = kind.path(namespace, name)
        write = Write(verb, key, value, expected, self.server, self.now())
        self.journal.writes.append(write)
        if verb == "create":
            body: Any = resources.new(kind, name, value, color)
            answer = await self.ask(verb, "POST", f"{kind.path(namespace)}?{_MANAGER}", body)
        elif verb == "update":
            body = resources.new(kind, name, value, color)
            if expected is not None:
                body["metadata"]["resourceVersion"] = str(expected)
            answer = await self.ask(verb, "PUT", f"{path}?{_MANAGER}", body)
        elif verb == "apply":
            body = resources.new(kind, name, value, color)
            if kind is resources.SECRET:
                body["data"] = {"v": "YQ=="}
                del body["stringData"]
            target = f"{path}?fieldManager=applier&force=true"
            answer = await self.ask(verb, "PATCH", target, body, "application/apply-patch+yaml")
        elif rng.random() < 0.5:
            body = resources.merge_patch(kind, value, color, expected)
            answer = await self.ask(verb, "PATCH", f"{path}?{_MANAGER}", body, "application/merge-patch+json")
        else:
            body = resources.json_patch(kind, value, color, expected)
            answer = await self.ask(verb, "PATCH", f"{path}?{_MANAGER}", body, "application/json-patch+json")
        await self._noted(write, *answer)

    async def _noted(self, write: Write, status: int, answer: Object) -> None:
        write.end = self.now()
        write.status = status
        if write.done:
            self.journal.newest_write[write.server] = max(write.start, self.journal.newest_write.get(write.server, 0))
            if write.value:
                write.revision = self.known[write.key] = revision_of(answer)
                self._told(write.end, write.revision)
            return
        self.known.pop(write.key, None)
        message = str(answer.get("message", ""))
        write.reason = str(answer.get("reason", ""))
        if status >= 500:
            write.reason += f": {message[:300]}"
        write.undecided = status in (0, 500, 504) or "outcome" in message
        if status in (404, 409):
            if write.reason == "NotFound":
                self.known[write.key] = 0
        elif status in (0, 500, *UNAVAILABLE):  # what it says of 500 is noted already
            await self.elsewhere()
        elif status not in (403, 422) or (status == 403 and "exceeded quota" not in message and "quota" not in message):
            self.journal.complaints.append(f"{write}: {answer}")

    def _told(self, moment: float, revision: int) -> None:
        self.newest = max(self.newest, revision)
        self.journal.observe(moment, revision)

    async def _delete(self, kind: Kind, namespace: str, name: str, key: str) -> None:
        known = self.known.get(key)
        expected = known if known and self.rng.random() < 0.6 else None
        options = {"preconditions": {"resourceVersion": str(expected)}} if expected is not None else None
        write = Write("delete", key, "", expected, self.server, self.now())
        self.journal.writes.append(write)
        status, answer = await self.ask("delete", "DELETE", kind.path(namespace, name), options)
        if status == 200:
            uid = (answer.get("details") or {}).get("uid") or answer["metadata"].get("uid")
            write.uids = (str(uid),)
            self.known[key] = 0
        await self._noted(write, status, answer)

    async def _delete_collection(self, kind: Kind, namespace: str) -> None:
        color = self.rng.choice(COLORS)
        write = Write("deletecollection", f"{kind.prefix}{namespace}/", "", None, self.server, self.now())
        self.journal.writes.append(write)
        target = f"{kind.path(namespace)}?labelSelector=color%3D{color}"
        status, answer = await self.ask("deletecollection", "DELETE", target)
        if status == 200:
            write.uids = tuple(str(item["metadata"]["uid"]) for item in answer.get("items") or [])
        await self._noted(write, status, answer)

    # -- reads

    async def read(self) -> None:
        kind, namespace, name, key = self._pick()
        server, start = self.server, self.now()
        status, answer = await self.ask("get", "GET", kind.path(namespace, name))
        end = self.now()
        if status == 200:
            revision = self.known[key] = revision_of(answer)
            self.journal.reads.append(Read(key, server, start, end, status, revision, value_of(answer)))
            self._told(end, revision)
        elif status == 404:
            self.known[key] = 0
            self.journal.reads.append(Read(key, server, start, end, status))
        else:
            await self._failed("get", server, 0, status, answer)

    async def _failed(self, what: str, server: int, wanted: int, status: int, answer: Object) -> None:
        if status == 410:
            self.journal.gone.append(Gone(what, server, wanted, self.now()))
        elif status in (0, 500, *UNAVAILABLE):  # what it says of 500 is noted already
            await self.elsewhere()
        else:
            self.journal.complaints.append(f"{what} {wanted} by server {server}: {status} {answer}")

    def _scope(self) -> tuple[Kind, str, str, Selector]:
        kind, namespace = self.rng.choice(COLLECTIONS)
        if self.rng.random() < 0.3:
            namespace = ""
        prefix = kind.prefix + (f"{namespace}/" if namespace else "")
        return kind, namespace, prefix, any_selector(self, kind)

    async def list(self) -> None:
        """The newest, any, or one at least as new as something known."""
        mode = self.rng.choice(("fresh", "fresh", "any", "atleast"))
        wanted = self.newest if mode == "atleast" else 0
        query = {"fresh": "", "any": "&resourceVersion=0"}.get(
            mode, f"&resourceVersion={wanted}&resourceVersionMatch=NotOlderThan"
        )
        if mode == "atleast" and not wanted:
            mode, query = "fresh", ""
        await self._list(mode, wanted, query)

    async def exact(self) -> None:
        """As it was some revisions ago."""
        wanted = self.newest - int(self.rng.random() ** 2 * 100)
        if wanted > 0:
            await self._list("exact", wanted, f"&resourceVersion={wanted}&resourceVersionMatch=Exact")

    async def _list(self, mode: str, wanted: int, query: str) -> None:
        kind, namespace, prefix, selector = self._scope()
        server, start = self.server, self.now()
        status, answer = await self.ask(
            "list", "GET", f"{kind.path(namespace)}?{query}{selector.query}".replace("?&", "?")
        )
        if status != 200:
            await self._failed(f"list {mode}", server, wanted, status, answer)
            return
        self._listed(Listing(prefix, selector, mode, wanted, server, start, self.now(), (), []), [answer])

    async def pages(self) -> None:
        """One list in pages, with writes in between; sometimes the pages come from several servers."""
        kind, namespace, prefix, selector = self._scope()
        server, start = self.server, self.now()
        limit, token, pages = self.rng.randrange(1, 6), "", list[Object]()
        while True:
            target = f"{kind.path(namespace)}?limit={limit}{selector.query}" + (f"&continue={token}" if token else "")
            server = self.server
            status, answer = await self.ask("list", "GET", target)
            if status != 200:
                wanted = revision_of(pages[0]) if pages else 0
                await self._failed("continue" if token else "list", server, wanted, status, answer)
                return
            pages.append(answer)
            token = answer["metadata"].get("continue", "")
            if not token:
                break
            if self.rng.random() < 0.5:
                await self.write()
            elif self.rng.random() < 0.2:
                self.server = self.rng.randrange(len(self._connections))
        self._listed(Listing(prefix, selector, "fresh", 0, server, start, self.now(), (), []), pages)

    def _listed(self, listing: Listing, pages: list[Object]) -> None:  # type: ignore[valid-type]
        listing.items = [item_of(obj) for page in pages for obj in page["items"]]
        listing.revisions = tuple(revision_of(page) for page in pages)
        self.journal.listings.append(listing)
        self._told(listing.end, listing.revisions[0])


def any_selector(client: Client, kind: Kind) -> Selector:
    """None half of the time."""
    chance, rng = client.rng.random(), client.rng
    if chance < 0.5:
        return Selector()
    if chance < 0.6:
        return Selector(name=rng.choice(NAMES))
    if kind is WIDGET and chance < 0.8:
        return Selector(field=rng.choice(COLORS))
    return Selector(label=rng.choice(COLORS))


def item_of(obj: Object) -> Item:
    metadata = obj["metadata"]
    return Item(metadata.get("namespace", ""), metadata["name"], revision_of(obj), value_of(obj))
