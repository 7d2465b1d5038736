"""Where the log goes under twistd, as its own options say."""

from __future__ import annotations

import syslog
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock
from twisted.scripts.twistd import ServerOptions  # type: ignore[attr-defined]

from kapi.options.errors import ConfigError
from kapi.twistd import LogPlace, log_place


def place(*arguments: str) -> LogPlace:
    options = ServerOptions()
    options.parseOptions([*arguments, "kapi"])
    return log_place(options, MemoryReactorClock())  # type: ignore[arg-type]


def test_in_the_foreground_it_goes_where_the_log_flags_say() -> None:
    assert place("--nodaemon") == (None, None, False)
    assert log_place(None, MemoryReactorClock()) == (None, None, False)  # type: ignore[arg-type]


def test_a_logger_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    given = place("--nodaemon", "--logger=twisted.logger.LogPublisher", f"--logfile={tmp_path / 'log'}")
    assert given == (None, None, False)
    assert not (tmp_path / "log").exists()


def test_errors_have_another_priority_in_syslog(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(syslog, "openlog", sent.append)
    monkeypatch.setattr(syslog, "syslog", lambda priority, line: sent.append((priority, line)))
    out, err, apart = place("--syslog", "--prefix=cluster")
    assert out is not None and err is not None and apart
    out.write("one\ntwo\n")
    err.write("three\n")
    assert sent == ["cluster", (syslog.LOG_INFO, "one"), (syslog.LOG_INFO, "two"), (syslog.LOG_ERR, "three")]


def test_what_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--logfile: a daemon has no standard output"):
        place("--logfile=-")
    with pytest.raises(ConfigError, match=r"--logfile: .*nowhere/log: No such file or directory"):
        place(f"--logfile={tmp_path / 'nowhere' / 'log'}")
