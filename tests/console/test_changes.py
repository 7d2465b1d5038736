"""The stream of changes of all resources: what it shows, to whom, and what a client that does not read costs."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import orjson
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer

from kapi.authorization.interface import Attributes, Authorizer, Decision, Verdict
from kapi.console import changes
from kapi.console.pages import install_console
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.registry.environment import Authors
from kapi.testing.http import MemoryChannel, MemoryRequest
from kapi.testing.memory_api import MemoryAPI, succeed

PATH = "/kapi/console/changes"
MAPS, SECRETS = "/api/v1/namespaces/n/configmaps", "/api/v1/namespaces/n/secrets"
ALLOW, DENY = Verdict(Decision.ALLOW), Verdict(Decision.DENY)


class Rights:
    """Allows to watch some resources; ``late`` makes it answer later, as a webhook does."""

    def __init__(self, *resources: str) -> None:
        self.resources = set(resources)
        self.late: list[tuple[Deferred[Verdict], Verdict]] | None = None
        self.asked: list[Attributes] = []

    def authorize(self, attributes: Attributes) -> Verdict | Awaitable[Verdict]:
        self.asked.append(attributes)
        allowed = attributes.verb != "watch" or attributes.resource in self.resources
        verdict = ALLOW if allowed else DENY
        if self.late is None:
            return verdict
        self.late.append((Deferred(), verdict))
        return self.late[-1][0]


def serve(authorizer: Authorizer | None = None) -> MemoryAPI:
    api = succeed(MemoryAPI.started(authorizer=authorizer))
    install_console(api.server, api.registry, Authors())
    return api


def put(api: MemoryAPI, name: str, path: str = MAPS, **content: Any) -> None:
    assert api.ask("POST", path, {"metadata": {"name": name}, **content}).code == 201


def label(api: MemoryAPI, name: str, value: str) -> None:
    patch = {"metadata": {"labels": {"l": value}}}
    assert api.ask("PATCH", f"{MAPS}/{name}", patch, type="application/merge-patch+json").code == 200


def follow(api: MemoryAPI, query: str = "") -> MemoryRequest:
    request = api.ask("GET", PATH + query)
    api.turn()
    return request


def producer_of(request: MemoryRequest) -> IPushProducer:
    assert isinstance(request.channel, MemoryChannel) and request.channel.producer is not None
    return request.channel.producer


def sent(request: MemoryRequest) -> list[tuple[str, Object]]:
    """The name and the data of each event so far."""
    found = []
    for block in request.written.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((fields.get("event", "message"), orjson.loads(fields["data"])))
    return found


def told(request: MemoryRequest) -> list[tuple[str, str, str]]:
    return [
        (data["type"], data["resource"], data["object"]["metadata"]["name"])
        for event, data in sent(request)
        if event == "message"
    ]


def test_changes_of_all_resources_come_in_one_stream_and_in_order() -> None:
    api = serve()
    put(api, "before")
    stream = follow(api)
    assert (stream.code, stream.header("content-type")) == (200, "text/event-stream")
    put(api, "a")
    put(api, "s", SECRETS)
    label(api, "a", "x")
    assert api.ask("DELETE", f"{MAPS}/a").code == 200
    api.turn()
    assert told(stream) == [
        ("ADDED", "configmaps", "a"), ("ADDED", "secrets", "s"), ("MODIFIED", "configmaps", "a"), ("DELETED", "configmaps", "a"),
    ]  # fmt: skip
    assert not stream.finished


def test_a_modification_has_the_object_before_it() -> None:
    api = serve()
    put(api, "a", data={"k": "v"})
    stream = follow(api)
    label(api, "a", "x")
    api.turn()
    change = sent(stream)[-1][1]
    assert "labels" not in change["before"]["metadata"] and change["before"]["data"] == {"k": "v"}
    assert change["object"]["metadata"]["labels"] == {"l": "x"}


def test_only_what_the_user_may_watch_is_shown() -> None:
    api = serve(Rights("configmaps"))
    stream = follow(api)
    put(api, "s", SECRETS, stringData={"password": "hidden"})
    put(api, "a")
    api.turn()
    assert sent(stream)[0] == ("resources", {"resources": ["configmaps"]})
    assert told(stream) == [("ADDED", "configmaps", "a")]
    assert b"hidden" not in stream.written and b"aGlkZGVu" not in stream.written


def test_a_user_who_may_watch_nothing_is_refused() -> None:
    refused = follow(serve(Rights()))
    assert refused.code == 403
    assert 'User \\"tester\\" cannot watch resource' in refused.written.decode()


def test_in_a_namespace_the_rights_in_it_count() -> None:
    rights = Rights("configmaps")
    api = serve(rights)
    stream = follow(api, "?namespace=n")
    assert {(asked.namespace, asked.verb) for asked in rights.asked} == {("n", "watch")}
    assert "nodes" not in {asked.resource for asked in rights.asked}, "these have no namespace"
    put(api, "elsewhere", "/api/v1/namespaces/other/configmaps")
    put(api, "a")
    api.turn()
    assert told(stream) == [("ADDED", "configmaps", "a")]


def test_a_right_that_was_withdrawn_ends_soon() -> None:
    rights = Rights("configmaps")
    api = serve(rights)
    stream = follow(api)
    rights.resources.clear()
    api.turn(changes.RIGHT_SECONDS + 1)
    put(api, "a")
    api.turn()
    assert told(stream) == []
    rights.resources.add("configmaps")
    api.turn(changes.RIGHT_SECONDS + 1)
    put(api, "b")
    api.turn()
    assert told(stream) == [("ADDED", "configmaps", "b")]


def test_changes_wait_in_order_for_an_authorizer_that_takes_long() -> None:
    rights = Rights("configmaps", "secrets")
    api = serve(rights)
    stream = follow(api)
    api.turn(changes.RIGHT_SECONDS + 1)
    rights.late = []
    put(api, "a")
    put(api, "s", SECRETS)
    put(api, "b")
    api.turn()
    assert told(stream) == []
    while rights.late:
        waiting, verdict = rights.late.pop(0)
        waiting.callback(verdict)
    assert [name for _, _, name in told(stream)] == ["a", "s", "b"]


def test_an_authorizer_that_fails_allows_nothing_and_ends_nothing() -> None:
    rights = Rights("configmaps", "secrets")
    api = serve(rights)
    stream = follow(api)
    api.turn(changes.RIGHT_SECONDS + 1)
    rights.late = []
    put(api, "s", SECRETS)
    put(api, "a")
    api.turn()
    rights.late.pop(0)[0].errback(RuntimeError("no answer"))
    waiting, verdict = rights.late.pop(0)
    waiting.callback(verdict)
    assert told(stream) == [("ADDED", "configmaps", "a")]
    assert not stream.finished


def test_a_client_that_reads_late_gets_everything() -> None:
    api = serve()
    stream = follow(api)
    producer_of(stream).pauseProducing()
    for number in range(5):
        put(api, f"m{number}", data={"k": "x" * 10_000})
    api.turn()
    assert told(stream) == []
    assert api.runner.pending.size > 50_000
    producer_of(stream).resumeProducing()
    assert [name for _, _, name in told(stream)] == [f"m{number}" for number in range(5)]
    assert api.runner.pending.size == 0


@pytest.mark.parametrize("limit", ["MAX_QUEUED_EVENTS", "MAX_QUEUED_BYTES"])
def test_the_stream_of_a_client_that_does_not_read_ends(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(changes, limit, 3 if limit == "MAX_QUEUED_EVENTS" else 20_000)
    api = serve()
    stream, other = follow(api), follow(api)
    producer_of(stream).pauseProducing()
    for number in range(5):
        put(api, f"m{number}", data={"k": "x" * 10_000})
    api.turn()
    assert stream.finished and not other.finished
    assert len(told(other)) == 5
    assert api.runner.pending.size == 0


def test_memory_for_others_ends_the_stream_of_a_client_that_does_not_read() -> None:
    api = serve()
    stream = follow(api)
    producer_of(stream).pauseProducing()
    api.runner.pending.limit = 20_000
    for number in range(4):
        put(api, f"m{number}", data={"k": "x" * 10_000})
    api.turn(10.0)
    api.runner.pending.look()
    assert stream.finished
    assert api.runner.pending.size == 0


def test_reloaded_caches_may_have_missed_changes() -> None:
    api = serve()
    stream = follow(api)
    cache = api.caches.cache(GroupResource("", "configmaps"))
    cache.start_reload()
    for _ in range(5):
        api.turn(1.0)
    assert ("missed", {}) in sent(stream)


def test_nothing_is_observed_once_the_last_client_has_gone() -> None:
    api = serve()
    first, second = follow(api), follow(api)
    first.disconnect()
    put(api, "a")
    api.turn()
    assert len(told(second)) == 1
    second.disconnect()
    assert not api.caches._observers


def test_the_stream_ends_as_a_watch_does() -> None:
    api = serve()
    api.environment.min_request_timeout = 100
    stream = follow(api)
    api.turn(99)
    assert not stream.finished
    api.turn(101)
    assert stream.finished
    stopped = follow(api)
    for running in list(api.runner.watches):  # as a server does that stops
        running.end()
    assert stopped.finished
