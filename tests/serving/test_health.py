"""Health endpoints: texts, exclusion, single checks, failures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pytest
from twisted.internet.task import Clock

from kapi.assembly.config import LifecycleSignals
from kapi.assembly.prepared import install_routes
from kapi.observability.metrics import Metrics
from kapi.options.options import Options
from kapi.request.context import RequestContext
from kapi.request.info import RequestInfo
from kapi.serving.generic import GenericServer, NotFound
from kapi.serving.health import HealthChecks
from kapi.serving.life import Hooks
from kapi.serving.site import Site
from kapi.testing.http import MemoryRequest


@pytest.fixture
def checks() -> HealthChecks:
    made = HealthChecks("/readyz")
    made.add("ping", lambda: "")
    made.add("poststarthook/a", lambda: "")
    return made


def ask(checks: HealthChecks, path: str) -> Any:
    path, _, query = path.partition("?")
    response = checks.handle(SimpleNamespace(path=path, query=parse_qs(query, keep_blank_values=True)))  # type: ignore[arg-type]
    return None if response is None else (response.status, response.body)


def test_plain_and_verbose(checks: HealthChecks) -> None:
    assert ask(checks, "/readyz") == (200, b"ok")
    assert ask(checks, "/readyz?verbose") == (200, b"[+]ping ok\n[+]poststarthook/a ok\nreadyz check passed\n")


def test_a_failure_names_the_check_but_not_the_reason(checks: HealthChecks) -> None:
    checks.add("store", lambda: "secret reason")
    code, body = ask(checks, "/readyz")
    assert code == 500 and b"[-]store failed: reason withheld\nreadyz check failed\n" in body and b"secret" not in body
    assert ask(checks, "/readyz/store") == (500, b"internal server error: secret reason\n")


def test_exclusion(checks: HealthChecks) -> None:
    checks.add("store", lambda: "down")
    assert ask(checks, "/readyz?exclude=store") == (200, b"ok")
    _, body = ask(checks, "/readyz?exclude=store&exclude=y&exclude=x&verbose")
    assert b"[+]store excluded: ok\n" in body
    assert b'warn: some health checks cannot be excluded: no matches for "x","y"\n' in body


def test_single_and_unknown_checks(checks: HealthChecks) -> None:
    assert ask(checks, "/readyz/poststarthook/a") == (200, b"ok")
    assert ask(checks, "/readyz/nosuch") is None
    assert ask(checks, "/readyz/") is None


def test_a_note_tells_and_never_fails() -> None:
    checks = HealthChecks("/readyz")
    told = [""]
    checks.note("store-entries", lambda: told[0])
    assert ask(checks, "/readyz?verbose") == (200, b"[+]store-entries ok\nreadyz check passed\n")
    told[0] = "2 objects cannot be read"
    assert ask(checks, "/readyz?verbose")[1].startswith(b"[+]store-entries ok: 2 objects cannot be read\n")
    assert ask(checks, "/readyz/store-entries") == (200, b"ok: 2 objects cannot be read")
    assert ask(checks, "/readyz") == (200, b"ok")
    assert checks.failures() == {}


def test_livez_can_be_patient_with_hooks_that_run() -> None:
    clock = Clock()
    server = GenericServer("test", NotFound())

    async def hook() -> None: ...

    server.add_post_start_hook("slow", hook)
    config: Any = SimpleNamespace(
        options=Options.from_command_line(["--livez-grace-period=5s"]),
        reactor=clock,
        given=SimpleNamespace(store=SimpleNamespace(available=True, silence=0.0, checks=dict, encryption=None)),
        signals=LifecycleSignals(),
        metrics=Metrics(),
    )
    caches = SimpleNamespace(ready=True, failing=lambda: "", store_warnings=lambda: "")
    caches.parts = (caches,)
    storage: Any = SimpleNamespace(caches=caches)
    install_routes(config, storage, server, Hooks(server.post_start_hooks()))

    def code(path: str) -> int:
        ctx = RequestContext(MemoryRequest("GET", path), "GET", path, {})
        ctx.info = RequestInfo(False, path, "get")
        answer: Any = Site(server, clock).answer(ctx)
        status: int = answer.status
        return status

    assert (code("/livez"), code("/readyz"), code("/healthz")) == (200, 500, 500)
    clock.advance(5.1)
    assert code("/livez") == 500
