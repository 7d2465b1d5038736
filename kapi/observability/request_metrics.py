"""Metrics of requests under upstream's names: count, latency, size (upstream: apiserver ``endpoints/metrics``).

Values that change with each request are plain integers, turned into metric families only at a scrape.  Label values come from the
catalogue or are empty, and series of deleted definitions are dropped, so that clients cannot make series without bound.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Set

from prometheus_client.core import Metric

from kapi.flowcontrol.concurrency import KINDS, Concurrency, Count
from kapi.machinery.meters import Histogram as LabelledHistogram
from kapi.machinery.meters import cumulative, metric_family
from kapi.observability.zpages import page_version
from kapi.request import bodies
from kapi.request.bodies import BodySizes
from kapi.request.context import Finisher, RequestContext
from kapi.request.pending import Pending

LATENCY = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
)  # fmt: skip
_SLI_FROM = 2  # index of the first bucket of the SLI metric: 50 ms
SIZES = tuple(1000.0 * 10**power for power in range(7))
_FIELD_VALIDATION = "field_validation_request_duration_seconds"
_READING = frozenset({"GET", "LIST", "HEAD", "OPTIONS"})
_VALIDATIONS = frozenset({"Strict", "Warn", "Ignore"})
_BODY_VERBS = {
    "POST": "create", "PUT": "update", "PATCH": "patch", "APPLY": "patch", "DELETE": "delete",
    "DELETECOLLECTION": "deletecollection",
}  # fmt: skip
_VALIDATED = frozenset({"POST", "PUT", "PATCH", "APPLY"})
#: with more series, the series of resources that are no longer served are dropped; then again at twice the remaining number
_MIN_SERIES = 2_000
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class Histogram:
    """A histogram of plain integers."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = LATENCY) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts, as the exposition format needs them."""
        return cumulative(self.bounds, self.counts)


#: cache key of a request's labels: method, verb, group, version, resource, subresource, and whether name and namespace are empty
_Known = tuple[str, str, str, str, str, str, bool, bool]
#: labels: verb, group, version, resource, subresource, scope, component
Key = tuple[str, str, str, str, str, str, str]
_COMPONENT = "apiserver"
#: non-resource paths with their own labels -> (resource, subresource, component)
_PAGES = {
    "/healthz": ("", "/healthz", ""),
    "/livez": ("", "/livez", ""),
    "/readyz": ("", "/readyz", ""),
    "/statusz": ("statusz", "", _COMPONENT),
    "/flagz": ("flagz", "", _COMPONENT),
}
#: resources of series that are never dropped: no resource, and the pages
_ALWAYS_SERVED = frozenset({"", *(resource for resource, _, _ in _PAGES.values())})


class Series:
    """The metrics of one kind of request."""

    __slots__ = (
        "bodies", "codes", "executing", "finisher", "kind", "latency", "long", "running", "sizes", "validated", "waited",
        "waits",
    )  # fmt: skip

    def __init__(self, verb: str, concurrency: Concurrency, validated: LabelledHistogram) -> None:
        self.long = verb in ("WATCH", "CONNECT")
        self.kind = "readOnly" if verb in _READING else "mutating"
        self.executing: Count = concurrency.executing[self.kind]
        self.bodies = BodySizes()
        self.codes: dict[tuple[int, str], int] = {}
        self.latency = Histogram()
        #: the difference between ``latency`` with and without waits (queues, webhooks), by bucket and in the sum
        self.waits: list[int] = []
        self.waited = 0.0
        self.sizes = Histogram(SIZES)
        self.running = 0
        self.validated = validated  # shared by all series
        self.finisher: Finisher = self._finish  # the bound method, made once

    def _finish(self, ctx: RequestContext, code: int) -> None:
        outcome = code, ctx.dry_run
        self.codes[outcome] = self.codes.get(outcome, 0) + 1
        if self.long:
            self.running -= 1
            return
        now = ctx.reactor.seconds()
        self.executing.change(-1, now)
        took = now - ctx.received
        self.latency.observe(took)
        if ctx.waited:
            self.wait(took, ctx.waited)
        self.sizes.observe(ctx.http.sentLength)
        given = ctx.field_validation
        if given is not None and self.kind == "mutating":
            self.validated.observe(took, given if given in _VALIDATIONS else "invalid" if given else "")

    def wait(self, total: float, waited: float) -> None:
        """Records that ``waited`` of the observed latency ``total`` was spent in queues and for webhooks (seconds)."""
        bounds = self.latency.bounds
        if not self.waits:
            self.waits = [0] * len(self.latency.counts)
        self.waits[bisect_left(bounds, total)] -= 1
        self.waits[bisect_left(bounds, max(0.0, total - waited))] += 1
        self.waited += min(waited, total)

    def own(self) -> tuple[list[tuple[str, float]], float]:
        """(buckets, sum) of the latency without waits."""
        counts = self.latency.counts
        if self.waits:
            counts = [count + more for count, more in zip(counts, self.waits, strict=True)]
        return cumulative(self.latency.bounds, counts)[_SLI_FROM:], self.latency.total - self.waited


