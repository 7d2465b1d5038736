"""The metrics of one process under upstream's names, the choice of shown metrics and label values, and metrics about metrics.

Values that change with each request are plain numbers, turned into metric families only at a scrape: a prometheus-client child
costs a lock for each increment.  The text is byte for byte the same as from Go's client library.
Upstream: component-base ``metrics/legacyregistry``, ``metrics/opts.go``, ``metrics/prometheus/meta``;
``github.com/prometheus/common/expfmt``, ``text_create.go``; ``client_golang``, ``prometheus/internal/metric.go``.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from itertools import islice
from operator import itemgetter

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.samples import Sample
from twisted.internet.defer import DeferredLock

from kapi.machinery.checkpoint import in_slices
from kapi.machinery.each import costly, elements
from kapi.machinery.feature_gates import stages
from kapi.machinery.lifecycles import RELEASE, EffectiveVersion
from kapi.machinery.meters import Histogram as LabelledHistogram
from kapi.machinery.meters import metric_family, number_text
from kapi.machinery.version import VERSION
from kapi.observability.request_metrics import LATENCY, RequestMetrics
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.routing import Routes

#: the name of a sample, its labels
Series = tuple[str, tuple[tuple[str, str], ...]]
UNEXPECTED = "unexpected"  # replaces label values that are not shown
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
#: types of the client library that are not in Prometheus' text format
_TYPES = {"info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram", "unknown": "untyped"}
#: suffixes of family names, which the client library removes
_SUFFIXES = {"counter": "_total", "info": "_info"}
_VALUE = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP = str.maketrans({"\\": "\\\\", "\n": "\\n"})
_BOUND = "le"  # the label of a bucket


def name_of(family: Metric) -> str:
    """The shown name of a family."""
    return str(family.name + _SUFFIXES.get(family.type, ""))


def lines(family: Metric) -> Iterator[str]:
    """The header, then a line for each sample; nothing for a family without samples.

    Labels are sorted by name, metrics by the values of their labels; a histogram's sum is before its count.
    """
    if not family.samples:
        return
    name = name_of(family)
    yield f"# HELP {name} {family.documentation.translate(_HELP)}\n"
    yield f"# TYPE {name} {_TYPES.get(family.type, family.type)}\n"
    metrics: list[tuple[int, tuple[str, ...], tuple[str, ...], list[Sample]]] = []
    for sample in elements(family.samples):
        labels = sample.labels
        names = _in_order(tuple(labels))
        values = tuple(map(labels.__getitem__, names))
        if not metrics or values != metrics[-1][1] or names != metrics[-1][2]:
            metrics.append((len(values), values, names, []))
        metrics[-1][-1].append(sample)
    metrics.sort(key=itemgetter(0, 1))
    for _, values, names, samples in metrics:
        pairs = ",".join([f'{name}="{value.translate(_VALUE)}"' for name, value in zip(names, values, strict=True)])
        if len(samples) > 1:
            samples.sort(key=lambda sample: sample.name.endswith("_count"))
        for sample in samples:
            bound = sample.labels.get(_BOUND)
            if bound is None:
                shown = pairs
            else:
                shown = f'{pairs},{_BOUND}="{bound}"' if pairs else f'{_BOUND}="{bound}"'
            yield f"{sample.name}{f'{{{shown}}}' if shown else ''} {number_text(sample.value)}\n"


@functools.lru_cache(maxsize=1024)
def _in_order(labels: tuple[str, ...]) -> tuple[str, ...]:
    """The names of labels, without the bound of a bucket."""
    return tuple(sorted(label for label in labels if label != _BOUND))


class Shape:
    """``disabled`` are names of metrics; ``labels`` has the shown values of labels by metric."""

    def __init__(self, disabled: Collection[str], labels: Mapping[str, Mapping[str, Collection[str]]]) -> None:
        self._disabled = frozenset(disabled)
        self._labels = labels

        self._hidden: set[str] = set()
        self._unexpected: set[tuple[str, str, str]] = set()

    @property
    def hidden(self) -> int:
        """The number of disabled metrics."""
        return len(self._hidden)

    @property
    def unexpected(self) -> int:
        """The number of label values that were replaced by "unexpected"."""
        return len(self._unexpected)

    def shaped(self, family: Metric) -> Metric | None:
        names = {family.name, f"{family.name}_total"}
        if names & self._disabled:
            self._hidden.add(family.name)
            return None
        limits = next((self._labels[name] for name in names if name in self._labels), None)
        if limits is not None:
            for sample in family.samples:
                for label, values in limits.items():
                    value = sample.labels.get(label)
                    if value is not None and value not in values:
                        self._unexpected.add((family.name, label, value))
            family.samples = _limited(family.samples, limits)
        return family


def _limited(samples: list[Sample], limits: Mapping[str, Collection[str]]) -> list[Sample]:
    """Replaces label values that are not shown; series that become equal are added up."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for sample in samples:
        labels = {
            name: value if name not in limits or value in limits[name] else UNEXPECTED
            for name, value in sample.labels.items()
        }
        key = (sample.name, tuple(labels.items()))
        found[key] = found.get(key, 0.0) + sample.value
    return [Sample(name, dict(labels), value) for (name, labels), value in found.items()]


