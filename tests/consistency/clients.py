"""Clients that write, read and watch at random and note what they were told, and when."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tests.consistency.cluster import TOKEN, Cluster

NAMESPACE = "default"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
NAMES = [f"c{n:02}" for n in range(12)]
COLORS = ("red", "blue")
TIMEOUT = 15.0  # seconds


@dataclass
class Write:
    kind: str  # create, update, delete
    name: str
    expected: int
    value: str
    start: float
    end: float = 0.0
    status: int = 0  # 0: the outcome is unknown
    revision: int = 0  # as answered; 0 for deletes
    reason: str = ""


@dataclass
class Read:
    name: str
    start: float
    end: float
    status: int
    revision: int = 0
    value: str = ""


@dataclass
class Listing:
    """``pages`` is how many there were; ``exact`` the revision that was asked for, 0 for the newest."""

    start: float
    end: float
    revisions: list[int]
    items: list[tuple[str, int, str]]  # name, revision, value
    exact: int = 0
    color: str = ""


@dataclass
class Watching:
    """Watches that go on where the one before ended."""

    since: int
    color: str
    told: list[tuple[str, str, int]] = field(default_factory=list)  # type, name ("" for bookmarks), revision


class Journal:
    """What everybody was told."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.reads: list[Read] = []
        self.listings: list[Listing] = []
        self.watchings: list[Watching] = []
        self.complaints: list[str] = []  # answers that must not be
        self.statuses: dict[int, int] = {}


class Client(threading.Thread):
    """Talks to one of the servers, and to the other when that does not answer."""

    def __init__(self, cluster: Cluster, journal: Journal, seed: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.journal = journal
        self.rng = random.Random(seed)
        self.stopping = stop
        self.failure: BaseException | None = None
        self._server = seed % len(cluster.servers)
        self._connection: http.client.HTTPSConnection | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failure = error
        finally:
            self.disconnect()

    def work(self) -> None:
        raise NotImplementedError

    def connect(self) -> http.client.HTTPSConnection:
        if self._connection is None:
            server = self.cluster.servers[self._server]
            context = ssl.create_default_context(cafile=server.authority)
            self._connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=TIMEOUT, context=context)
        return self._connection

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def elsewhere(self) -> None:
        """Something failed: try the other server in a moment."""
        self.disconnect()
        self._server = (self._server + 1) % len(self.cluster.servers)
        time.sleep(0.05)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and answer; 0 when there was none."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        try:
            connection = self.connect()
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            answer = json.loads(response.read() or b"null")
        except (OSError, http.client.HTTPException, ValueError):
            self.elsewhere()
            return 0, None
        self.journal.statuses[response.status] = self.journal.statuses.get(response.status, 0) + 1
        if response.status >= 500:
            self.elsewhere()
        return response.status, answer


def revision_of(obj: Any) -> int:
    return int(obj["metadata"]["resourceVersion"])


