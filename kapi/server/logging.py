"""The log of the server: one line for each event, as verbose as ``-v`` and ``--vmodule`` say.

Upstream: klog, component-base ``logs/json`` (whose keys are used).
"""

from __future__ import annotations

import json
import re
import sys
from typing import Protocol, TextIO, cast

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, textFileLogObserver

from kapi.machinery.tree import Object
from kapi.server.log_stream import Stream, patient

_ORDER = [LogLevel.debug, LogLevel.info, LogLevel.warn, LogLevel.error, LogLevel.critical]
_ERROR = 3  # the index of errors in _ORDER
#: prefixes of keys that Twisted adds to an event's fields
_OURS = ("log_", "format", "message", "time", "system", "isError", "failure")
#: all that ends a line or steers a terminal, but the line ends of tracebacks, which Twisted indents
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Settings(Protocol):
    """The log flags."""

    logging_format: str
    v: int

    @property
    def split(self) -> bool: ...

    def verbosity(self, module: str) -> int: ...


def observer(settings: Settings, out: TextIO | None = None, err: TextIO | None = None) -> ILogObserver:
    """A log observer.  Verbosity 0 and 1: warnings and errors; 2 and 3: information; from 4 on everything.

    It writes to stderr; with ``split`` only errors, and the rest to stdout.
    """
    make = _json_observer if settings.logging_format == "json" else _text_observer
    to_err = make(patient(err or sys.stderr))
    to_out = make(patient(out or sys.stdout)) if settings.split else to_err
    known: dict[tuple[str, int], int] = {}  # the verbosity may be changed

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


class _Escaping:
    """A stream of text without control characters: paths and names in it are a client's, and must not look like lines of ours."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.flush = stream.flush

    def write(self, text: str) -> None:
        self._stream.write(_CONTROL.sub(_escaped, text))


def _escaped(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


def _text_observer(stream: Stream) -> ILogObserver:
    return textFileLogObserver(cast(TextIO, _Escaping(stream)))  # it writes and flushes


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
