"""The requests that a server got during a test, from its audit log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from kapi.machinery.tree import Object

MAX_LINES = 200  # of a report; the newest lines are shown
#: logs each request when it is answered, and the bodies of writes, so that they can be replayed (kapi/testing/replay.py);
#: controllers in the process are not in the log, since they do not use HTTP
POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*", "/openapi*", "/api", "/api/*", "/apis", "/apis/*", "/version"]
- level: Metadata
  verbs: ["get", "list", "watch"]
- level: Metadata
  nonResourceURLs: ["*"]
- level: Metadata
  resources:
  - group: ""
    resources: ["serviceaccounts/token"]
  - group: authentication.k8s.io
- level: RequestResponse
"""


class AuditTrail:
    """An audit log.  ``here`` is its current end, ``since`` reads the events after such a position."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def here(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def since(self, position: int) -> list[Object]:
        """The events of requests that were answered after ``position``; an incomplete last line is ignored."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as log:
            log.seek(position)
            lines = log.read().split(b"\n")[:-1]
        return [json.loads(line) for line in lines if line]


def requests_text(events: Iterable[Object]) -> str:
    """A text with a line for each request, in the order of the answers."""
    lines = [_line(event) for event in events]
    dropped = len(lines) - MAX_LINES
    head = [f"... {dropped} earlier requests"] if dropped > 0 else []
    return "\n".join([*head, *lines[-MAX_LINES:]])


def _line(event: Object) -> str:
    answer = event.get("responseStatus") or {}
    user = (event.get("impersonatedUser") or event.get("user") or {}).get("username", "")
    agent = str(event.get("userAgent", "")).partition(" ")[0]
    stamp = str(event.get("requestReceivedTimestamp", ""))[11:23]
    text = (
        f"{stamp} {event.get('verb', '')} {event.get('requestURI', '')} -> {answer.get('code', '')} ({user}, {agent})"
    )
    message = answer.get("message")
    return f"{text}: {message}" if message else text
