"""Replays the writes of a recorded run, from the audit events of a kapi or any kube-apiserver (level RequestResponse).

The writes of the server's own controllers are not in a recording; the controllers make them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

from kapi.machinery.tree import Object, Tree

CONTENT_TYPE = "kapi/content-type"  # annotation of a patch's event (kapi.testbed.clusters)
METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE"}
_CONNECTS = frozenset(["attach", "exec", "portforward", "proxy"])
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: called with method, path, body as JSON or "", and its media type; returns the code and the tree
Send = Callable[[str, str, str, str], tuple[int, Tree]]


def writes(events: Iterable[Object]) -> list[Object]:
    """The events of requests that have changed something, in the order of their arrival."""
    found = [
        event
        for event in events
        if event.get("verb") in METHODS
        and event.get("stage") == "ResponseComplete"
        and (event.get("objectRef") or {}).get("subresource") not in _CONNECTS
        and 200 <= (event.get("responseStatus") or {}).get("code", 0) < 300
        and "dryRun=" not in event["requestURI"]
    ]
    return sorted(found, key=lambda event: str(event.get("requestReceivedTimestamp", "")))


def replay(events: Iterable[Object], send: Send) -> Iterator[str]:
    """Sends the writes one by one; yields a line for each that has a different answer now.

    Generated names are the recorded ones; recorded uids are replaced by the new ones.  An update replaces the present
    version of its object; preconditions of deletions are left out.
    """
    uids: dict[str, str] = {}  # recorded uid -> new uid
    for event in writes(events):
        method, path, recorded = METHODS[event["verb"]], event["requestURI"], event.get("responseObject") or {}
        body = _body(event, recorded)
        if method == "PUT" and body is not None:
            code, now = send("GET", path.partition("?")[0], "", "")
            body["metadata"].pop("uid", None)
            body["metadata"].pop("resourceVersion", None)
            if code == 200:
                body["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"]
        text = "" if body is None else _UID.sub(lambda found: uids.get(found[0], found[0]), json.dumps(body))
        code, answer = send(method, path, text, _media_type(event, body))
        if isinstance(answer, dict):
            before, after = (tree.get("metadata", {}).get("uid") for tree in (recorded, answer))
            if before and after:
                uids[before] = after
        if code >= 300:
            message = answer.get("message", "") if isinstance(answer, dict) else answer
            yield f"{method} {path}: {event['responseStatus']['code']}, now {code} {message}"


def _body(event: Object, recorded: Object) -> Tree:
    body = event.get("requestObject")
    if event["verb"] in ("delete", "deletecollection"):
        return None if body is None else {key: value for key, value in body.items() if key != "preconditions"}
    if event["verb"] == "create" and body is not None:
        metadata = body.setdefault("metadata", {})
        name = recorded.get("metadata", {}).get("name")
        if metadata.get("generateName") and not metadata.get("name") and name:
            metadata["name"] = name
    return body


def _media_type(event: Object, body: Tree) -> str:
    if event["verb"] != "patch":
        return "application/json"
    known = (event.get("annotations") or {}).get(CONTENT_TYPE)
    if known:
        return str(known).partition(";")[0]
    if isinstance(body, list):
        return "application/json-patch+json"
    if isinstance(body, dict) and {"apiVersion", "kind"} <= body.keys():
        return "application/apply-patch+yaml"
    group = (event.get("objectRef") or {}).get("apiGroup", "")
    built_in = "." not in group or group.endswith(".k8s.io")
    return f"application/{'strategic-merge' if built_in else 'merge'}-patch+json"
