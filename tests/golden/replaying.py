"""Recordings of a real kube-apiserver: the requests are sent again and the answers compared.

A recording is a JSON file: ``area``, ``name`` and ``steps``. A step has ``method``, ``path``, ``as`` (a user),
``headers``, ``body`` or ``text`` and its ``type``, ``save`` (names that later steps may use as ``$NAME``, and where
in the answer they are), ``stream`` (read a watch to its end, or for so many seconds), ``wait`` (repeat until a place
of the answer has a value), ``only`` (compare the status alone), ``ignore`` (places that are not compared) and
``answer``.  What a server chooses freely - uids, times, revisions, allocated addresses - stands in it as a
placeholder; ``normalised`` puts the same into what is answered.
"""

from __future__ import annotations

import functools
import http.client
import json
import re
import ssl
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

Step = dict[str, Any]
Answer = dict[str, Any]

_UNSTABLE_HEADERS = frozenset(
    (
        "date", "audit-id", "content-length", "transfer-encoding", "connection", "vary", "etag", "last-modified",
        "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid", "strict-transport-security", "server",
        "cache-control", "x-content-type-options",
    )
)  # fmt: skip
_PLACEHOLDERS = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uid>"),
    (re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "<time>"),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), "<jwt>"),
    (re.compile(r"\b(?:10\.0\.0\.\d{1,3}|192\.0\.2\.\d{1,3}|127\.0\.0\.1:\d+|127\.0\.0\.1)\b"), "<ip>"),
    (re.compile(r"(resource ?[vV]ersion[: ]+)\d+"), r"\1<rv>"),
)
_CHOSEN_TEXTS = {
    "resourceVersion": "<resourceVersion>",
    "continue": "<continue>",
    "nodePort": "<port>",
    "healthCheckNodePort": "<port>",
}
_CHOSEN_NUMBERS = frozenset(("nodePort", "healthCheckNodePort", "remainingItemCount"))
_AGES = frozenset(("Age", "Last Schedule", "Last Seen", "First Seen"))
_AGE = re.compile(r"(\d+[smhdy])+")
_AGO = re.compile(r"\((\d+[smhdy])+ ago\)")
_SAFE = "/?&=%:,.!()~*'+-_;@$"
HEADERS = {"User-Agent": "golden/1", "Accept": "application/json"}
_MAX_SECONDS = 120.0  # of an answer, and of a watch that the server ends
_PATIENCE = 6  # so many times as long as the recorded server was waited for: this machine may have much to do


class Reply(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    data: bytes


class Asks(Protocol):
    """Sends requests to a server, whose time it reads and waits for."""

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None, user: str, seconds: float | None
    ) -> Reply: ...

    def seconds(self) -> float: ...

    def pause(self, seconds: float) -> None: ...


class Asker:
    """One kept connection to a server, and a further one for each stream."""

    def __init__(self, url: str, tokens: Mapping[str, str]) -> None:
        self._where = urllib.parse.urlsplit(url)
        self._tokens = tokens
        self._context = ssl.SSLContext(
            ssl.PROTOCOL_TLS_CLIENT
        )  # without the system's authorities, which take 25 ms to read
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._kept = self._connect(_MAX_SECONDS)

    def _connect(self, seconds: float) -> http.client.HTTPConnection:
        assert self._where.hostname is not None
        if self._where.scheme == "http":
            return http.client.HTTPConnection(self._where.hostname, self._where.port, timeout=seconds)
        return http.client.HTTPSConnection(
            self._where.hostname, self._where.port, context=self._context, timeout=seconds
        )

    def close(self) -> None:
        self._kept.close()

    def seconds(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None, user: str, seconds: float | None
    ) -> Reply:
        """``seconds``: how long to read a stream.  No answer at all has the status 0."""
        headers = {**HEADERS, **headers}
        if user != "anonymous":
            headers["Authorization"] = "Bearer " + self._tokens[user]
        if seconds is None:
            for _ in range(2):  # the server may have ended the connection; one that panics ends it again
                try:
                    self._kept.request(method, path, body=body, headers=headers)
                    answer = self._kept.getresponse()
                    return Reply(answer.status, answer.getheaders(), answer.read())
                except (http.client.HTTPException, OSError):
                    self._kept.close()
            return Reply(0, [], b"")
        if "timeoutSeconds=" in path:
            seconds = _MAX_SECONDS  # the server ends it
        connection = self._connect(_MAX_SECONDS)
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return Reply(answer.status, answer.getheaders(), _until(connection, answer, seconds))
        except (http.client.HTTPException, OSError):
            return Reply(0, [], b"")
        finally:
            connection.close()


