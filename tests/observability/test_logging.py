"""The log: verbosity by module, klog's keys in JSON, errors apart from the rest."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from twisted.logger import Logger, LogPublisher

from kapi.observability.logging import observer
from kapi.options.flags import FlagError
from kapi.options.logs import module_levels
from kapi.options.options import Options


class Streams:
    """Loggers over two streams, as the flags say."""

    def __init__(self, *flags: str) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        logs = Options.from_command_line(flags).logs
        self.publisher = LogPublisher(observer(logs, self.out, self.err))

    def logger(self, name: str = "kapi.app") -> Logger:
        return Logger(namespace=name, observer=self.publisher)

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.err.getvalue().splitlines()]


@pytest.mark.parametrize("text", ["store", "=2", "store=²", "store=-1", "store=" + "9" * 5000])
def test_a_pattern_of_modules_needs_a_number(text: str) -> None:
    with pytest.raises(FlagError, match="expect comma-separated list of filename=N"):
        module_levels(text)


def test_a_pattern_of_modules_has_a_verbosity_of_its_own() -> None:
    streams = Streams("--vmodule=reload*=4,store=2")
    for name in ("kapi.machinery.reloads", "kapi.store", "kapi.app"):
        log = streams.logger(name)
        log.debug("debug of {name}", name=name)
        log.info("info of {name}", name=name)
        log.warn("warning of {name}", name=name)
    said = [line.partition("] ")[2] for line in streams.err.getvalue().splitlines()]
    assert said == [
        "debug of kapi.machinery.reloads",
        "info of kapi.machinery.reloads",
        "warning of kapi.machinery.reloads",
        "info of kapi.store",
        "warning of kapi.store",
        "warning of kapi.app",
    ]


def test_lines_in_json_have_the_keys_of_klog() -> None:
    streams = Streams("--logging-format=json", "-v=2")
    log = streams.logger()
    log.info("Serving securely on {where}", where="[::]:6443")
    try:
        raise ValueError("no such thing")
    except ValueError:
        log.failure("it failed")
    first, second = streams.lines()
    assert first.pop("ts") > 1e12
    assert first == {"caller": "kapi.app", "msg": "Serving securely on [::]:6443", "v": 2, "where": "[::]:6443"}
    assert second["err"] == "no such thing" and "Traceback" in second["stacktrace"] and "v" not in second


def test_errors_can_stand_apart() -> None:
    streams = Streams("--log-text-split-stream")
    log = streams.logger()
    log.warn("a warning")
    log.error("an error")
    assert "a warning" in streams.out.getvalue() and "an error" not in streams.out.getvalue()
    assert "an error" in streams.err.getvalue() and "a warning" not in streams.err.getvalue()


def test_an_event_is_a_line_and_its_traceback_is_indented() -> None:
    """What ends a line, steers a terminal or fits into no file is escaped, also in the text of an exception."""
    streams = Streams("-v=2")
    log = streams.logger()
    log.info("GET {path}", path="/a\n2026\tforged\x1b[2J\u2028\udcff")
    try:
        raise ValueError("odd\r\nforged")
    except ValueError:
        log.failure("it failed\n")
    first, second, *traceback = streams.err.getvalue().split("\n")
    assert first.endswith("] GET /a\\n2026\\tforged\\x1b[2J\\u2028\\udcff")
    assert second.endswith("] it failed\\n")
    assert traceback[0] == "\tTraceback (most recent call last):" and traceback[-1] == ""
    assert all(line.startswith("\t") for line in traceback[:-1])
    assert "\todd\\r" not in traceback and any("odd\\r" in line for line in traceback)
