"""A client that speaks protobuf and nothing else: every built-in kind and verb, in and out, against a whole server.

What comes back is compared with the JSON of the same request, encoded by the tables of the schema; these are held equal to
upstream's bytes by ``tests/schema/test_protobuf_writing.py``.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import ssl
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson
import pytest

from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource
from kapi.schema import protobuf, protobuf_writing
from tests.integration.server_process import ForkedServer, ServerProcess
from tests.protobuf_fields import fields
from tests.resources.test_every_row import LEAST, NAMES

PROTOBUF = "application/vnd.kubernetes.protobuf"
META = "g=meta.k8s.io;v=v1"
NAMESPACE = "/api/v1/namespaces/default"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#: kinds whose objects a controller changes, too
_CHANGED = ("CustomResourceDefinition", "FlowSchema", "PriorityLevelConfiguration", "ServiceCIDR", "APIService")
#: what this client sends where ``LEAST`` is an object of another version of the kind, or none that a server takes
_OWN: dict[tuple[str, str], Object] = {
    ("", "Event"): {"involvedObject": {"namespace": "default"}},
    ("events.k8s.io", "Event"): {
        "reportingController": "example.com/c", "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal",
        "eventTime": "2023-01-01T00:00:00.000000Z", "regarding": {"namespace": "default"},
    },
}  # fmt: skip


class Answer(NamedTuple):
    code: int
    type: str
    data: bytes

    @property
    def tree(self) -> Object:
        """Read as what the envelope says it is."""
        assert self.type.startswith(PROTOBUF), (self.type, self.data[:300])
        kind = protobuf.envelope(self.data)
        group, _, version = kind.api_version.rpartition("/")
        return protobuf.decode(self.data, GroupVersionKind(group, version, kind.kind))


class Client:
    def __init__(self, server: ServerProcess) -> None:
        context = ssl.create_default_context(cafile=str(server.authority))
        host = server.url.removeprefix("https://")
        self._connect = functools.partial(http.client.HTTPSConnection, host, context=context, timeout=120)
        self._connection = self._connect()

    def ask(
        self, method: str, path: str, body: bytes | Object | None = None, type: str = PROTOBUF, accept: str = PROTOBUF,
        token: str = "admintoken",
    ) -> Answer:  # fmt: skip
        """``body``: bytes as they are, or an object that is sent as protobuf."""
        headers = {"Accept": accept, "Authorization": f"Bearer {token}"}
        if body is not None:
            headers["Content-Type"] = type
        data = encoded(body) if isinstance(body, dict) else body
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        return Answer(answer.status, answer.getheader("Content-Type") or "", answer.read())

    def tree(self, method: str, path: str, body: bytes | Object | None = None, code: int = 200, **how: Any) -> Object:
        answer = self.ask(method, path, body, **how)
        assert answer.code == code, answer
        return answer.tree

    def read(self, path: str, transformation: str = "") -> None:
        """A GET whose protobuf is that of its JSON, when nobody writes meanwhile."""
        json = self.ask("GET", path, accept="application/json" + transformation).data
        for _ in range(10):
            answer = self.ask("GET", path, accept=PROTOBUF + transformation)
            before, json = json, self.ask("GET", path, accept="application/json" + transformation).data
            if json == before:
                break
        assert (answer.code, answer.type) == (200, PROTOBUF)
        assert answer.data == protobuf_writing.encode_tree(orjson.loads(json))

    def first_event(self, path: str) -> tuple[str, Object]:
        """Of a watch."""
        with contextlib.closing(self._connect()) as connection:
            connection.request("GET", path, headers={"Accept": PROTOBUF, "Authorization": "Bearer admintoken"})
            answer = connection.getresponse()
            assert (answer.status, answer.getheader("Content-Type")) == (200, f"{PROTOBUF};stream=watch")
            head = answer.read(4)
            return next(frames(head + answer.read(int.from_bytes(head))))

    def create(self, path: str, kind: str, version: str, **fields: Any) -> Object:
        return self.tree("POST", path, {"kind": kind, "apiVersion": version, **fields}, 201)


def encoded(obj: Object) -> bytes:
    group, _, version = obj["apiVersion"].rpartition("/")
    return protobuf_writing.encode(obj, GroupVersionKind(group, version, obj["kind"]))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with ForkedServer("--authorization-mode=Node,RBAC", "--controllers=") as server:
        made = Client(server)
        made.create(f"{NAMESPACE}/serviceaccounts", "ServiceAccount", "v1", metadata={"name": "default"})
        yield made


def served(row: Resource) -> bool:
    return not row.handler and row.version == "v1" or (row.group, row.version) == ("autoscaling", "v2")


def base(row: Resource) -> str:
    root = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
    return f"{root}/namespaces/default/{row.plural}" if row.namespaced else f"{root}/{row.plural}"


def sample(row: Resource) -> Object:
    name = NAMES.get(row.kind, f"x-{row.version}-{row.group or 'core'}")
    fields = _OWN.get((row.group, row.kind), LEAST.get(row.kind, {}))
    version = f"{row.group}/{row.version}" if row.group else row.version
    return {"kind": row.kind, "apiVersion": version, "metadata": {"name": name}, **fields}


ROWS = [pytest.param(row, id=f"{row.group or 'core'}/{row.version}/{row.plural}") for row in BUILT_IN if served(row)]


@pytest.mark.parametrize("row", ROWS)
def test_every_verb_of_every_kind(client: Client, row: Resource) -> None:
    obj, path = sample(row), base(row)
    item = f"{path}/{obj['metadata']['name']}"
    assert client.tree("POST", path, obj, 201)["kind"] == row.kind
    if row.kind not in _CHANGED:
        client.read(item)
        client.read(path)
        client.read(f"{path}?limit=1")
        client.read(item, f";as=PartialObjectMetadata;{META}")
        client.read(path, f";as=PartialObjectMetadataList;{META}")
    assert client.ask("GET", path, accept=f"{PROTOBUF};as=Table;{META}").code == 406
    current = client.tree("GET", item)
    selected = f"fieldSelector=metadata.name={obj['metadata']['name']}"
    event, shown = client.first_event(f"{path}?watch=1&resourceVersion=0&{selected}")
    assert (event, shown["metadata"]["uid"]) == ("ADDED", current["metadata"]["uid"])

    current["metadata"]["annotations"] = {"a": "b"}
    stale = {**current, "metadata": {**current["metadata"], "resourceVersion": "1"}}
    assert client.tree("PUT", item, stale, 409)["reason"] == "Conflict"
    if row.kind not in _CHANGED:
        assert client.tree("PUT", item, current)["metadata"]["annotations"]["a"] == "b"
    merge, json, strategic = (f"application/{form}-patch+json" for form in ("merge", "json", "strategic-merge"))
    labels = client.tree("PATCH", item, b'{"metadata":{"labels":{"one":"1"}}}', type=merge)["metadata"]["labels"]
    assert labels["one"] == "1"
    client.tree("PATCH", item, b'[{"op":"add","path":"/metadata/labels/two","value":"2"}]', type=json)
    client.tree("PATCH", item, b'{"metadata":{"labels":{"three":"3"}}}', type=strategic)
    applied = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": {"labels": {"four": "4"}}}
    apply = "application/apply-patch+yaml"
    done = client.tree("PATCH", f"{item}?fieldManager=m", orjson.dumps(applied), type=apply)
    assert done["metadata"]["labels"].keys() >= {"one", "two", "three", "four"}
    assert client.tree("PATCH", item, b'{"metadata":', 400, type=merge)["reason"] == "BadRequest"
    wrong = client.tree("PATCH", item, b'{"metadata":{"labels":{"a":"/"}}}', 422, type=merge)
    assert wrong["details"]["causes"]

    for sub in row.subresources:
        if sub.name in ("status", "scale", "resize", "approval", "ephemeralcontainers"):
            found = client.tree("GET", f"{item}/{sub.name}")
            assert client.tree("PUT", f"{item}/{sub.name}", found)["kind"] == found["kind"]
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    answer = client.ask("DELETE", item, options)
    assert (answer.code, answer.tree["kind"] in (row.kind, "Status")) == (200, True)
    assert client.tree("GET", f"{path}/none", code=404)["reason"] == "NotFound"
    assert client.tree("POST", path, b"k8s\0\xff", 400)["reason"] == "BadRequest"


def test_what_is_done_with_pods(client: Client) -> None:
    pods = f"{NAMESPACE}/pods"
    client.create("/api/v1/nodes", "Node", "v1", metadata={"name": "n1"})
    spec = {"containers": [{"name": "c", "image": "i"}]}
    for name in ("p", "q"):
        client.create(pods, "Pod", "v1", metadata={"name": name}, spec=spec)
    target = {"kind": "Node", "name": "n1"}
    bound = client.create(f"{pods}/p/binding", "Binding", "v1", metadata={"name": "p"}, target=target)
    assert (bound["kind"], bound["status"]) == ("Status", "Success")
    again = {"kind": "Binding", "apiVersion": "v1", "metadata": {"name": "p"}, "target": target}
    assert client.tree("POST", f"{NAMESPACE}/bindings", again, 409)["reason"] == "Conflict"
    evicted = client.create(f"{pods}/p/eviction", "Eviction", "policy/v1", metadata={"name": "p"})
    assert evicted["status"] == "Success"
    for sub in ("exec", "attach", "portforward", "log", "proxy/"):
        assert client.ask("GET", f"{pods}/none/{sub}").tree["code"] == 404
    assert client.tree("DELETE", pods)["kind"] == "PodList"


def test_namespaces_and_tokens(client: Client) -> None:
    made = client.create("/api/v1/namespaces", "Namespace", "v1", metadata={"name": "other"})
    assert client.tree("PUT", "/api/v1/namespaces/other/finalize", made)["metadata"]["name"] == "other"
    spec = {"audiences": ["a"], "expirationSeconds": 600}
    path = f"{NAMESPACE}/serviceaccounts/default/token"
    token = client.create(path, "TokenRequest", "authentication.k8s.io/v1", spec=spec)
    assert token["status"]["token"].count(".") == 2


@pytest.mark.parametrize(
    ("group", "kind", "spec"),
    [
        ("authorization", "SelfSubjectAccessReview", {"resourceAttributes": {"verb": "get", "resource": "pods"}}),
        ("authorization", "SubjectAccessReview", {"user": "u", "nonResourceAttributes": {"verb": "get", "path": "/x"}}),
        ("authorization", "SelfSubjectRulesReview", {"namespace": "default"}),
        ("authentication", "SelfSubjectReview", None),
        ("authentication", "TokenReview", {"token": "admintoken"}),
    ],
)
def test_reviews(client: Client, group: str, kind: str, spec: Object | None) -> None:
    version = f"{group}.k8s.io/v1"
    given = {} if spec is None else {"spec": spec}
    answer = client.create(f"/apis/{version}/{kind.lower()}s", kind, version, **given)
    assert (answer["kind"], bool(answer["status"])) == (kind, True)


def test_a_review_of_a_namespace(client: Client) -> None:
    version = "authorization.k8s.io/v1"
    path = f"/apis/{version}/namespaces/default/localsubjectaccessreviews"
    spec = {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
    answer = client.create(path, "LocalSubjectAccessReview", version, metadata={"namespace": "default"}, spec=spec)
    assert answer["status"]["allowed"] is False


def test_what_a_refusal_quotes_has_upstreams_order(client: Client) -> None:
    """A message's fields come by number, Go's struct has them in another order."""
    version = "authorization.k8s.io/v1"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    obj = {
        "kind": "LocalSubjectAccessReview",
        "apiVersion": version,
        "metadata": {"namespace": "default", "ownerReferences": [owner]},
        "spec": {"user": "u", "nonResourceAttributes": {"path": "/x", "verb": "get"}},
    }
    path = f"/apis/{version}/namespaces/default/localsubjectaccessreviews"
    refused = client.tree("POST", path, obj, 422)
    assert '"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]' in refused["message"]


def test_discovery(client: Client) -> None:
    for path in ("/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1"):
        answer = client.ask("GET", path)
        tree = orjson.loads(client.ask("GET", path, accept="application/json").data)
        assert (answer.code, answer.type) == (200, PROTOBUF)
        assert protobuf.envelope(answer.data).kind == tree["kind"]
    aggregated = f"{PROTOBUF};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert protobuf.envelope(client.ask("GET", "/apis", accept=aggregated).data).kind == "APIGroupDiscoveryList"


def test_refusals(client: Client) -> None:
    pods = f"{NAMESPACE}/pods"
    assert client.tree("GET", pods, code=401, token="unknown")["reason"] == "Unauthorized"
    assert client.tree("GET", pods, code=403, token="carolintoken")["reason"] == "Forbidden"
    assert client.tree("GET", "/api/v1/nothing", code=404)["code"] == 404
    assert client.tree("GET", f"{pods}?fieldSelector=a=b", code=400)["reason"] == "BadRequest"
    assert client.tree("GET", f"{pods}?continue=x", code=400)["code"] == 400
    assert client.tree("PATCH", pods, b"{}", 405)["reason"] == "MethodNotAllowed"
    assert client.tree("POST", pods, b"{}", 415, type="text/plain")["reason"] == "UnsupportedMediaType"
    assert client.tree("POST", pods, b"{}", 400)["message"].startswith("the object provided is unrecognized")
    assert client.tree("GET", "/version", code=406)["code"] == 406


def frames(data: bytes) -> Iterator[tuple[str, Object]]:
    """Types and objects of a watch's events."""
    while data:
        size = int.from_bytes(data[:4])
        found = {number: value for number, _, value in fields(data[4 : 4 + size])}
        obj = {number: value for number, _, value in fields(found[2])}[1]  # type: ignore[arg-type]
        data = data[4 + size :]
        yield found[1].decode(), Answer(200, PROTOBUF, obj).tree  # type: ignore[union-attr, arg-type]


