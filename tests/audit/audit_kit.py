"""An auditor whose back end is a list."""

from __future__ import annotations

from typing import Any

import orjson
from twisted.internet.task import Clock

from kapi.audit.build import Auditor
from kapi.audit.metrics import Meter
from kapi.audit.policy import read_policy
from kapi.audit.record import Record
from kapi.audit.sinks import UnionSink
from kapi.filters.audit import audit, audit_init
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import UserInfo
from tests.filters.requests import request

ALICE = UserInfo("alice", uid="7", groups=("dev", "system:authenticated"), extra={"b": ("2",), "a": ("1", "x")})


class Memory:
    """A sink that keeps events as they would be sent."""

    def __init__(self, outcome: Any = True, lenient: bool = False) -> None:
        self.events: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self.calls: list[int] = []  # how many events came at once
        self.outcome = outcome
        self.lenient = lenient

    def process(self, *records: Record) -> Any:
        self.calls.append(len(records))
        self.raw += [record.data for record in records]
        self.events += [orjson.loads(record.data) for record in records]
        return self.outcome

    def stop(self) -> None:
        pass


class Bench:
    def __init__(self, *rules: dict[str, Any], outcome: Any = True, lenient: bool = False, **policy: Any) -> None:
        tree = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "rules": list(rules) or [{"level": "Metadata"}],
            **policy,
        }
        self.sink = Memory(outcome, lenient)
        self.clock = Clock()
        self.meter = Meter()
        self.auditor = Auditor(
            read_policy(tree)[0], UnionSink([self.sink], self.meter), self.meter, lambda: 1700000000.25
        )

    def begin(
        self,
        uri: str = "/api/v1/namespaces/x/pods/p?pretty=true",
        method: str = "GET",
        user: UserInfo | None = ALICE,
        **more: Any,
    ) -> RequestContext:
        ctx = request(uri, method, **more)
        ctx.http.uri = uri.encode()
        ctx.http.getClientAddress = lambda: type("Address", (), {"host": "10.1.2.3"})()
        ctx.audit_id = "the-id"
        ctx.reactor, ctx.received = self.clock, self.clock.seconds()
        audit_init(self.auditor)(ctx)
        if user is not None:
            ctx.user = user
            assert audit(self.auditor)(ctx) is None
        return ctx

    def finish(self, ctx: RequestContext, response: Response | None) -> None:
        if response is not None and ctx.audit is not None:
            ctx.audit.answered(response)
        for finisher in ctx.finishers:
            finisher(ctx, response.status if response is not None else 499)

    @property
    def stages(self) -> list[str]:
        return [event["stage"] for event in self.sink.events]
