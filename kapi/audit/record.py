"""An encoded audit event for the back ends, as JSON or as one line of text."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
import orjson

from kapi.audit.raw import without
from kapi.machinery.tree import Object

_BODIES = ("requestObject", "responseObject")
_encode = msgspec.json.Encoder().encode


class Record:
    """``data`` is an audit.k8s.io/v1 Event: one line of JSON without the line end."""

    __slots__ = ("data", "level")

    def __init__(self, data: bytes, level: int) -> None:
        self.data = data
        self.level = level

    def legacy(self) -> str:
        """The line of ``--audit-log-format=legacy``: some of the fields, as text."""
        tree: Object = orjson.loads(_encode(without(self.data, *_BODIES)))
        user, other = tree["user"], tree.get("impersonatedUser")
        username = user.get("username") or "<none>"
        groups = _list(user["groups"]) if username != "<none>" and user.get("groups") else "<none>"
        as_user, as_groups = "<self>", "<lookup>"
        if other is not None:
            as_user = other.get("username", "")
            as_groups = _list(other["groups"]) if other.get("groups") else "<lookup>"
        namespace = tree.get("objectRef", {}).get("namespace") or "<none>"
        response = str(tree["responseStatus"]["code"]) if "responseStatus" in tree else "<deferred>"
        address = tree["sourceIPs"][0] if tree.get("sourceIPs") else "<unknown>"
        pairs = {
            "id": tree["auditID"], "stage": tree["stage"], "ip": address, "method": tree["verb"], "user": username,
            "groups": groups, "as": as_user, "asgroups": as_groups, "user-agent": tree.get("userAgent", ""),
            "namespace": namespace, "uri": tree["requestURI"], "response": response,
        }  # fmt: skip
        text = " ".join(f"{name}={_quote(value)}" for name, value in pairs.items())
        return f"{_short(tree['requestReceivedTimestamp'])} AUDIT: {text}"

    def truncated(self) -> Record:
        """A copy without the objects, annotated as truncated."""
        found = without(self.data, *_BODIES)
        annotations = orjson.loads(bytes(found.get("annotations", b"{}")))
        annotations["audit.k8s.io/truncated"] = "true"
        return Record(_encode({**found, "annotations": annotations}), self.level)


def event_list(records: Sequence[Record]) -> bytes:
    """The body of a webhook's request."""
    items = b",".join([record.data for record in records])
    return b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[' + items + b"]}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _list(values: list[str]) -> str:
    return ",".join(_quote(value) for value in values)


def _short(timestamp: str) -> str:
    """A time without trailing zeros, as Go's RFC3339Nano."""
    return timestamp[:-1].rstrip("0").rstrip(".") + "Z"
