"""Answers of a real kube-apiserver, compared in memory: authentication, RBAC, admission, registry and endpoints.

Without sockets, and in the time of a clock, the recordings take the tenth of what they take in ``test_replay``, which
replays all of them on a whole server.  ``requests`` has single requests besides, one a line: what is refused with all
texts, and what is accepted with all defaults.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kapi.admission.chain import build_chain
from kapi.admission.initializer import Initializer
from kapi.registry.allocators.services import install
from kapi.resources.scheduling.priorityclasses import SYSTEM_CLASSES
from tests.authorization.secured import SecuredAPI
from tests.golden.replaying import HEADERS, Reply, differences, normalised, replay
from tests.integration.server_process import TOKENS

RECORDINGS = Path(__file__).parent / "recordings"
REQUESTS = Path(__file__).parent / "requests"
#: other servers than that of the built-in resources
OTHER_SERVERS = frozenset(("apiservice", "crd", "discovery"))
AREAS = sorted(path.name for path in RECORDINGS.iterdir() if path.name not in OTHER_SERVERS)
TOKEN = {line.split(",")[1]: line.split(",")[0] for line in TOKENS.splitlines()}
CIDR = "10.0.0.0/24"
NAMESPACES = "/api/v1/namespaces"
#: what a server has when it is ready
OBJECTS = (
    *(
        (NAMESPACES, {"metadata": {"name": name}})
        for name in ("default", "kube-system", "kube-public", "kube-node-lease")
    ),
    *(("/apis/scheduling.k8s.io/v1/priorityclasses", obj) for obj in SYSTEM_CLASSES),
    ("/apis/networking.k8s.io/v1/servicecidrs", {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [CIDR]}}),
)
#: steps, and whole recordings, that need more of a server: its fixed paths, a network, its addresses
MORE = frozenset(
    (
        "admissionpolicy/mutating-calls/fail", "admissionpolicy/mutating-calls/ignore",
        "admissionpolicy/mutating-calls/service-missing", "admissionpolicy/policy-object/discovery",
        "authn/anonymous/healthz", "authn/anonymous/livez", "authn/anonymous/readyz", "authn/anonymous/readyz-verbose",
        "authn/issuer-discovery", "cluster/componentstatuses/list", "cluster/componentstatuses/table",
        "cluster/namespace-deletion/system", "lists/cluster-kinds/componentstatuses",
        "negotiation/query-parameters/list-timeout-param-bad", "policy/pdb-status/resources",
        "rbac/forbidden-texts/api-group", "rbac/forbidden-texts/bare-apis",
    )
)  # fmt: skip


class InMemory:
    """Asks a server in memory."""

    def __init__(self) -> None:
        self.api = api = SecuredAPI(TOKENS)
        install(api.registry, [CIDR], (30_000, 32_767))
        client, authorizer, clock = api.registry.client.named("kube-apiserver"), api.policy.authorizer, api.clock
        plugins = Initializer(client, authorizer=authorizer, clock=clock.seconds, reactor=clock)  # type: ignore[arg-type]
        api.registry.admit_by(build_chain(plugins))
        api.turn()
        for path, obj in OBJECTS:
            assert api.ask_as(TOKEN["admin"], "POST", path, obj, User_Agent="kube-apiserver").code in (201, 409)

    def seconds(self) -> float:
        return self.api.clock.seconds()

    def pause(self, seconds: float) -> None:
        self.api.turn(seconds)

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None, user: str, seconds: float | None
    ) -> Reply:
        given = {**HEADERS, **headers, **({} if user == "anonymous" else {"Authorization": f"Bearer {TOKEN[user]}"})}
        request = self.api.ask(method, path, body, headers=given)
        for _ in range(10 * int(seconds or 4)):
            self.api.turn(0.1)
            if request.finished:
                break
        if seconds is None and not request.finished:
            return Reply(0, [], b"")
        raw = request.responseHeaders.getAllRawHeaders()
        return Reply(
            request.code, [(name.decode(), value.decode()) for name, values in raw for value in values], request.written
        )


@pytest.mark.parametrize("area", AREAS)
def test_answers_are_those_that_were_recorded(area: str) -> None:
    asker = InMemory()
    different = {}
    for recording in sorted((RECORDINGS / area).glob("*.json")):
        for step, wanted, found in replay(asker, recording):
            if wanted != found:
                different[f"{area}/{recording.stem}/{step['name']}"] = list(differences(wanted, found))[:8]
    assert {name: lines for name, lines in different.items() if not _needs_more(name)} == {}


def _needs_more(step: str) -> bool:
    return step in MORE or step.rpartition("/")[0] in MORE


@pytest.fixture(scope="module")
def with_namespace() -> InMemory:
    asker = InMemory()
    for path, name in ((NAMESPACES, "n"), (f"{NAMESPACES}/n/serviceaccounts", "default")):
        assert answer(asker, "POST", path, {"metadata": {"name": name}})["status"] == 201
    return asker


def answer(asker: InMemory, method: str, path: str, body: Any, type: str = "application/json") -> dict[str, Any]:
    """The status, and the answer without what the request or the moment decides."""
    reply = asker.ask(method, path, {"Content-Type": type}, json.dumps(body).encode(), "admin", None)
    tree = normalised(json.loads(reply.data))
    if reply.status < 400:
        known = ("apiVersion", "kind", "metadata")
        return {"status": reply.status, "answer": {key: value for key, value in tree.items() if key not in known}}
    details = tree.get("details") or {}
    found = {"reason": tree.get("reason", ""), "kind": details.get("kind", "")}
    if details.get("causes"):
        parts = ("field", "reason", "message")
        found["causes"] = [[cause.get(part, "") for part in parts] for cause in details["causes"]]
    else:
        found["message"] = tree.get("message", "")
    return {"status": reply.status, "answer": found}


DELETION = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
KINDS = sorted(path.stem for path in REQUESTS.glob("*.jsonl"))


@pytest.mark.parametrize("kind", KINDS)
def test_requests_are_answered_as_they_were(kind: str, with_namespace: InMemory) -> None:
    """A creation that is only tried, or a change of an object that is made for it."""
    for line in (REQUESTS / f"{kind}.jsonl").read_text().splitlines():
        step = json.loads(line)
        wanted = {"status": step["status"], "answer": step["answer"]}
        if "made" not in step:
            assert answer(with_namespace, "POST", step["path"], step["body"]) == wanted, line
            continue
        name = step["made"]["metadata"]["name"]
        place = f"{step['path'].partition(f'/{kind}/')[0]}/{kind}"
        assert answer(with_namespace, "POST", place, step["made"])["status"] == 201, line
        type = step.get("type", "application/json")
        assert answer(with_namespace, step["method"], step["path"], step["body"], type) == wanted, line
        assert answer(with_namespace, "DELETE", f"{place}/{name}", DELETION)["status"] == 200, line