class RequestMetrics:
    """A prometheus collector over all requests."""

    def __init__(self) -> None:
        self.series: dict[Key, Series] = {}
        self.concurrency = Concurrency()
        #: cache of the series by properties of a request that are known before its labels
        self._known: dict[_Known, Series] = {}
        self._sweep_beyond = _MIN_SERIES
        #: called with (group, resource) of resources whose series were dropped
        self.on_forgotten: Callable[[Set[tuple[str, str]]], None] = lambda resources: None
        #: durations of writes with a ``fieldValidation``
        self._validated = LabelledHistogram(_FIELD_VALIDATION, "", ("field_validation",), LATENCY[_SLI_FROM:])
        #: the release that removes a deprecated resource, "" when unknown; None when it is not deprecated
        self.deprecated: Callable[[str, str, str], str | None] = lambda group, version, resource: None

    def of(self, key: Key) -> Series:
        found = self.series.get(key)
        if found is None:
            found = self.series[key] = Series(key[0], self.concurrency, self._validated)
        return found

    def filter(self, known: Callable[[str, str, str, str], bool]) -> Callable[[RequestContext], None]:
        """The filter that counts every request; ``known`` says whether a (sub)resource exists and may be a label value."""
        memory, of = self._known, self.of

        def count(ctx: RequestContext) -> None:
            info, method = ctx.info, ctx.method
            seen: _Known | None = None
            series: Series | None = None
            if info is not None and info.is_resource and method != "PATCH":
                seen = (
                    method, info.verb, info.group, info.version, info.resource, info.subresource, not info.name,
                    not info.namespace,
                )  # fmt: skip
                series = memory.get(seen)
            if series is None:
                key = request_key(ctx, known)
                series = of(key)
                if len(self.series) > self._sweep_beyond:
                    self._sweep(known)
                if seen is not None and key[3] and method in _METHODS:  # other values are the client's choice
                    memory[seen] = series
            ctx.bodies = series.bodies
            query = ctx.query
            if query:
                if "dryRun" in query:
                    ctx.dry_run = "All"
                if "fieldValidation" in query:
                    ctx.field_validation = query["fieldValidation"][0]
            if series.long:
                series.running += 1
            else:
                series.executing.change(1, ctx.received)
            ctx.finishers.append(series.finisher)

        return count

    def _sweep(self, known: Callable[[str, str, str, str], bool]) -> None:
        """Drops the series of resources that are no longer served, unless requests are running."""
        kept = {
            key: series
            for key, series in self.series.items()
            if key[3] in _ALWAYS_SERVED or series.running or known(key[1], key[2], key[3], key[4])
        }
        forgotten = {(key[1], key[3]) for key in self.series.keys() - kept.keys()}
        if forgotten:
            alive = set(map(id, kept.values()))
            for seen in [seen for seen, series in self._known.items() if id(series) not in alive]:
                del self._known[seen]
            for key in self.series.keys() - kept.keys():
                del self.series[key]
            self.on_forgotten(forgotten - {(key[1], key[3]) for key in kept})
        self._sweep_beyond = max(_MIN_SERIES, 2 * len(kept))

    def collect(self) -> Iterator[Metric]:
        total = metric_family("apiserver_request_total")
        latency = metric_family("apiserver_request_duration_seconds")
        sli = metric_family("apiserver_request_sli_duration_seconds")
        sizes = metric_family("apiserver_response_sizes")
        running = metric_family("apiserver_longrunning_requests")
        for key, series in self.series.items():
            labels = list(key)
            for (code, dry_run), count in series.codes.items():
                total.add_metric([*labels, str(code), dry_run], count)
            if series.long:
                running.add_metric(labels, series.running)
            elif series.codes:
                latency.add_metric([*labels, ""], series.latency.buckets(), series.latency.total)
                sli.add_metric(labels, *series.own())
            if key[0] in ("GET", "LIST") and series.codes:
                sizes.add_metric(labels, series.sizes.buckets(), series.sizes.total)
        inflight = metric_family("apiserver_current_inflight_requests")
        queued = metric_family("apiserver_current_inqueue_requests")
        for kind in KINDS:
            inflight.add_metric([kind], self.concurrency.executing[kind].now)
            queued.add_metric([kind], self.concurrency.waiting[kind].now)
        yield from (total, latency, sli, sizes, running, inflight, queued)
        yield from self.concurrency.collect()
        yield from self._bodies()
        yield from self._field_validation()
        yield from self._deprecations()

    def _bodies(self) -> Iterator[Metric]:
        family = metric_family("apiserver_request_body_size_bytes")
        rows: dict[tuple[str, str, str], list[int]] = {}
        for (verb, group, _, resource, _, _, _), series in self.series.items():
            row = series.bodies.row
            if resource and verb in _BODY_VERBS and any(row[:-1]):
                key = (group, resource, _BODY_VERBS[verb])
                rows[key] = [one + more for one, more in zip(rows[key], row, strict=True)] if key in rows else row
        for labels, row in sorted(rows.items()):
            family.add_metric(list(labels), cumulative(bodies.BOUNDS, row), row[-1])
        yield family

    def _field_validation(self) -> Iterator[Metric]:
        """The histogram of writes by field validation; it counts all other writes as without one."""
        family = metric_family("field_validation_request_duration_seconds")
        bounds = LATENCY[_SLI_FROM:]
        rest = [0.0] * (len(bounds) + 2)
        for key, series in self.series.items():
            if key[0] in _VALIDATED:
                counts = series.latency.counts
                row = [sum(counts[: _SLI_FROM + 1]), *counts[_SLI_FROM + 1 :], series.latency.total]
                rest = [one + more for one, more in zip(rest, row, strict=True)]
        for row in self._validated.rows.values():
            rest = [one - less for one, less in zip(rest, row, strict=True)]
        for labels, row in sorted({**self._validated.rows, ("",): rest}.items()):
            family.add_metric(list(labels), cumulative(bounds, row), row[-1])
        yield family

    def _deprecations(self) -> Iterator[Metric]:
        family = metric_family("apiserver_requested_deprecated_apis")
        asked = {key[1:5] for key, series in self.series.items() if series.codes and key[3]}
        for group, version, resource, subresource in sorted(asked):
            removed = self.deprecated(group, version, resource)
            if removed is not None:
                family.add_metric([group, version, resource, subresource, removed], 1)
        yield family


