"""The log of the server: one line for each event, with the verbosity of ``-v`` and ``--vmodule``.

Upstream: klog, component-base ``logs/json`` (whose keys are used).
"""

from __future__ import annotations

import json
import re
import sys
from typing import Protocol, TextIO, cast

from twisted.logger import (
    FileLogObserver,
    ILogObserver,
    LogEvent,
    LogLevel,
    eventAsText,
    formatEvent,
    globalLogBeginner,
)

from kapi.machinery.tree import Object
from kapi.observability.log_stream import Stream, patient

_ORDER = [LogLevel.debug, LogLevel.info, LogLevel.warn, LogLevel.error, LogLevel.critical]
_ERROR = 3  # the index of errors in _ORDER
#: prefixes of keys that Twisted adds to an event's fields
_OURS = ("log_", "format", "message", "time", "system", "isError", "failure")
#: characters that end a line or control a terminal, and characters that cannot be encoded
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Settings(Protocol):
    """The log flags."""

    logging_format: str
    v: int

    @property
    def split(self) -> bool: ...

    def verbosity(self, module: str) -> int: ...


def begin_log(settings: Settings) -> None:
    """Makes this process log to its standard streams."""
    globalLogBeginner.beginLoggingTo([observer(settings)], redirectStandardIO=False)


def observer(
    settings: Settings, out: Stream | None = None, err: Stream | None = None, apart: bool = False
) -> ILogObserver:
    """A log observer.  Verbosity 0 and 1: warnings and errors; 2 and 3: information; from 4 on all events.

    It writes to ``err``, or stderr; with ``split`` or ``apart`` only errors, and other events to ``out``, or stdout.
    """
    make = _json_observer if settings.logging_format == "json" else text_observer
    to_err = make(patient(err or sys.stderr))
    to_out = make(patient(out or sys.stdout)) if settings.split or apart else to_err
    known: dict[tuple[str, int], int] = {}  # cleared when the verbosity changes

    def observe(event: LogEvent) -> None:
        module = event.get("log_namespace") or ""
        least = known.get((module, settings.v))
        if least is None:
            least = known[module, settings.v] = _least(settings.verbosity(module))
        level = event.get("log_level")
        rank = _ORDER.index(level) if level is not None else _ERROR
        if rank >= least:
            (to_err if rank >= _ERROR else to_out)(event)

    found: ILogObserver = observe  # type: ignore[assignment]
    return found


def _least(verbosity: int) -> int:
    return 2 if verbosity < 2 else 1 if verbosity < 4 else 0


def text_observer(stream: Stream) -> ILogObserver:
    """A line for each event, then its traceback, indented."""
    return FileLogObserver(cast(TextIO, stream), _lines)  # it writes and flushes


def _lines(event: LogEvent) -> str | None:
    """The lines of an event.  Paths and names of clients must not look like other log lines, or control a terminal."""
    text = eventAsText(event, includeTraceback=False)
    traceback = eventAsText(event)[len(text) :] if "log_failure" in event else ""
    lines = "\n\t".join(_escaped(line) for line in traceback.split("\n"))
    return f"{_escaped(text)}{lines}\n" if text or lines else None


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def _json_observer(stream: Stream) -> ILogObserver:
    """``{"ts":...,"caller":...,"msg":...,"v":0}``; errors have no ``v`` and may have ``err``."""

    def write(event: LogEvent) -> None:
        level = event.get("log_level", LogLevel.info)
        line: Object = {
            "ts": round(event["log_time"] * 1000, 3),  # milliseconds
            "caller": event.get("log_namespace", ""),
            "msg": formatEvent(event),
        }
        if level in (LogLevel.error, LogLevel.critical):
            failure = event.get("log_failure")
            if failure is not None:
                line["err"] = failure.getErrorMessage()
                line["stacktrace"] = failure.getTraceback()
        else:
            line["v"] = {LogLevel.warn: 0, LogLevel.info: 2}.get(level, 4)
        for key, value in event.items():
            if not key.startswith(_OURS) and key not in line:
                line[key] = value if isinstance(value, (str, int, float, bool)) else str(value)
        stream.write(json.dumps(line) + "\n")
        stream.flush()

    found: ILogObserver = write  # type: ignore[assignment]
    return found
