"""Named snapshots of logical clusters, from which forks begin, and to which clusters are reset.

A snapshot shares the bytes of objects with its cluster.  As a file it has a header line and a line of JSON for each object.
``/snapshots`` is for members of system:masters, with ``--enable-logical-clusters``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import orjson

from kapi.authorization.forbidden import require_masters
from kapi.codecs.split import encode_halves
from kapi.endpoints.body import raw_body
from kapi.machinery import names, status
from kapi.machinery.checkpoint import engage
from kapi.machinery.each import elements
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object, Tree
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.routing import Answer, Routes
from kapi.store.memory import Snapshot
from kapi.store.table import Value

PATH = "/snapshots"
MAX_SNAPSHOTS = 1000
FORMAT = "kapi snapshot 1"
MAX_REVISION = 2**62
LINES = b"application/x-kapi-snapshot"
_PREFIX = PATH + "/"


class Snapshots:
    """Snapshots by name.  ``take(name)`` returns the state of a logical cluster, or raises NotFound."""

    app = Routes()

    def __init__(self, take: Callable[[str], Snapshot]) -> None:
        self._take = take
        self._known: dict[str, Snapshot] = {}

    def get(self, name: str) -> Snapshot:
        """Raises NotFound."""
        found = self._known.get(name)
        if found is None:
            raise status.NotFound(f"there is no snapshot {quote(name)}")
        return found

    @app.route(PATH, branch=True, listed=False)
    def answer(self, ctx: RequestContext) -> Answer:
        """GET describes all snapshots, or one (``?content=1``: its file).  PUT takes one from a cluster or a file.

        POST adds further lines of a file.  DELETE removes one.  Raises StatusError.
        """
        require_masters(ctx.user, "snapshots are for members of system:masters")
        name = ctx.path[len(_PREFIX) :]
        if not name:
            if ctx.method != "GET":
                raise status.method_not_allowed()
            return _json(200, {"snapshots": [_record(*each) for each in self._known.items()]})
        if ctx.method in ("PUT", "POST"):
            return _json(201, _record(name, self._made(name, ctx)))
        found = self.get(name)
        if ctx.method == "DELETE":
            del self._known[name]
        elif ctx.method != "GET":
            raise status.method_not_allowed()
        elif ctx.first("content"):
            engage()
            return Response(200, b"".join(lines_of(found)), LINES)
        return _json(200, _record(name, found))

    def _made(self, name: str, ctx: RequestContext) -> Snapshot:
        problems = names.dns_subdomain(name)
        if problems:
            raise status.bad_request(f"{quote(name)} is no name of a snapshot: {'; '.join(problems)}")
        if name not in self._known and len(self._known) >= MAX_SNAPSHOTS:
            raise status.too_many_requests(f"there are {MAX_SNAPSHOTS} snapshots", 1)
        body = raw_body(ctx)
        try:
            if (ctx.header("content-type") or "").encode().startswith(LINES):
                made = snapshot_of(body, self.get(name) if ctx.method == "POST" else None)
            else:
                made = self._take(str(orjson.loads(body)["cluster"]))
        except (AttributeError, ValueError, KeyError, TypeError) as error:
            raise status.bad_request(f'expected {{"cluster": "..."}} or the lines of a snapshot: {error}') from None
        self._known[name] = made
        return made


def lines_of(snapshot: Snapshot) -> Iterator[bytes]:
    """The file of a snapshot."""
    head = {"format": FORMAT, "revision": snapshot.revision, "realm": snapshot.realm}
    yield orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE)
    for value in elements(snapshot.values()):
        key = value.key
        line: Object = {"key": key, "revision": value.revision, "object": orjson.Fragment(value.data)}
        for name, table in (
            ("expires", snapshot.expires),
            ("counted", snapshot.counted),
            ("charged", snapshot.charged),
        ):
            if key in table:
                line[name] = table[key]
        yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def snapshot_of(lines: bytes, before: Snapshot | None = None) -> Snapshot:
    """The snapshot of a file's lines, added to ``before``.  Raises Value-, Key-, Type- and AttributeError for invalid lines."""
    made = before or Snapshot(0, {}, {}, {}, {})
    values: list[Value] = []
    tables = {name: dict(getattr(made, name)) for name in ("expires", "counted", "charged")}
    revision, realm = made.revision, made.realm
    for text in elements(lines.splitlines()):
        line = orjson.loads(text)
        if "format" in line:
            if line["format"] != FORMAT:
                raise ValueError(f"unknown format {line['format']}")
            revision, realm = _revision(line["revision"]), str(line.get("realm", ""))
            continue
        key, at = line["key"], _revision(line["revision"])
        if len(key.split("/")) != 4 or not at:
            raise ValueError(f"no key of an object, or no revision: {key} {at}")
        head, tail = encode_halves(line["object"])
        values.append(Value.of(key, head, at, tail))
        revision = max(revision, at)
        for name, table in tables.items():
            if name in line:
                table[key] = _seconds(line[name]) if name == "expires" else _revision(line[name])
    return Snapshot(revision, made.with_objects(values).tables, foreign=True, realm=realm, **tables)


def _revision(value: object) -> int:
    """A revision below MAX_REVISION, so that further ones fit into 64 bits.  Raises ValueError."""
    if type(value) is not int or not 0 <= value < MAX_REVISION:
        raise ValueError(f"no revision: {value}")
    return value


def _seconds(value: Tree) -> float:
    """Unix seconds.  Raises ValueError."""
    if type(value) not in (int, float):
        raise ValueError(f"no unix seconds: {value}")
    return float(value)


def _record(name: str, snapshot: Snapshot) -> Object:
    return {"name": name, "revision": snapshot.revision, "objects": snapshot.size}


def _json(code: int, tree: Object) -> Response:
    return Response(code, orjson.dumps(tree))