def request_key(ctx: RequestContext, known: Callable[[str, str, str, str], bool]) -> Key:
    """The bounded labels of a request."""
    info = ctx.info
    method = ctx.method if ctx.method in _METHODS else "other"
    if info is not None and not info.is_resource and info.path in _PAGES:
        resource, subresource, component = _PAGES[info.path]
        group, version = page_version(ctx, resource) if resource else ("", "")
        return (method, group, version, resource, subresource, "", component)
    if info is None or not info.is_resource or not known(info.group, info.version, info.resource, info.subresource):
        return (method, "", "", "", "", "", _COMPONENT)
    verb = {"list": "LIST", "watch": "WATCH", "deletecollection": "DELETECOLLECTION", "proxy": "CONNECT"}.get(
        info.verb, method
    )
    if info.subresource in ("exec", "attach", "portforward", "proxy", "log"):
        verb = "CONNECT"
    elif verb == "PATCH" and "apply-patch+yaml" in (ctx.header("content-type") or ""):
        verb = "APPLY"
    if info.verb == "create" or info.name and verb not in ("LIST", "WATCH"):
        scope = "resource"
    else:
        scope = "namespace" if info.namespace else "cluster"
    return (verb, info.group, info.version, info.resource, info.subresource, scope, _COMPONENT)


def pending_families(pending: Pending) -> Iterator[Metric]:
    """The bytes that wait for slow clients, and the refusals because of them."""
    yield metric_family("kapi_pending_bytes", value=pending.size)
    refusals = metric_family("kapi_pending_refusals_total")
    refusals.add_metric(["refused"], pending.refused)
    refusals.add_metric(["cut_off"], pending.cut_off)
    yield refusals
