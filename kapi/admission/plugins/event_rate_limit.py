"""EventRateLimit: token buckets for events, by server, namespace, user or source (upstream: ``eventratelimit``)."""

from __future__ import annotations

from collections.abc import Callable

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin
from kapi.machinery.field import FieldError, Path, invalid, not_supported
from kapi.machinery.golang import aggregate
from kapi.machinery.memo import RecentlyUsed
from kapi.machinery.status import TooManyRequests
from kapi.machinery.tree import Object, Tree

_DEFAULT_CACHE_SIZE = 4096


def _source(attributes: Attributes) -> str:
    event = attributes.obj or {}
    source, about = event.get("source") or {}, event.get("involvedObject") or {}
    parts = [source.get("component"), source.get("host")]
    parts += [about.get(field) for field in ("kind", "namespace", "name", "uid", "apiVersion")]
    return "".join(str(part or "") for part in parts)


_KEYS: dict[str, Callable[[Attributes], str]] = {
    "Server": lambda attributes: "",
    "Namespace": lambda attributes: attributes.namespace,
    "User": lambda attributes: attributes.user.name,
    "SourceAndObject": _source,
}


class _Limit:
    """One limit: a bucket for each key; the least recently used is dropped first."""

    def __init__(self, kind: str, rate: float, burst: int, size: int, clock: Callable[[], float]) -> None:
        self.kind = kind
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: RecentlyUsed[str, tuple[float, float]] = RecentlyUsed(size)  # key -> (tokens, time)

    def problem_of(self, attributes: Attributes) -> str:
        """Takes a token; the error text when there is none."""
        key = _KEYS[self.kind](attributes)
        now = self._clock()
        tokens, then = self._buckets.get(key, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + max(0.0, now - then) * self._rate)
        full = tokens >= 1
        self._buckets.keep(key, (tokens - 1 if full else tokens, now))
        return "" if full else f"limit reached on type {self.kind} for key {key}"


def _problems(limits: list[Object] | None) -> list[FieldError]:
    """What is wrong with the limits of a configuration (upstream: ``eventratelimit/validation``)."""
    path = Path().child("limits")
    errors = [] if limits else [invalid(path, limits, "must not be empty")]
    for i, limit in enumerate(limits or ()):
        here, kind = path.index(i), limit.get("type", "")
        if kind not in _KEYS:
            errors.append(not_supported(here.child("type"), kind, sorted(_KEYS)))
        for name in ("burst", "qps"):
            number = limit.get(name) or 0
            if number <= 0:
                errors.append(invalid(here.child(name), number, "must be positive"))
        size = limit.get("cacheSize") or 0
        if kind != "Server" and size < 0:
            errors.append(invalid(here.child("cacheSize"), size, "must not be negative"))
    return errors


class EventRateLimit(Plugin):
    operations = frozenset({CREATE, UPDATE})
    configured = True

    def __init__(self, initializer: Initializer, configuration: Tree) -> None:
        limits: list[Object] | None = (configuration or {}).get("limits")
        if problems := _problems(limits):
            raise ValueError(aggregate(map(str, problems)))
        self._limits = [
            _Limit(
                limit["type"],
                limit["qps"],
                limit["burst"],
                limit.get("cacheSize") or _DEFAULT_CACHE_SIZE,
                initializer.monotonic,
            )
            for limit in limits or ()
        ]

    def validate(self, attributes: Attributes) -> None:
        kind = attributes.kind
        if (
            kind.kind != "Event" or kind.group or attributes.dry_run
        ):  # as upstream: events of events.k8s.io are not limited
            return
        problems = [problem for limit in self._limits if (problem := limit.problem_of(attributes))]
        if problems:
            text = aggregate(problems)
            raise TooManyRequests(f"Too many requests: {text}")
