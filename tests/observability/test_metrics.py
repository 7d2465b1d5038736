"""The figures of requests: one text for all histograms, and a service level without the time of others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kapi.machinery.meters import Counter, Gauge
from kapi.observability.metrics import Exposition, Metrics, Shape
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.request.context import RequestContext
from kapi.request.info import RequestInfo
from kapi.request.response import Response
from tests.filters.requests import request


class Server:
    def __init__(self) -> None:
        self.clock, self.metrics = Clock(), Metrics()
        self.count = self.metrics.requests.filter(lambda *_: True)

    def request(
        self,
        took: float,
        waited: float = 0.0,
        resource: str = "pods",
        method: str = "GET",
        info: dict[str, str] | None = None,
    ) -> None:
        ctx: Any = RequestContext(SimpleNamespace(sentLength=10, getHeader=lambda _: None), method, "/api/v1/pods", {})
        ctx.reactor = self.clock
        ctx.received = self.clock.seconds()
        ctx.info = RequestInfo(is_resource=True, path="", version="v1", resource=resource, **(info or {"verb": "list"}))
        self.count(ctx)
        self.clock.advance(took)
        if waited:
            ctx.add_wait("apf-queue-wait", waited)
        for finish in ctx.finishers:
            finish(ctx, 201)

    def lines(self, name: str) -> dict[str, float]:
        """Value by bound; "sum" and "count" beside them."""
        found = {}
        for line in b"".join(self.metrics.exposition()).decode().splitlines():
            if line.startswith(f"{name}_bucket"):
                found[line.partition('le="')[2].partition('"')[0]] = float(line.rpartition(" ")[2])
            elif line.startswith((f"{name}_sum", f"{name}_count")):
                found[line.partition("{")[0].rpartition("_")[2]] = float(line.rpartition(" ")[2])
        return found


def test_a_service_level_does_not_count_what_others_took() -> None:
    server = Server()
    server.request(0.15)
    server.request(2.9, waited=2.5)
    total = server.lines("apiserver_request_duration_seconds")
    level = server.lines("apiserver_request_sli_duration_seconds")
    assert (total["0.2"], total["2"], total["3"], total["count"], total["sum"]) == (1, 1, 2, 2, 3.05)
    assert (level["0.2"], level["0.4"], level["count"], round(level["sum"], 6)) == (1, 2, 2, 0.55)
    assert next(iter(level)) == "0.05"


def test_the_scope_of_a_create_is_the_resource() -> None:
    server = Server()
    server.request(0.1)
    for verb, method, namespace, name in (
        ("create", "POST", "", ""), ("create", "POST", "n", ""), ("deletecollection", "DELETE", "n", ""),
        ("update", "PUT", "n", "x"),
    ):  # fmt: skip
        server.request(0.1, method=method, info={"verb": verb, "namespace": namespace, "name": name})
    scopes = {(key[0], key[5]) for key in server.metrics.requests.series}
    assert scopes == {
        ("LIST", "cluster"), ("POST", "resource"), ("DELETECOLLECTION", "namespace"), ("PUT", "resource"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "accept", "labels"),
    [
        ("/readyz", None, ("", "", "", "/readyz", "")),
        ("/readyz/ping", None, ("", "", "", "", "apiserver")),
        ("/statusz", None, ("", "", "statusz", "", "apiserver")),
        ("/statusz", "json;v=v1beta1;g=config.k8s.io;as=Statusz", ("config.k8s.io", "v1beta1", "statusz", "", "apiserver")),
        ("/flagz", "yaml;v=v1alpha1;g=config.k8s.io;as=Flagz", ("config.k8s.io", "v1alpha1", "flagz", "", "apiserver")),
        ("/flagz", "json;v=v1beta1;g=config.k8s.io;as=Statusz", ("", "", "flagz", "", "apiserver")),
        ("/version", None, ("", "", "", "", "apiserver")),
    ],
)  # fmt: skip
def test_pages_have_labels_of_their_own(path: str, accept: str | None, labels: tuple[str, ...]) -> None:
    server = Server()
    for _ in range(2):
        ctx: Any = RequestContext(
            SimpleNamespace(sentLength=1, getHeader=lambda _: accept and f"application/{accept}"), "GET", path, {}
        )
        ctx.reactor, ctx.received, ctx.info = server.clock, 0.0, RequestInfo(False, path, "get")
        server.count(ctx)
        for finish in ctx.finishers:
            finish(ctx, 200)
    ((key, series),) = server.metrics.requests.series.items()
    assert key[0] == "GET" and (*key[1:5], key[6]) == labels and series.codes == {(200, ""): 2}


def test_bounds_are_written_as_go_does() -> None:
    server = Server()
    server.request(0.001)
    bounds = list(server.lines("apiserver_response_sizes"))
    assert bounds[:3] == ["1000", "10000", "100000"] and "1e+06" in bounds and "1e+09" in bounds


def test_metrics_can_be_switched_off_and_labels_be_held_to_some_values() -> None:
    server = Server()
    server.request(0.1)
    flags = [
        "--disabled-metrics=apiserver_response_sizes",
        "--allow-metric-labels=apiserver_request_total,code=200,404",
    ]
    options = Options.from_command_line(flags).metrics
    server.metrics.shape = Shape(options.disabled_metrics, options.labels)
    text = b"".join(server.metrics.exposition()).decode()
    assert "apiserver_response_sizes" not in text
    (line,) = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
    assert 'code="unexpected"' in line and line.endswith(" 1")


def test_labels_of_several_metrics_are_in_one_flag_each_in_quotes() -> None:
    text = '"apiserver_request_total,code=201,500","apiserver_request_duration_seconds,verb=POST,LIST"'
    options = Options.from_command_line([f"--allow-metric-labels={text}"]).metrics
    assert options.labels == {
        "apiserver_request_total": {"code": frozenset({"201", "500"})},
        "apiserver_request_duration_seconds": {"verb": frozenset({"POST", "LIST"})},
    }


@pytest.mark.parametrize("text", ["apiserver_request_total", "a,b=1,c,d=2", '"a,b=1","a-b,c=2"', "a,b,c=1"])
def test_labels_without_a_metric_or_quotes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="must be formatted as"):
        Options.from_command_line([f"--allow-metric-labels={text}"])


def test_a_large_family_is_made_in_pieces() -> None:
    metrics = Metrics()
    many = Counter("many_total", "[ALPHA] Of many.", ("number",))
    for number in range(2_500):
        many.add(str(number))
    metrics.registry.register(many)
    pieces = list(metrics.exposition())
    assert max(piece.count(b"\n") for piece in pieces) <= 1_002
    text = b"".join(piece for piece in pieces if b"many_total{" in piece).decode()
    numbers = sorted(map(str, range(2_500)))
    rows = "".join(f'many_total{{number="{number}"}} 1\n' for number in numbers)
    assert text == f"# HELP many_total [ALPHA] Of many.\n# TYPE many_total counter\n{rows}"


def test_nothing_stays_of_resources_that_are_not_served_any_more() -> None:
    """A client may define resources, ask for them and delete them without end, each under another name."""
    server, served = Server(), {"pods"}
    server.count = server.metrics.requests.filter(lambda group, version, resource, sub: resource in served)
    server.request(0.1)
    for number in range(10_000):
        name = f"things{number}"
        served.add(name)
        server.metrics.store.observe(0.1, "get", "", name)
        server.request(0.1, resource=name)
        served.remove(name)
    server.request(0.1)
    assert len(server.metrics.requests.series) < 2_100
    assert len(server.metrics.store.rows) < 2_100
    lines = [line for line in b"".join(server.metrics.exposition()).decode().splitlines() if 'resource="pods"' in line]
    assert [line for line in lines if line.startswith("apiserver_request_total") and line.endswith(" 2")]


def test_what_is_served_keeps_its_figures_however_much_it_is() -> None:
    server = Server()
    for number in range(5_000):
        server.request(0.1, resource=f"things{number}")
    assert len(server.metrics.requests.series) == 5_000


def test_one_text_is_made_at_a_time_and_requests_that_wait_share_the_next() -> None:
    made: list[bytes] = []

    class Slow:
        def exposition(self) -> list[bytes]:
            made.append(b"%d" % (len(made) + 1))
            if len(made) == 1:
                later[:] = [scrape() for _ in range(3)]  # while the first text is made
            return [made[-1]]

    exposition = Exposition(cast(Metrics, Slow()))

    def scrape() -> list[bytes | None]:
        answered: list[bytes | None] = []
        run(exposition.metrics(cast(RequestContext, None)), answered)
        return answered

    later: list[list[bytes | None]] = []
    assert scrape() == [b"1"]
    assert later == [[b"2"]] * 3 and scrape() == [b"3"]


def run(coroutine: Any, answered: list[bytes | None]) -> None:
    awaited = None
    try:
        while True:
            awaited = coroutine.send(None)
            if isinstance(awaited, Deferred) and not awaited.called:
                awaited.addCallback(lambda result: (run(coroutine, answered), result)[1])
                return
    except StopIteration as stop:
        answered.append(stop.value.body)


def test_a_reset_counts_from_now_on() -> None:
    server = Server()
    made = Counter("made_total", "[ALPHA] Made.", ("kind",))
    plain = Counter("plain_total", "[ALPHA] Plain.")
    level = Gauge("level", "[ALPHA] Level.", ("kind",))
    for meter in (made, plain, level):
        server.metrics.registry.register(meter)
    made.add("a", by=3)
    made.add("b")
    plain.add()
    level.set(7, "a")
    server.request(0.15)
    server.request(0.3, resource="secrets")
    server.metrics.reset()

    def text() -> str:
        return b"".join(server.metrics.exposition()).decode()

    first = text()
    assert "made_total" not in first and "apiserver_request_total" not in first
    assert "apiserver_request_duration_seconds" not in first
    assert {"plain_total 1", 'level{kind="a"} 7'} <= set(first.splitlines())
    assert "process_cpu_seconds_total" in first
    made.add("a", by=2)
    made.add("c", by=5)
    server.request(0.3)
    second = text().splitlines()
    assert [line for line in second if line.startswith("made_total{")] == [
        'made_total{kind="a"} 2',
        'made_total{kind="c"} 5',
    ]
    assert not [line for line in second if 'resource="secrets"' in line]
    found = server.lines("apiserver_request_duration_seconds")
    assert (found["0.2"], found["0.4"], found["+Inf"], found["count"], round(found["sum"], 6)) == (0, 1, 1, 1, 0.3)
    made.rows.clear()  # as those of a resource that is served no more
    made.add("a")
    assert 'made_total{kind="a"} 1' in text().splitlines()


@pytest.mark.parametrize("resets", [True, False])
def test_the_metrics_are_reset_by_a_delete(resets: bool) -> None:
    metrics = Metrics()
    made = Counter("made_total", "[ALPHA] Made.", ("kind",))
    made.add("a")
    metrics.registry.register(made)
    exposition = Exposition(metrics, resets=resets, clock=lambda: 1_700_000_000.5)

    def ask(method: str) -> Response:
        ctx = request("/metrics", method=method)
        answers: list[Response] = []
        Deferred.fromCoroutine(exposition.metrics(ctx)).addCallback(answers.append)
        return answers[0]

    assert (b"process-start-time-unix", b"1700000000") in ask("GET").headers
    answer = ask("DELETE")
    assert (answer.body == b"metrics reset\n") is resets
    assert (b'made_total{kind="a"} 1' in bytes(ask("GET").body)) is not resets  # type: ignore[arg-type]
