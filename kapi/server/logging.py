"""The log of the console script: one line an event on stderr, as verbose as ``-v`` says."""

from __future__ import annotations

from typing import IO, Any

from twisted.logger import (
    FilteringLogObserver,
    ILogObserver,
    LogLevel,
    LogLevelFilterPredicate,
    textFileLogObserver,
)


def observer(verbosity: int, stream: IO[Any]) -> ILogObserver:
    """0 and 1: warnings and errors; 2 and 3: information; from 4 on everything."""
    level = LogLevel.warn if verbosity < 2 else LogLevel.info if verbosity < 4 else LogLevel.debug
    predicate = LogLevelFilterPredicate(defaultLogLevel=level)
    filtered: ILogObserver = FilteringLogObserver(textFileLogObserver(stream), (predicate,))
    return filtered