class Worker(Client):
    """Reads and writes."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.known: dict[str, int] = {}  # the revision last seen, 0 for gone
        self.seen = 0
        self.count = 0

    def work(self) -> None:
        acts = [(self.write, 60), (self.read, 20), (self.list, 8), (self.pages, 8), (self.exact, 4)]
        functions, weights = zip(*acts, strict=True)
        while not self.stopping.is_set():
            self.rng.choices(functions, weights)[0]()

    def write(self) -> None:
        name = self.rng.choice(NAMES)
        expected = self.known.get(name, 0)
        self.count += 1
        value = f"{self.name}-{self.count}"
        if not expected:
            kind = "create"
        else:
            kind = "delete" if self.rng.random() < 0.2 else "update"
        write = Write(kind, name, expected, value, time.monotonic())
        self.journal.writes.append(write)
        labels = {"color": self.rng.choice(COLORS)}
        obj: Any = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": labels},
            "data": {"v": value},
        }
        if kind == "create":
            status, answer = self.ask("POST", PATH, obj)
        elif kind == "update":
            obj["metadata"]["resourceVersion"] = str(expected)
            status, answer = self.ask("PUT", f"{PATH}/{name}", obj)
        else:
            options = {"preconditions": {"resourceVersion": str(expected)}}
            status, answer = self.ask("DELETE", f"{PATH}/{name}", options)
        write.end = time.monotonic()
        write.status = status
        if status in (200, 201):
            write.revision = 0 if kind == "delete" else revision_of(answer)
            self.known[name] = write.revision
            self.seen = max(self.seen, write.revision)
        elif status in (404, 409):
            write.reason = answer["reason"]
            self.read(name)
        elif status not in (0, 500, 503, 504):
            self.journal.complaints.append(f"{kind} {name}: {status} {answer}")

    def read(self, name: str = "") -> None:
        name = name or self.rng.choice(NAMES)
        start = time.monotonic()
        status, answer = self.ask("GET", f"{PATH}/{name}")
        end = time.monotonic()
        if status == 200:
            self.known[name] = revision_of(answer)
            self.journal.reads.append(Read(name, start, end, status, revision_of(answer), answer["data"]["v"]))
        elif status == 404:
            self.known[name] = 0
            self.journal.reads.append(Read(name, start, end, status))
        elif status not in (0, 500, 503, 504):
            self.journal.complaints.append(f"get {name}: {status} {answer}")

    def list(self) -> None:
        color = self.rng.choice(("", *COLORS))
        start = time.monotonic()
        status, answer = self.ask("GET", PATH + (f"?labelSelector=color%3D{color}" if color else ""))
        if status == 200:
            self.listing(start, [answer], color=color)

    def pages(self) -> None:
        start = time.monotonic()
        pages: list[Any] = []
        token = ""
        while True:
            status, answer = self.ask(
                "GET", f"{PATH}?limit={self.rng.randrange(1, 4)}" + (f"&continue={token}" if token else "")
            )
            if status == 410:
                self.journal.complaints.append(f"410 without compaction: {answer}")
            if status != 200:
                return
            pages.append(answer)
            token = answer["metadata"].get("continue", "")
            if not token:
                break
            self.write()
        self.listing(start, pages)

    def exact(self) -> None:
        if not self.seen:
            return
        revision = self.rng.randrange(max(1, self.seen - 50), self.seen + 1)
        start = time.monotonic()
        status, answer = self.ask("GET", f"{PATH}?resourceVersion={revision}&resourceVersionMatch=Exact")
        if status == 200:
            self.listing(start, [answer], exact=revision)
        elif status == 410:
            self.journal.complaints.append(f"410 without compaction: {answer}")

    def listing(self, start: float, pages: Any, exact: int = 0, color: str = "") -> None:
        items = [
            (item["metadata"]["name"], revision_of(item), item["data"]["v"])
            for page in pages
            for item in page["items"]
            if item["metadata"]["name"] in NAMES
        ]
        revisions = [revision_of(page) for page in pages]
        self.journal.listings.append(Listing(start, time.monotonic(), revisions, items, exact, color))


class Watcher(Client):
    """Watches on and on; resumes after the last revision it was told of."""

    def work(self) -> None:
        while not self.stopping.is_set():
            status, answer = self.ask("GET", PATH)
            if status == 200:
                break
        else:
            return
        watching = Watching(revision_of(answer), self.rng.choice(("", *COLORS)))
        self.journal.watchings.append(watching)
        since = watching.since
        while not self.stopping.is_set():
            since = self.watch(watching, since)

    def watch(self, watching: Watching, since: int) -> int:
        query = f"?watch=1&allowWatchBookmarks=true&resourceVersion={since}&timeoutSeconds={self.rng.randrange(3, 8)}"
        if watching.color:
            query += f"&labelSelector=color%3D{watching.color}"
        try:
            connection = self.connect()
            connection.request("GET", PATH + query, headers={"Authorization": f"Bearer {TOKEN}"})
            response = connection.getresponse()
            if response.status != 200:
                response.read()
                self.elsewhere()
                return since
            while True:
                line = response.readline()
                if not line.endswith(b"\n"):
                    break
                event = json.loads(line)
                if event["type"] == "ERROR":
                    if event["object"]["code"] not in (500, 503, 504):
                        self.journal.complaints.append(f"watch from {since}: {event['object']}")
                    break
                since = revision_of(event["object"])
                name = "" if event["type"] == "BOOKMARK" else event["object"]["metadata"]["name"]
                watching.told.append((event["type"], name, since))
        except (OSError, http.client.HTTPException, ValueError):
            pass
        if self.rng.random() < 0.5:
            self.elsewhere()
        else:
            self.disconnect()
        return since
