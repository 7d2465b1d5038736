"""The metrics of one process under upstream's names (upstream: apiserver ``endpoints/metrics``).

What every request touches is counted in plain integers and turned into metric families only when somebody asks for
/metrics: a prometheus-client child costs a lock for each increment.  Label values come from the catalogue or are empty, so
that no client can make series without bound.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from kapi.machinery.meters import Histogram as LabelledHistogram
from kapi.machinery.meters import cumulative
from kapi.server.metrics_shape import Shape

LATENCY = (
    0.005,
    0.025,
    0.05,
    0.1,
    0.2,
    0.4,
    0.6,
    0.8,
    1.0,
    1.25,
    1.5,
    2.0,
    3.0,
    4.0,
    5.0,
    6.0,
    8.0,
    10.0,
    15.0,
    20.0,
    30.0,
    45.0,
    60.0,
)
_SLI_FROM = 2  # the buckets of the service level begin at 50 ms
SIZES = tuple(1000.0 * 10**power for power in range(7))
_READING = frozenset({"GET", "LIST", "HEAD", "OPTIONS"})
_SERIES, _DRY_RUN = "series", "dry_run"  # in ``ctx.extra``
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class Histogram:
    """Counts by upper bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = LATENCY) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as the exposition wants them."""
        return cumulative(self.bounds, self.counts)


#: component labels: verb, group, version, resource, subresource, scope
Key = tuple[str, str, str, str, str, str]


class Series:
    """One kind of request."""

    __slots__ = ("codes", "latency", "waits", "waited", "sizes", "running", "long", "kind")

    def __init__(self, verb: str) -> None:
        self.long = verb in ("WATCH", "CONNECT")
        self.kind = "readOnly" if verb in _READING else "mutating"
        self.codes: dict[tuple[int, str], int] = {}
        self.latency = Histogram()
        #: what others' time is less in each bucket of ``latency``, and in its sum
        self.waits: list[int] = []
        self.waited = 0.0
        self.sizes = Histogram(SIZES)
        self.running = 0

    def wait(self, total: float, waited: float) -> None:
        """Of an observed latency, ``waited`` was not ours."""
        bounds = self.latency.bounds
        if not self.waits:
            self.waits = [0] * len(self.latency.counts)
        self.waits[bisect_left(bounds, total)] -= 1
        self.waits[bisect_left(bounds, max(0.0, total - waited))] += 1
        self.waited += min(waited, total)

    def own(self) -> tuple[list[tuple[str, float]], float]:
        """Buckets and sum of the latency without what others took."""
        counts = self.latency.counts
        if self.waits:
            counts = [count + more for count, more in zip(counts, self.waits, strict=True)]
        return cumulative(self.latency.bounds, counts)[_SLI_FROM:], self.latency.total - self.waited


class RequestMetrics:
    """A prometheus collector over all requests."""

    def __init__(self) -> None:
        self.series: dict[Key, Series] = {}
        self.inflight = {"readOnly": 0, "mutating": 0}

    def of(self, key: Key) -> Series:
        found = self.series.get(key)
        if found is None:
            found = self.series[key] = Series(key[0])
        return found

    def collect(self) -> Iterator[Any]:
        names = ["verb", "group", "version", "resource", "subresource", "scope", "component"]
        total = CounterMetricFamily(
            "apiserver_request_total", "Requests by verb, resource and HTTP code.", labels=[*names, "code", "dry_run"]
        )
        latency = HistogramMetricFamily(
            "apiserver_request_duration_seconds", "Response latency in seconds.", labels=[*names, "dry_run"]
        )
        sli = HistogramMetricFamily(
            "apiserver_request_sli_duration_seconds",
            "Response latency without the time of webhooks and of waiting in queues.",
            labels=names,
        )
        sizes = HistogramMetricFamily("apiserver_response_sizes", "Response size in bytes.", labels=names)
        running = GaugeMetricFamily("apiserver_longrunning_requests", "Long-running requests now.", labels=names)
        for key, series in self.series.items():
            labels = [*key, "apiserver"]
            for (code, dry_run), count in series.codes.items():
                total.add_metric([*labels, str(code), dry_run], count)
            if key[0] in ("WATCH", "CONNECT"):
                running.add_metric(labels, series.running)
            if series.codes and key[0] not in ("WATCH", "CONNECT"):
                latency.add_metric([*labels, ""], series.latency.buckets(), series.latency.total)
                sli.add_metric(labels, *series.own())
            if key[0] in ("GET", "LIST") and series.codes:
                sizes.add_metric(labels, series.sizes.buckets(), series.sizes.total)
        inflight = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests in flight by kind.", labels=["request_kind"]
        )
        for kind, count in self.inflight.items():
            inflight.add_metric([kind], count)
        yield from (total, latency, sli, sizes, running, inflight)


class FunctionCollector:
    """Families made by a function when they are asked for: gauges over state that somebody else keeps."""

    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
        self._make = make

    def collect(self) -> Iterable[Any]:
        return self._make()


class Metrics:
    """The registry of a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.shape: Shape | None = None  # what of it is shown; None: everything
        self.requests = RequestMetrics()
        self.store = LabelledHistogram(
            "etcd_request_duration_seconds",
            "Store request latency in seconds.",
            ("operation", "group", "resource"),
            LATENCY,
        )
        for collector in (
            self.requests,
            self.store,
            ProcessCollector(registry=None),
            PlatformCollector(registry=None),
            GCCollector(registry=_Sink()),  # type: ignore[arg-type]
        ):
            self.registry.register(collector)

    def add(self, make: Callable[[], Iterable[Any]]) -> None:
        """Adds families over foreign state."""
        self.registry.register(FunctionCollector(make))

    def filter(self, known: Callable[[str, str, str, str], bool]) -> Callable[[Any], None]:
        """The filter that counts every request; ``known`` says which (sub)resources may be label values."""
        requests = self.requests

        def count(ctx: Any) -> None:
            series = ctx.extra[_SERIES] = requests.of(request_key(ctx, known))
            if "dryRun" in ctx.query:
                ctx.extra[_DRY_RUN] = "All"
            if series.long:
                series.running += 1
            else:
                requests.inflight[series.kind] += 1
            ctx.finishers.append(finish)

        def finish(ctx: Any, code: int) -> None:
            series: Series = ctx.extra[_SERIES]
            dry_run = ctx.extra.get(_DRY_RUN, "")
            series.codes[(code, dry_run)] = series.codes.get((code, dry_run), 0) + 1
            if series.long:
                series.running -= 1
                return
            requests.inflight[series.kind] -= 1
            took = ctx.extra["reactor"].seconds() - ctx.received
            series.latency.observe(took)
            if ctx.waited:
                series.wait(took, ctx.waited)
            series.sizes.observe(ctx.http.sentLength)

        return count

    def exposition(self) -> tuple[bytes, bytes]:
        """Content type and body of /metrics."""
        shown: Any = self.registry if self.shape is None else self.shape.of(self.registry)
        return CONTENT_TYPE_LATEST.encode(), generate_latest(shown)


