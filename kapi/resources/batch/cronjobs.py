"""CronJob (batch/v1): defaults, validation, strategy, table; the grammar of schedules and time zones.

Upstream: ``pkg/apis/batch``, ``pkg/registry/batch/cronjob``, ``robfig/cron`` (ParseStandard).
"""

from __future__ import annotations

import re

from kapi.machinery import field
from kapi.machinery.ages import since
from kapi.machinery.field import FieldError, Path
from kapi.machinery.golang import NumberError, parse_duration, parse_int
from kapi.machinery.tree import Object
from kapi.resources.batch.job_spec import default_job_spec, job_spec_warnings, validate_job_spec
from kapi.resources.definition import FieldText, Resource, StrategyContext, type_meta
from kapi.resources.shared.podtemplate import prepare_template, template_options
from kapi.resources.shared.printing import AGE, NAME, NONE, UNSET, column, label_selector, table
from kapi.resources.shared.replicas import hostname_warning, template_columns, validate_counts
from kapi.resources.shared.rules import Errors, need, not_supported, report, supported
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy

_BOUNDS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    (0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_EVERY = "@every "
_ZONE_PART = re.compile(r"[A-Za-z._0-9+-]{1,14}\Z").match
_SPEC = Path("spec")
_POLICIES = ("Allow", "Forbid", "Replace")
_JOB = _SPEC.child("jobTemplate", "spec")


class ScheduleError(ValueError):
    """An invalid schedule; the text is upstream's."""


def check_schedule(schedule: str) -> None:
    """Raises ScheduleError."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, space, rest = schedule.partition("=")[2].partition(" ")
        if not space:
            end, start = -1, schedule.index("=") + 1
            text = f"slice bounds out of range [{start}:{end}]" if start <= 0 else f"slice bounds out of range [:{end}]"
            raise ScheduleError(f"invalid schedule format: runtime error: {text}")
        if not is_zone(zone):
            raise ScheduleError(f"provided bad location {zone}: unknown time zone {zone}")
        schedule = rest.strip()
    if schedule.startswith("@"):
        _check_descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for bounded, (low, high, names) in zip(fields, _BOUNDS, strict=True):
        for part in bounded.split(","):
            if part:
                _check_range(part, low, high, names)


def _check_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if not text.startswith(_EVERY):
        raise ScheduleError(f"unrecognized descriptor: {text}")
    try:
        parse_duration(text[len(_EVERY) :])
    except ValueError as error:
        raise ScheduleError(f"failed to parse duration {text}: {error}") from None


def _check_range(part: str, low: int, high: int, names: tuple[str, ...]) -> None:
    steps = part.split("/")
    ends = steps[0].split("-")
    if ends[0] in ("*", "?"):
        start, end = low, high
    else:
        start = _number(ends[0], low, names)
        if len(ends) > 2:
            raise ScheduleError(f"too many hyphens: {part}")
        end = start if len(ends) == 1 else _number(ends[1], low, names)
    if len(steps) > 2:
        raise ScheduleError(f"too many slashes: {part}")
    step = 1
    if len(steps) == 2:
        step = _number(steps[1], low, ())
        if len(ends) == 1:
            end = high
    if start < low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise ScheduleError(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {part}")


def _number(text: str, low: int, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    try:
        number = parse_int(text)
    except NumberError as error:
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {error}') from None
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number


def is_zone(name: str) -> bool:
    """Whether there is such a time zone."""
    if name in ("", "UTC", "Local"):
        return True
    import zoneinfo  # imported only when it is used

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def zone_texts(name: str) -> list[str]:
    """The error texts of a time zone's name."""
    if not name:
        return ["timeZone must be nil or non-empty string"]
    unknown = f"unknown time zone {name}"
    for part in name.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART(part):
            return [unknown]
    texts = []
    if name.lower() == "local":
        texts.append("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
    if not is_zone(name):
        texts.append(unknown)
    return texts


def _validate_schedule(spec: Object, old: Object | None, errors: Errors) -> None:
    schedule, path = spec.get("schedule", ""), _SPEC.child("schedule")
    if not schedule:
        errors.append(field.required(path))
        return
    try:
        check_schedule(schedule)
    except ScheduleError as error:
        errors.append(field.invalid(path, schedule, str(error)))
    if "TZ" not in schedule:
        return
    if old is None or "TZ" not in old.get("schedule", ""):
        errors.append(field.invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
    elif spec.get("timeZone") is not None:
        errors.append(field.invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))


def _template(obj: Object) -> Object:
    return ((obj["spec"].get("jobTemplate") or {}).get("spec") or {}).get("template") or {}


class CronJobStrategy(PlainStrategy):
    reset_fields = ("status",)
    generation_parts = ("spec",)
    empty_status = {}

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
        for part, value in (("suspend", False), ("successfulJobsHistoryLimit", 3), ("failedJobsHistoryLimit", 1)):
            spec.setdefault(part, value)
        default_job_spec(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        prepare_template(_template(obj), None if old is None else _template(old), ctx)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec, before = obj["spec"], None if old is None else old["spec"]
        _validate_schedule(spec, before, errors)
        validate_counts(spec, _SPEC, errors, ("startingDeadlineSeconds",))
        zone = spec.get("timeZone")
        if zone is not None and (before is None or before.get("timeZone") != zone):
            report(zone_texts(zone), zone, _SPEC, errors, "timeZone")
        policy = spec.get("concurrencyPolicy", "")
        if need(policy, _SPEC, errors, "concurrencyPolicy"):
            supported(policy, _POLICIES, _SPEC, errors, "concurrencyPolicy")
        job = (spec.get("jobTemplate") or {}).get("spec") or {}
        validate_job_spec(job, _JOB, errors, template_options(ctx, None if old is None else _template(old)))
        if job.get("selector") is not None:
            errors.append(field.invalid(_JOB.child("selector"), job["selector"], "`selector` will be auto-generated"))
        if job.get("manualSelector"):
            errors.append(not_supported(_JOB.child("manualSelector"), True, ("nil", "false")))
        validate_counts(spec, _SPEC, errors, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"))

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = super().validate(obj, ctx)
        own = obj["metadata"].get("name", "")
        if len(own) > 52:  # characters: the controller appends eleven
            errors.append(field.invalid("metadata.name", own, "must be no more than 52 characters"))
        return errors

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return hostname_warning(obj) + job_spec_warnings(obj["spec"]["jobTemplate"]["spec"], _JOB)

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        warnings: list[str] = []
        if obj["metadata"].get("generation") != old["metadata"].get("generation"):
            warnings = job_spec_warnings(obj["spec"]["jobTemplate"]["spec"], _JOB)
        if "TZ" in obj["spec"].get("schedule", ""):
            warnings.append(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )
        return warnings


class CronJobStatusStrategy(PlainStatusStrategy):
    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return []


def _suspended(obj: Object, now: float) -> str:
    suspend = obj["spec"].get("suspend")
    return UNSET if suspend is None else "True" if suspend else "False"


def _last(obj: Object, now: float) -> str:
    last = (obj.get("status") or {}).get("lastScheduleTime")
    return since(last, now) if last else NONE


def _zone(obj: Object, now: float) -> str:
    zone = obj["spec"].get("timeZone")
    return NONE if zone is None else zone


def _selector(obj: Object, now: float) -> str:
    return label_selector(((obj["spec"].get("jobTemplate") or {}).get("spec") or {}).get("selector"))


RESOURCE = Resource(
    *type_meta("batch/v1", "CronJob"),
    short_names=("cj",),
    categories=("all",),
    strategy=CronJobStrategy(),
    status=CronJobStatusStrategy,
    table=table(
        NAME,
        column("Schedule", lambda obj, now: obj["spec"].get("schedule", ""), ".spec.schedule"),
        column("Timezone", _zone, ".spec.timeZone"),
        column("Suspend", _suspended, ".spec.suspend", "boolean"),
        column(
            "Active", lambda obj, now: len((obj.get("status") or {}).get("active") or ()), ".status.active", "integer"
        ),
        column("Last Schedule", _last, ".status.lastScheduleTime"),
        AGE,
        *template_columns("spec", "jobTemplate", "spec", "template"),
        column("Selector", _selector, FieldText("api.batch.v1.JobSpec", "selector"), priority=1),
        of="api.batch.v1.CronJob",
    ),
)
