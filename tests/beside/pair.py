"""Two servers that are asked the same, and how their answers differ."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from kapi.codecs import cbor_reading, yaml_reading
from kapi.machinery.gvk import GroupVersionKind
from kapi.schema import protobuf
from tests.beside.mutations import accepted
from tests.beside.samples import Samples, smallest
from tests.beside.sequences import Kind, Request, Requests
from tests.golden.replaying import Reply, described, differences, without_moment, without_texts

_AGENT = {"User-Agent": "beside/1"}


class Asker(Protocol):
    """One server."""

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None, user: str, seconds: float | None
    ) -> Reply: ...


class Side:
    """``user``: "anonymous" sends no credentials, as to ``kubectl proxy``.  ``names`` are filled in in paths: "$NOW"."""

    def __init__(self, asker: Asker, user: str) -> None:
        self.asker = asker
        self.user = user
        self.names: dict[str, str] = {}

    def ask(self, request: Request) -> Reply:
        path = request.path.replace(" ", "%20")
        for name, value in self.names.items():
            path = path.replace(name, value)
        headers = {**_AGENT, "Accept": request.accept}
        data = request.data()
        if data is not None:
            headers["Content-Type"] = request.type
        return self.asker.ask(request.method, path, headers, data, self.user, None)

    def tree(self, path: str, accept: str = "application/json") -> Any:
        """An answer as JSON.  Raises ConnectionError when it is not 200."""
        reply = self.ask(Request("GET", path, accept=accept))
        if reply.status != 200:
            raise ConnectionError(f"GET {path}: {reply.status} {reply.data[:200].decode('utf-8', 'replace')}")
        return json.loads(reply.data)


_REVISION = re.compile(rb"(in (?:the precondition|record) \()\d+(?=\))")


def _readable(reply: Reply) -> Reply:
    """An answer in YAML, protobuf or CBOR as one in JSON, nothing when it cannot be read; without revisions in messages."""
    types = [value for name, value in reply.headers if name.lower() == "content-type"]
    read = _READERS.get(types[0]) if len(types) == 1 else None
    data = reply.data
    if read is not None:
        try:
            data = json.dumps(read(data)).encode()
        except (TypeError, ValueError):  # metadata alone is not known in protobuf
            data = b""
    return reply._replace(data=_REVISION.sub(rb"\g<1>0", data))


_READERS: dict[str, Callable[[bytes], Any]] = {
    "application/cbor": cbor_reading.loads,
    "application/yaml": lambda data: yaml_reading.loads(data)[0],
    "application/vnd.kubernetes.protobuf": lambda data: protobuf.decode(data, GroupVersionKind("", "v1", "Status")),
}


class Difference(NamedTuple):
    request: Request
    lines: list[str]  # "place: want ..., got ..."


class Pair:
    """The first one's answers are what is wanted of the second: with ``texts`` also messages, headers and managedFields."""

    def __init__(self, one: Side, other: Side, *, texts: bool = False) -> None:
        self.sides = (one, other)
        self._texts = texts
        self.asked = 0

    def difference(self, request: Request) -> Difference | None:
        self.asked += 1
        answers = []
        for side in self.sides:
            answer = described(_readable(side.ask(request)), "watch=true" in request.path)
            without_moment(answer, [])
            answers.append(answer if self._texts else without_texts(answer))
        lines = list(differences(*answers))
        return Difference(request, lines) if lines else None

    def smallest(self, found: Difference) -> Difference:
        """The same difference of a smaller body, where one can be had that writes nothing."""
        request = found.request
        if not isinstance(request.body, dict) or request.method not in ("POST", "PATCH", "PUT"):
            return found
        if "dryRun=" not in request.path:
            request = request._replace(path=f"{request.path}{'&' if '?' in request.path else '?'}dryRun=All")
        meta = request.body.get("metadata")
        if request.method == "POST" and isinstance(meta, dict) and "name" in meta:  # that one is there now
            request = request._replace(body={**request.body, "metadata": {**meta, "name": f"{meta['name']}-again"}})
        again = self.difference(request)
        if again is None:
            return found  # it depends on what was stored before
        wanted = {line.partition(":")[0] for line in again.lines}

        def still(body: Any) -> bool:
            less = self.difference(request._replace(body=body))
            return less is not None and bool(wanted & {line.partition(":")[0] for line in less.lines})

        body = smallest(request.body, still)
        return self.difference(request._replace(body=body)) or again