def _until(connection: http.client.HTTPConnection, answer: http.client.HTTPResponse, seconds: float) -> bytes:
    end, data = time.monotonic() + seconds, b""
    try:
        while (left := end - time.monotonic()) > 0:
            if connection.sock is not None:
                connection.sock.settimeout(left)
            part = answer.read1(65536)
            if not part:
                break
            data += part
    except (http.client.HTTPException, OSError):
        pass
    return data


def replay(asker: Asks, recording: Path) -> Iterator[tuple[Step, Answer, Answer]]:
    """Each step with the answer that was recorded and the one that comes now, both as they are compared."""
    scenario = json.loads(recording.read_text())
    namespace = re.sub(r"[^a-z0-9-]", "-", f"g-{scenario['area']}-{scenario['name']}".lower())[:60].strip("-")
    post = {"Content-Type": "application/json"}
    for path, name in (
        ("/api/v1/namespaces", namespace),
        (f"/api/v1/namespaces/{namespace}/serviceaccounts", "default"),
    ):
        asker.ask("POST", path, post, json.dumps({"metadata": {"name": name}}).encode(), "admin", None)
    names = {"NS": namespace}
    for step in scenario["steps"]:
        reply = _answered(asker, step, names)
        tree = _tree(reply.data)
        for name, place in step.get("save", {}).items():
            names[name] = str(_dig(tree, place))
        found = described(reply, step.get("stream") is not None)
        yield step, _compared(step["answer"], step), _compared(found, step)
        asker.pause(step.get("sleep", 0))  # some scenarios depend on the second of a time


def _answered(asker: Asks, step: Step, names: Mapping[str, str]) -> Reply:
    path = urllib.parse.quote(_filled(step["path"], names), safe=_SAFE)
    headers = _filled(step.get("headers", {}), names)
    body = None
    if "text" in step:
        body = _filled(step["text"], names).encode()
    elif "body" in step:
        body = json.dumps(_filled(step["body"], names)).encode()
    if body is not None:
        headers.setdefault("Content-Type", step.get("type", "application/json"))
    wait = step.get("wait")
    end = asker.seconds() + _PATIENCE * (wait or {}).get("seconds", 10)
    while True:
        reply = asker.ask(step.get("method", "GET"), path, headers, body, step.get("as", "admin"), step.get("stream"))
        if wait is None or asker.seconds() > end:
            return reply
        found = _dig(_tree(reply.data), wait["path"])
        if found == wait["is"] if "is" in wait else found is not None:
            return reply
        asker.pause(0.2)