def test_a_watch(client: Client) -> None:
    maps = f"{NAMESPACE}/configmaps"
    first = client.create(maps, "ConfigMap", "v1", metadata={"name": "w"}, data={"a": "b"})
    begin = first["metadata"]["resourceVersion"]
    changed = client.tree("PUT", f"{maps}/w", {**first, "data": {"a": "c"}})
    client.tree("DELETE", f"{maps}/w")
    seen = list(frames(client.ask("GET", f"{maps}?watch=1&timeoutSeconds=1&resourceVersion={begin}").data))
    assert [event for event, _ in seen] == ["MODIFIED", "DELETED"]
    assert seen[0][1] == changed
    listed = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    seen = list(frames(client.ask("GET", f"{maps}?watch=1&timeoutSeconds=1&{listed}").data))
    assert seen[-1][0] == "BOOKMARK"
    assert seen[-1][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    # a revision that is still to come
    late = client.tree(
        "GET", f"{maps}?resourceVersion=999999999&resourceVersionMatch=NotOlderThan&timeoutSeconds=1", code=504
    )
    assert late["reason"] == "Timeout"


def test_custom_resources_have_none(client: Client) -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": "alone.example.com",
        "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    name = "things.alone.example.com"
    client.create(
        DEFINITIONS, "CustomResourceDefinition", "apiextensions.k8s.io/v1", metadata={"name": name}, spec=spec
    )
    for _ in range(1000):
        conditions = client.tree("GET", f"{DEFINITIONS}/{name}")["status"].get("conditions") or ()
        if any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions):
            break
    things = "/apis/alone.example.com/v1/things"
    assert client.tree("GET", things, code=406)["reason"] == "NotAcceptable"
    assert client.ask("GET", things, accept=f"{PROTOBUF},application/json").type == "application/json"
    client.read(things, f";as=PartialObjectMetadataList;{META}")
