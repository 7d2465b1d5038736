"""Whether one client's request holds up another's: sends the worst bodies we know while a second client measures.

For each case: seconds until the answer, its code, the second client's longest GET and the longest way of its write to its
watch, both in milliseconds, whole and, in brackets, without what the server's threads have stood in line for a core since other
processes had it (the longest of any).  What prepares a case has a row of its own.  Runs against any API server.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.bench.cases import Bench, Row
from tests.bench.load import Connection, Target
from tests.bench.stall_cases import all_cases
from tests.bench.stall_cases.case import Case, Place, Request
from tests.bench.stall_observer import Observer
from tests.bench.webhooks import WebhookServer

_PATIENCE = 300.0  # seconds that an answer may take
_AFTER = 0.2  # seconds in which what follows the answer (events, controllers) counts, too
_QUIET = 2.0  # seconds of the row without any request


def stalls(bench: Bench, wanted: str = "") -> list[Row]:
    """Runs the cases whose names contain one of the words in ``wanted`` (comma-separated; all when empty)."""
    observed = f"{bench.base}/configmaps/observed"
    code, answer = bench.ask(
        "POST", f"{bench.base}/configmaps", b'{"metadata":{"name":"observed"},"data":{"sent":"0"}}'
    )
    assert code == 201, answer
    rows: list[Row] = []
    print(f"{'case':44} {'seconds':>8} {'code':>5} {'GET ms':>17} {'watch ms':>17}", flush=True)

    def add(name: str, seconds: float, code: str, longest: tuple[float, float, float, float], note: str = "") -> None:
        gap, delay, own_gap, own_delay = longest
        times = f"{gap:8.1f} ({own_gap:6.1f}) {delay:8.1f} ({own_delay:6.1f})"
        print(f"{name:44} {seconds:8.2f} {code:>5} {times}  {note}", flush=True)
        told = f"{code} after {seconds:.2f} s, ({own_gap:.0f}), watch {delay:.0f} ms ({own_delay:.0f}) {note}"
        rows.append(Row(name, gap, "ms", note=told.strip()))

    words = [word for word in wanted.split(",") if word]
    with WebhookServer() as hooks, Observer(bench.target, observed) as observer:
        time.sleep(1.0)
        begin = time.monotonic()
        time.sleep(_QUIET)
        add("(nothing)", _QUIET, "", observer.longest(begin, time.monotonic()))
        place = Place(bench.namespace, hooks.configuration)
        for name, make in all_cases():
            if words and not any(word in name for word in words):
                continue
            _measure(bench.target, name, make(place), observer, add)
    worst = max(rows[1:], key=lambda row: row.value, default=rows[0])
    print(f"longest GET: {worst.value:.1f} ms ({worst.name})")
    bench.rows.extend(rows)
    return rows


def _measure(target: Target, name: str, case: Case, observer: Observer, add: Callable[..., None]) -> None:
    if case.fill is not None:
        case.fill(target)
    note, code, begin = "", 0, time.monotonic()
    for request in case.before:
        end = time.monotonic() + request.patience
        code, answer = _send(target, request)
        while code not in request.expected and time.monotonic() < end:
            time.sleep(_AFTER)
            code, answer = _send(target, request)
        if code not in request.expected:
            note = f"not prepared: {request.method} {request.path.partition('?')[0]} {code} {answer[:200]!r}"
    time.sleep(case.wait)
    if case.before:
        ended = time.monotonic()
        add(f"{name} (before)", ended - begin, str(code), observer.longest(begin, ended))
    data = case.request.data(target)
    begin = time.monotonic()
    code, answer = _send(target, case.request, data)
    took = time.monotonic() - begin
    time.sleep(max(_AFTER, case.settle))
    add(name, took, str(code), observer.longest(begin, time.monotonic()), note or _message(code, answer))
    for request in case.after:
        _send(target, request)


def _message(code: int, answer: bytes) -> str:
    """The beginning of what an error says."""
    if code < 300:
        return f"{len(answer) / 1000:.0f} kB"
    at = answer.find(b'"message":')
    return answer[at + 10 : at + 90].decode("utf-8", "replace") if at >= 0 else answer[:80].decode("utf-8", "replace")


def _send(target: Target, request: Request, data: bytes = b"") -> tuple[int, bytes]:
    """Code 0 when the server does not answer."""
    connection = Connection(target)
    connection.socket.settimeout(_PATIENCE)
    try:
        return connection.roundtrip(data or request.data(target))
    except OSError as error:
        return 0, str(error).encode()
    finally:
        connection.close()
