"""Random options, media types and encodings of requests about a few objects, which stay as they are (``dryRun=All``).

What a server chooses freely stands in a request as a name ($OLD, $NOW, $TOKEN) and is filled in for each side.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from kapi.codecs import cbor_writing
from kapi.schema import protobuf_writing
from tests.beside.pair import Pair, Side
from tests.beside.sequences import Kind, Request

_LABELS = {"app": "a", "n": "1"}
_POD = {"metadata": {"labels": _LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
_KINDS: dict[tuple[str, str], dict[str, Any]] = {
    ("api/v1", "configmaps"): {"data": {"k": "v"}},
    ("api/v1", "secrets"): {"type": "x", "data": {"k": "dg=="}},
    ("api/v1", "events"): {"reason": "R", "type": "Normal"},
    ("apis/apps/v1", "deployments"): {"spec": {"selector": {"matchLabels": _LABELS}, "template": _POD}},
    ("apis/coordination.k8s.io/v1", "leases"): {"spec": {"holderIdentity": "x"}},
}
_OBJECTS = ("a", "b", "c", "d")
_REVISIONS = ("", "0", "$OLD", "$NOW", "x", "-1", "00", "1.5", " 1")
_FLAGS = ("", "true", "false", "0", "x")
_TOKENS = ("", "x", "e30", "W10", "e30=", "AAAAA", "$TOKEN")
_FORGED: tuple[dict[str, Any], ...] = (
    {"rv": -1, "start": "b"}, {"rv": 0, "start": "b"}, {"start": "b"}, {"rv": -1}, {"rv": 1.5, "start": "b"},
    {"rv": -1, "start": 5}, {"rv": -1, "start": "../b"}, {"rv": -1, "start": "b/"}, {"RV": -1, "Start": "/b"},
)  # fmt: skip
_READS: dict[str, Sequence[str]] = {
    "resourceVersion": _REVISIONS,
    "resourceVersionMatch": ("", "Exact", "NotOlderThan", "x"),
    "limit": ("", "0", "1", "2", "9", "-1", "x", "9223372036854775808"),
    "continue": _TOKENS,
    "labelSelector": ("app=a", "app!=a", "n in (1,2)", "!n", "n>0", "a b", "app in (", ""),
    "fieldSelector": ("metadata.name=a", "metadata.name!=a", "x=1", "type=x", "metadata.name", "="),
    "sendInitialEvents": _FLAGS,
    "allowWatchBookmarks": _FLAGS,
    "timeoutSeconds": ("", "1", "x"),
    "includeObject": ("", "None", "Metadata", "Object", "x"),
    "pretty": _FLAGS,
}
_WRITES: dict[str, Sequence[str]] = {
    "fieldManager": ("", "a", "m" * 128, "m" * 129, "é" * 65, "a\nb", "\u200b"),
    "fieldValidation": ("", "Strict", "Warn", "Ignore", "strict"),
    "dryRun": ("", "x", "All"),
    "force": _FLAGS,
    "pretty": _FLAGS,
}
_DELETES: dict[str, Sequence[Any]] = {
    "gracePeriodSeconds": (0, 1, -1, "x", 1.5, None),
    "propagationPolicy": ("Background", "Foreground", "Orphan", "x", "", None, 1),
    "orphanDependents": (True, False, None, "x"),
    "preconditions": ({}, {"uid": "x"}, {"resourceVersion": "1"}, None, "x", []),
    "dryRun": (["All"], ["All", "x"], "All", [1]),
}
_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor")
_ACCEPTED = (*_TYPES, "*/*", "application/*", "text/html", "application/json;stream=watch", "json")
_PARAMETERS = (
    "as=Table;v=v1;g=meta.k8s.io", "as=Table;v=v1beta1;g=meta.k8s.io", "as=Table;v=v2;g=meta.k8s.io", "as=Table", "q=0.5", "q=x",
    "as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "charset=utf-8", "pretty=1",
)  # fmt: skip
_SENT = (*_TYPES, "application/json;charset=utf-8", "application/json;", "text/plain", "", "APPLICATION/JSON")
_PATCHES = {
    "application/merge-patch+json": {"metadata": {"labels": {"z": "1"}}},
    "application/strategic-merge-patch+json": {"metadata": {"labels": {"z": "1"}}},
    "application/json-patch+json": [{"op": "add", "path": "/metadata/labels/z", "value": "1"}],
    "application/apply-patch+yaml": {},
}


class _Made(NamedTuple):
    """A kind, the URL of its objects and what they have."""

    kind: Kind
    url: str
    body: dict[str, Any]

    def named(self, name: str) -> dict[str, Any]:
        event = {"involvedObject": {"namespace": self.url.split("/")[-2]}} if self.kind.resource == "events" else {}
        head = {"apiVersion": self.kind.version, "kind": self.kind.kind}
        return {**head, "metadata": {"name": name, "labels": _LABELS}, **self.body, **event}


def requests(pair: Pair, kinds: Sequence[Kind], seed: int, namespace: str) -> Iterator[tuple[Request, Kind]]:
    """The objects are made first.  Raises LookupError when the servers have none of their kinds."""
    made = [
        _Made(kind, f"/{kind.path}/namespaces/{namespace}/{kind.resource}", _KINDS[kind.path, kind.resource])
        for kind in kinds
        if (kind.path, kind.resource) in _KINDS
    ]
    if not made:
        raise LookupError("the servers have none of the resources whose options are tried")
    for side in pair.sides:
        _prepare(side, made)
    chance = random.Random(seed)
    while True:
        each = chance.choice(made)
        choices = (_list, _list, _get, _write, _write, _patch, _delete)
        yield (_watch if chance.random() < 0.02 else chance.choice(choices))(each, chance), each.kind


def _prepare(side: Side, made: Sequence[_Made]) -> None:
    side.names["$OLD"] = side.tree(f"{made[0].url}?limit=1")["metadata"]["resourceVersion"]
    for each in made:
        for name in _OBJECTS:
            side.ask(Request("POST", each.url, each.named(name)))
    page = side.tree(f"{made[0].url}?limit=2")["metadata"]
    side.names.update({"$NOW": page["resourceVersion"], "$TOKEN": page.get("continue", "x")})


def _list(each: _Made, chance: random.Random) -> Request:
    return Request("GET", each.url + _query(_READS, chance), accept=_accept(chance))


def _get(each: _Made, chance: random.Random) -> Request:
    return Request("GET", f"{each.url}/{chance.choice(('a', 'none'))}{_query(_WRITES, chance)}", accept=_accept(chance))


def _watch(each: _Made, chance: random.Random) -> Request:
    """Of what there is; bookmarks come when a server likes."""
    options = {
        name: values
        for name, values in _READS.items()
        if name not in ("allowWatchBookmarks", "timeoutSeconds", "pretty")
    }
    accept = chance.choice((_TYPES[0], *(f"{_TYPES[0]};{parameter}" for parameter in _PARAMETERS)))
    return Request("GET", each.url + _query(options, chance, "watch=true", "timeoutSeconds=1"), accept=accept)


def _write(each: _Made, chance: random.Random) -> Request:
    method, name = chance.choice((("POST", "new"), ("PUT", "a")))
    url = each.url if method == "POST" else f"{each.url}/{name}"
    return _sent(method, url + _query(_WRITES, chance, "dryRun=All"), each.named(name), chance)


def _patch(each: _Made, chance: random.Random) -> Request:
    type_ = chance.choice((*_PATCHES, "application/json", "text/plain"))
    body = _PATCHES.get(type_) or each.named("a")
    return Request("PATCH", f"{each.url}/a{_query(_WRITES, chance, 'dryRun=All')}", body, type_, _accept(chance))


def _delete(each: _Made, chance: random.Random) -> Request:
    """Of one object or of all, with options in the body or the query."""
    url = chance.choice((each.url, f"{each.url}/a", f"{each.url}/none"))
    options = {name: chance.choice(values) for name, values in _DELETES.items() if chance.random() < 0.3}
    selection = {name: _READS[name] for name in ("labelSelector", "fieldSelector", "limit", "resourceVersion")}
    query = _query(selection if url == each.url else {}, chance, "dryRun=All")
    if chance.random() < 0.3:
        return Request(
            "DELETE", f"{url}{query}&gracePeriodSeconds={chance.choice(('0', 'x', '-1'))}", accept=_accept(chance)
        )
    head = {
        "kind": chance.choice(("DeleteOptions", "x", "")),
        "apiVersion": chance.choice(("v1", "meta.k8s.io/v1", "x/y/z")),
    }
    return _sent("DELETE", url + query, {**head, "dryRun": ["All"], **options}, chance)


# -- parts


def _query(options: dict[str, Sequence[str]], chance: random.Random, *fixed: str) -> str:
    parts = list(fixed)
    for name, values in options.items():
        if chance.random() < 0.2:
            value = chance.choice(values)
            if name == "continue" and chance.random() < 0.5:
                value = _forged(chance.choice(_FORGED))
            parts.append(f"{name}={quote(value, safe='$')}")
    chance.shuffle(parts)
    return "?" + "&".join(parts) if parts else ""


def _forged(fields: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps({"v": "meta.k8s.io/v1", **fields}).encode()).decode().rstrip("=")


def _accept(chance: random.Random) -> str:
    """A header with several clauses; the second half of the time plain JSON."""
    if chance.random() < 0.5:
        return "application/json"
    clauses = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        media = chance.choice(_ACCEPTED)
        clauses.append(f"{media};{chance.choice(_PARAMETERS)}" if chance.random() < 0.5 else media)
    return ",".join(clauses)


def _sent(method: str, url: str, body: dict[str, Any], chance: random.Random) -> Request:
    """The body in the form that its Content-Type says."""
    type_ = chance.choice(_SENT)
    data: Any = body
    if type_ == "application/cbor":
        data = cbor_writing.dumps(body)
    elif type_ == "application/vnd.kubernetes.protobuf":
        try:
            data = protobuf_writing.encode_tree(body)
        except Exception:  # what has no such form is sent as JSON, which is refused
            data = body
    return Request(method, url, data, type_, _accept(chance))