_LINES_PER_PIECE = 1000  # lines: some 6 ms


class FunctionCollector:
    """Families that a function makes at a scrape: gauges over state of other code."""

    def __init__(self, make: Callable[[], Iterable[Metric]]) -> None:
        self._make = make

    def collect(self) -> Iterable[Metric]:
        return self._make()


class Metrics:
    """The registry of a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.shape: Shape | None = None  # the choice of shown metrics; None: all
        self._past: dict[Series, float] = {}  # the values when it was reset
        self.requests = RequestMetrics()
        self.store = LabelledHistogram(
            "etcd_request_duration_seconds",
            "[ALPHA] Etcd request latency in seconds for each operation and object type.",
            ("operation", "group", "resource"),
            LATENCY,
        )
        self.requests.on_forgotten = self._forget
        for collector in (
            self.requests,
            self.store,
            ProcessCollector(registry=None),
            PlatformCollector(registry=None),
            GCCollector(registry=_Sink()),  # type: ignore[arg-type]
        ):
            self.registry.register(collector)

    def _forget(self, resources: Set[tuple[str, str]]) -> None:
        """Drops the durations of store requests for resources that are not served any more."""
        for labels in [labels for labels in self.store.rows if labels[1:] in resources]:
            del self.store.rows[labels]

    def add(self, make: Callable[[], Iterable[Metric]]) -> None:
        """Adds families over state of other code."""
        self.registry.register(FunctionCollector(make))

    def reset(self) -> None:
        """Shows what is counted from now on: by label, as only these metrics are reset upstream.

        What counts goes on; the values of now are subtracted from later ones.  Gauges and the figures of the process stay.
        """
        families = (family for family in costly(self.registry.collect()) if _is_reset(family))
        self._past = {_key(sample): sample.value for family in families for sample in elements(family.samples)}

    def exposition(self) -> Iterator[bytes]:
        """The body of /metrics in pieces: families by name, as from Go's client library, without families that have no samples.

        Other work may run while the pieces are made, all before the first one is returned.
        """
        shape = self.shape
        texts: dict[str, list[bytes]] = {}
        for family in costly(with_meta(self.registry.collect(), shape)):
            if self._past and _is_reset(family):
                family.samples = list(_since(self._past, family.samples))
            shown = family if shape is None else shape.shaped(family)
            if shown is not None:
                texts.setdefault(name_of(shown), []).extend(costly(_pieces(shown)))
        for name in sorted(texts):
            yield from texts[name]


_OF_THE_PROCESS = ("process_", "python_")  # the client library's


def _is_reset(family: Metric) -> bool:
    return str(family.type) in ("counter", "histogram") and not family.name.startswith(_OF_THE_PROCESS)


def _key(sample: Sample) -> Series:
    return sample.name, tuple(sample.labels.items())


def _metric(sample: Sample) -> tuple[tuple[str, str], ...]:
    """The labels of the metric that a sample belongs to."""
    return tuple(pair for pair in sample.labels.items() if pair[0] != _BOUND)


def _since(past: Mapping[Series, float], samples: list[Sample]) -> Iterator[Sample]:
    """What was counted since the reset.  Metrics without labels stay; others are left out until they count again."""
    counts = {_metric(sample): sample for sample in elements(samples) if not sample.name.endswith(("_bucket", "_sum"))}
    for sample in elements(samples):
        metric = _metric(sample)
        count = counts[metric]
        then = past.get(_key(count))
        if not metric or then is None or count.value < then:  # counted from zero on since the reset
            yield sample
        elif count.value > then:
            yield sample._replace(value=sample.value - past.get(_key(sample), 0.0))


def _pieces(family: Metric) -> Iterator[bytes]:
    """The text of a family."""
    text = lines(family)
    while piece := "".join(islice(text, _LINES_PER_PIECE)):
        yield piece.encode()


def store_requests(durations: LabelledHistogram) -> Iterator[Metric]:
    """How many there were, of the durations."""
    family = metric_family("etcd_requests_total")
    for labels, row in durations.rows.items():
        family.add_metric(list(labels), sum(row[:-1]))
    yield family


class _Sink:
    """A registry for the registration that GCCollector makes itself."""

    def register(self, collector: object) -> None: ...


def started(clock: Callable[[], float]) -> tuple[tuple[bytes, bytes], ...]:
    """The header that tells readers that counters begin again."""
    return ((b"process-start-time-unix", b"%d" % clock()),)


def was_reset() -> Response:
    return Response(200, b"metrics reset\n", b"text/plain; charset=utf-8")


class Exposition:
    """The handler of /metrics."""

    app = Routes()

    def __init__(self, metrics: Metrics, *, resets: bool = False, clock: Callable[[], float] = time.time) -> None:
        """``resets``: DELETE resets the metrics."""
        self._metrics, self._resets = metrics, resets
        self._headers = started(clock)
        self._one = DeferredLock()
        self._begun = 0  # number of texts so far
        self._text = b""  # the last text, for requests that waited for it

    @app.route("/metrics")
    async def metrics(self, ctx: RequestContext) -> Response:
        """Answers with the metrics.  One text is made at a time, and shared by requests that came before its beginning."""
        asked = self._begun
        await self._one.acquire()
        try:
            if self._resets and ctx.method == "DELETE":
                await in_slices
                self._metrics.reset()
                return was_reset()
            if self._begun == asked or not self._text:
                await in_slices
                self._begun += 1
                self._text = b""
                self._text = b"".join(self._metrics.exposition())
            return Response(200, self._text, CONTENT_TYPE, self._headers)
        finally:
            if not self._one.waiting:
                self._text = b""
            self._one.release()


_STAGE = re.compile(r"^\[(ALPHA|BETA|STABLE|INTERNAL)\] ")


def with_meta(families: Iterable[Metric], shape: Shape | None) -> Iterator[Metric]:
    """The families, then metrics about them.  Families of the client library, which have no stage, count as alpha."""
    stages: dict[str, int] = {}
    for family in families:
        found = _STAGE.match(family.documentation)
        stage = found[1] if found else "ALPHA"
        stages[stage] = stages.get(stage, 0) + 1
        yield family
    registered = metric_family("registered_metrics_total")
    for stage, count in sorted(stages.items()):
        registered.add_metric([stage, ""], count)
    yield registered
    yield metric_family("disabled_metrics_total", shape.hidden if shape else 0)
    yield metric_family("hidden_metrics_total", 0)
    unexpected = shape.unexpected if shape else 0
    yield metric_family("cardinality_enforcement_unexpected_categorizations_total", unexpected)


_BUILD = {
    "major": "major",
    "minor": "minor",
    "git_version": "gitVersion",
    "git_commit": "gitCommit",
    "git_tree_state": "gitTreeState",
    "build_date": "buildDate",
    "go_version": "goVersion",
    "compiler": "compiler",
    "platform": "platform",
}


def build_families(features: Mapping[str, bool], effective: EffectiveVersion) -> Iterator[Metric]:
    """The server's version and feature gates (upstream: ``metrics/version.go``, ``metrics/prometheus/feature``)."""
    build = metric_family("kubernetes_build_info")
    build.add_metric([VERSION[name] for name in _BUILD.values()], 1)
    version = metric_family("version_info")
    version.add_metric(["kube", *map(str, (RELEASE, *effective))], 1)
    gates = metric_family("kubernetes_feature_enabled")
    for name, stage in stages(effective.emulated).items():
        gates.add_metric([name, stage.name], float(features[name]))
    yield from (build, version, gates)