Source = Callable[[Pair, list[Kind], int, str], Iterator[tuple[Request, Kind]]]


def common_kinds(pair: Pair) -> tuple[list[Kind], Mapping[str, Mapping[str, Any]]]:
    """What both servers have, and the second one's schemas, by the path of their document and their name."""
    one, other = (_kinds(side) for side in pair.sides)
    described_by = pair.sides[1]
    documents = described_by.tree("/openapi/v3")["paths"]
    schemas: dict[str, Mapping[str, Any]] = {}
    found = []
    for key, kind in one.items():
        if key not in other or kind.path not in documents or not {"create", "get"} & kind.verbs:
            continue
        if kind.path not in schemas:
            document = described_by.tree(documents[kind.path]["serverRelativeURL"])
            schemas[kind.path] = document.get("components", {}).get("schemas", {})
        name = _schema_of(schemas[kind.path], kind)
        if name:
            found.append(kind._replace(schema=name))
    return sorted(found), schemas


def _kinds(side: Side) -> dict[tuple[str, str], Kind]:
    found = {}
    accept = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"
    for root in ("/api", "/apis"):
        for group in side.tree(root, accept)["items"]:
            name = group["metadata"].get("name", "")
            for served in group["versions"]:
                version = served["version"]
                path = f"apis/{name}/{version}" if name else f"api/{version}"
                for row in served.get("resources", ()):
                    found[path, row["resource"]] = Kind(
                        path, f"{name}/{version}" if name else version, row["responseKind"]["kind"], row["resource"], "",
                        row["scope"] == "Namespaced", frozenset(row["verbs"]),
                        tuple(sub["subresource"] for sub in row.get("subresources", ())),
                    )  # fmt: skip
    return found


def _schema_of(schemas: Mapping[str, Any], kind: Kind) -> str:
    group = kind.version.rpartition("/")[0]
    wanted = {"group": group, "version": kind.version.rpartition("/")[2], "kind": kind.kind}
    for name, schema in schemas.items():
        if wanted in schema.get("x-kubernetes-group-version-kind", ()):
            return name
    return ""


def compare(
    pair: Pair,
    seconds: float,
    seed: int,
    tell: Callable[[Difference], None],
    wanted: Callable[[Kind], bool] = lambda kind: True,
    clock: Callable[[], float] = time.monotonic,
    source: Source | None = None,
) -> int:
    """Asks until the time is over; what differs is told once for each resource and verb.  The number of these.

    ``source`` makes the requests, otherwise they are about objects of the kinds.

    Everything is made in a namespace of its own, which is deleted; what is in none is only tried (``dryRun=All``).
    """
    end = clock() + seconds
    kinds, schemas = common_kinds(pair)
    kinds = [kind for kind in kinds if wanted(kind)]
    if not kinds:
        raise LookupError("the servers have no such resource in common")
    namespace = f"beside-{seed}"
    for side in pair.sides:
        made = side.ask(Request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
        if made.status not in (201, 409):
            raise ConnectionError(f"no namespace: {made.status} {made.data[:200].decode('utf-8', 'replace')}")
    seen: set[tuple[str, ...]] = set()
    told: set[tuple[str, ...]] = set()
    try:
        asked = _requests(kinds, schemas, seed, namespace) if source is None else source(pair, kinds, seed, namespace)
        for request, kind in asked:
            if clock() >= end:
                break
            found = pair.difference(request)
            if found is None:
                continue
            whose = (kind.path, kind.resource, request.method)
            places = tuple(sorted({line.partition(":")[0] for line in found.lines}))
            if (*whose, *places) in seen:
                continue
            seen.add((*whose, *places))
            found = pair.smallest(found)
            if (*whose, *found.lines) not in told:
                told.add((*whose, *found.lines))
                tell(found)
    finally:
        for side in pair.sides:
            side.ask(Request("DELETE", f"/api/v1/namespaces/{namespace}"))
    return len(told)


def _requests(
    kinds: list[Kind], schemas: Mapping[str, Mapping[str, Any]], seed: int, namespace: str
) -> Iterator[tuple[Request, Kind]]:
    chance = random.Random(seed)
    number = 0
    while True:
        number += 1
        kind = chance.choice(kinds)
        samples = Samples(schemas[kind.path], chance)
        known = accepted().get((kind.path, kind.resource), ())
        requests = Requests(kind, samples, chance, namespace, dry=not kind.namespaced, accepted=known)
        for request in requests.about(f"n{number}"):
            yield request, kind
