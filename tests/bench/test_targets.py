"""What a run has measured is held against what is aimed at."""

from __future__ import annotations

from tests.bench import report, targets
from tests.bench.cases import Row


def line(rows: list[Row], text: str) -> list[str]:
    (found,) = (line for line in targets.table(rows).splitlines() if line.startswith(text))
    return found[len(text) :].split()


def test_a_figure_is_compared_with_its_limit() -> None:
    text = "memory idle, MB"
    assert line([Row("memory idle", 84.0, "MB")], text)[:4] == ["<=", "85", "84", "met"]
    assert line([Row("memory idle", 86.0, "MB")], text)[3:5] == ["NOT", "MET"]
    assert line([], text)[2] == "-"


def test_what_is_measured_later_counts() -> None:
    rows = [Row("memory idle", value, "MB") for value in (90.0, 80.0)]
    assert line(rows, "memory idle, MB")[3] == "met"


def test_a_figure_is_a_share_of_another_row_s_or_of_the_peer_s() -> None:
    rows = [
        Row("WATCH fan-out to 100, HTTP/2", 1.0, "events/s", cpu=30.0),
        Row("WATCH fan-out to 100, HTTP/1.1", 1.0, "events/s", cpu=20.0),
        Row("CREATE Pod, 16 in flight", 1100.0, "1/s"),
    ]
    assert line(rows, "event over HTTP/2 by HTTP/1.1's CPU")[2:4] == ["1.5", "met"]
    assert line(rows, "CREATE Pod, 16 in flight, by the peer's rate")[2:5] == ["2", "NOT", "MET"]
    assert line(rows[:1], "event over HTTP/2 by HTTP/1.1's CPU")[2] == "-"


def test_the_plot_shows_the_peer_beside_what_was_measured_of_both() -> None:
    results = {"kapi": [Row("memory idle", 90.0, "MB"), Row("no other has it", 1.0, "s")]}
    plot = report.svg(report.beside(results, targets.peers()))
    assert "(measured elsewhere)" in plot
    assert "336.0 MB" in plot
    assert plot.count("<text") == 2 + 2 + 3, "two servers, two measurements, three bars"