def store_requests(durations: LabelledHistogram) -> Iterator[Any]:
    """How many there were, of the durations."""
    family = CounterMetricFamily(
        "etcd_requests_total",
        "[ALPHA] Etcd request counts for each operation and object type.",
        labels=["operation", "group", "resource"],
    )
    for labels, row in durations.rows.items():
        family.add_metric(list(labels), sum(row[:-1]))
    yield family


class _Sink:
    """Takes the registration that GCCollector makes by itself."""

    def register(self, collector: Any) -> None: ...


def request_key(ctx: Any, known: Callable[[str, str, str, str], bool]) -> Key:
    """The bounded labels of a request."""
    info = ctx.info
    method = ctx.method if ctx.method in _METHODS else "other"
    if info is None or not info.is_resource or not known(info.group, info.version, info.resource, info.subresource):
        return (method, "", "", "", "", "")
    verb = {"list": "LIST", "watch": "WATCH", "deletecollection": "DELETECOLLECTION", "proxy": "CONNECT"}.get(
        info.verb, method
    )
    if info.subresource in ("exec", "attach", "portforward", "proxy", "log"):
        verb = "CONNECT"
    elif verb == "PATCH" and "apply-patch" in (ctx.header("content-type") or ""):
        verb = "APPLY"
    if info.name and verb not in ("LIST", "WATCH"):
        scope = "resource"
    else:
        scope = "namespace" if info.namespace else "cluster"
    return (verb, info.group, info.version, info.resource, info.subresource, scope)
