"""The grammar of cron schedules and time zones (upstream: ``robfig/cron`` ParseStandard, ``batch/validation``)."""

from __future__ import annotations

import re

from kapi.machinery.golang import NumberError, parse_duration, parse_int

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


class ScheduleError(ValueError):
    """An invalid schedule; the text is upstream's."""


def check_schedule(schedule: str) -> None:
    """Raises ScheduleError."""
    if not schedule:
        raise ScheduleError("empty spec string")
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
    for field, (low, high, names) in zip(fields, _BOUNDS, strict=True):
        for part in field.split(","):
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
