"""Agents for one server on this machine, and answers with their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from kapi.wire.agent import Agent, Body
from kapi.wire.collected import Collected
from kapi.wire.dial import Dialer
from kapi.wire.head import Header
from kapi.wire.pool import Pool
from kapi.wire.tls.faults import CertificateFaults


def agent_of(port: int, options: Any, headers: Sequence[Header] = (), faults: CertificateFaults | None = None) -> Agent:
    endpoint = Dialer(reactor).endpoint("127.0.0.1", port, options, faults=faults)  # type: ignore[arg-type]
    return Agent(Pool(reactor, endpoint.connect), headers)  # type: ignore[arg-type]


def asked(agent: Agent, method: bytes, uri: bytes, body: bytes | None, limit: int) -> Deferred[Any]:
    """Fires with the answer, which has its ``body``."""

    async def ask() -> Any:
        answer: Any = await agent.request(method, uri, None, None if body is None else Body(body))
        collected = Collected(limit)
        answer.deliverBody(collected)
        answer.body = await collected.done
        return answer

    return Deferred.fromCoroutine(ask())