def _tree(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for name in sorted(names, key=len, reverse=True):
            value = value.replace("$" + name, names[name])
        return value
    if isinstance(value, dict):
        return {_filled(key, names): _filled(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, names) for item in value]
    return value


def _dig(value: Any, place: str) -> Any:
    for part in place.split("."):
        if isinstance(value, list):
            value = value[int(part)] if part.isdigit() and int(part) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            return None
    return value


def described(reply: Reply, stream: bool) -> Answer:
    """Status, headers and the body as a tree, or the events of a stream, with placeholders."""
    headers: dict[str, Any] = {
        name.lower(): value for name, value in reply.headers if name.lower() not in _UNSTABLE_HEADERS
    }
    warnings = sorted(value for name, value in reply.headers if name.lower() == "warning")
    if warnings:
        headers["warning"] = warnings
    answer: Answer = {"status": reply.status, "headers": normalised(headers)}
    text = reply.data.decode("utf-8", "replace")
    if stream and reply.status == 200:
        events = (_tree(line.encode()) for line in text.splitlines())
        answer["events"] = normalised([event for event in events if event is not None])
        return answer
    try:
        answer["body"] = normalised(json.loads(text)) if text else None
    except ValueError:
        answer["body"] = normalised(text)
    return answer


def normalised(value: Any, key: str = "") -> Any:
    """With a placeholder for whatever a server chooses freely."""
    if isinstance(value, dict):
        if key == "metadata" and "generateName" in value and "name" in value:
            value = {**value, "name": value["generateName"] + "<random>"}
        return {name: normalised(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [normalised(item, key) for item in value]
    if isinstance(value, str):
        if key in _CHOSEN_TEXTS and value:
            return _CHOSEN_TEXTS[key]
        return _with_placeholders(value)
    if isinstance(value, int) and not isinstance(value, bool) and key in _CHOSEN_NUMBERS:
        return "<number>"
    return value


@functools.lru_cache(10_000)
def _with_placeholders(text: str) -> str:
    """A text with a placeholder for whatever a server chooses freely."""
    for pattern, placeholder in _PLACEHOLDERS:
        text = pattern.sub(placeholder, text)
    return text


def _compared(answer: Answer, step: Step) -> Answer:
    """Without what depends on the moment, and what the step leaves out; in place."""
    if step.get("only") == "status":
        return {"status": answer["status"]}
    without_moment(answer, [])
    for place in step.get("ignore", []):
        for root in ("body", "events", "headers"):
            _cut(answer.get(root), place.split("."))
    return answer


def _cut(node: Any, parts: list[str]) -> None:
    if isinstance(node, list):
        for item in node:
            _cut(item, parts)
    elif isinstance(node, dict):
        if parts[0] == "*":
            for item in node.values():
                _cut(item, parts[1:])
        elif len(parts) == 1:
            node.pop(parts[0], None)
        else:
            _cut(node.get(parts[0]), parts[1:])


def without_moment(node: Any, columns: list[Any]) -> None:
    """In place: ages in tables are <age>; managedFields, which a server sorts by time, are sorted by what else they hold."""
    if isinstance(node, list):
        for item in node:
            without_moment(item, columns)
    if not isinstance(node, dict):
        return
    if isinstance(node.get("managedFields"), list):
        node["managedFields"].sort(key=_manager)
    if node.get("kind") == "Table" and isinstance(node.get("rows"), list):
        if node.get("columnDefinitions"):  # later events of a watch leave them out
            columns[:] = [column.get("name") for column in node["columnDefinitions"]]
        for row in node["rows"]:
            cells = row.get("cells") or []
            for index, cell in enumerate(cells):
                if isinstance(cell, str):
                    named = index >= len(columns) or columns[index] in _AGES  # an IPAddress has more cells than columns
                    timed = named and _AGE.fullmatch(cell)
                    cells[index] = "<age>" if timed else _AGO.sub("(<age> ago)", cell)
    for item in node.values():
        without_moment(item, columns)


def _manager(entry: Mapping[str, Any]) -> list[str]:
    return [str(entry.get(name, "")) for name in ("operation", "manager", "apiVersion", "subresource")]


def without_texts(answer: Answer) -> Answer:
    """The status code, the reason and the object itself: no messages, no headers, and not who owns the fields."""
    kept: Answer = {"status": answer["status"]}
    for root in ("body", "events"):
        if root in answer:
            kept[root] = "<text>" if isinstance(answer[root], str) else _without_messages(answer[root])
    return kept


def _without_messages(node: Any) -> Any:
    if isinstance(node, dict):
        dropped = ("message", "managedFields")
        return {name: _without_messages(item) for name, item in node.items() if name not in dropped}
    return [_without_messages(item) for item in node] if isinstance(node, list) else node


def differences(wanted: Any, found: Any, place: str = "") -> Iterator[str]:
    """One line each."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in sorted({*wanted, *found}):
            yield from differences(wanted.get(name), found.get(name), f"{place}.{name}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for index, pair in enumerate(zip(wanted, found, strict=True)):
            yield from differences(*pair, f"{place}[{index}]")
    elif wanted != found:
        yield f"{place or '.'}: want {_short(wanted)}, got {_short(found)}"


def _short(value: Any) -> str:
    return json.dumps(value, sort_keys=True)[:160]


def tokens_of(file: Path) -> dict[str, str]:
    """User -> token, from a static token file."""
    lines = (line.split(",")[:2] for line in file.read_text().splitlines() if line.strip())
    return {user.strip('"'): token for token, user in lines}
