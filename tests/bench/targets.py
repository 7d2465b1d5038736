"""What is aimed at, and whether the rows of a run (or of several) are there: ``python -m tests.bench --targets FILE ...``.

Each target names the rows it looks at, and the part of the bench that measures them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.bench.cases import Row

_PEER = Path(__file__).with_name("peer.json")
_FORMS = ("1 x 16", "16 x 1", "16 x 4", "100 x 1")
_FLAT = 1.15
_REQUESTS, _HTTP2, _LISTS = "requests", "http2", "start,lists"
_GROWTH = "growth --objects 1000,100000,300000"


@dataclass(frozen=True, slots=True)
class Target:
    """``row``'s value or CPU is at least or at most ``limit``; as a share of what ``beside`` has, if that is given.

    ``measured`` is what ``--only`` says to measure it.  ``peer``: the row beside is the peer's, of the same name.
    """

    text: str
    row: str
    sense: Literal[">=", "<="]
    limit: float
    measured: str
    by: Literal["value", "cpu"] = "value"
    beside: str = ""
    peer: bool = False
    scale: float = 1.0  # of the figure that is shown: microseconds to milliseconds, say

    def figure(self, rows: dict[str, Row], peers: dict[str, Row]) -> float | None:
        """None when it was not measured."""
        found = _part(rows.get(self.row), self.by)
        if self.beside or self.peer:
            other = _part(peers.get(self.row) if self.peer else rows.get(self.beside), self.by)
            found = found / other if found is not None and other else None
        return None if found is None else found * self.scale

    def met(self, figure: float) -> bool:
        return figure >= self.limit if self.sense == ">=" else figure <= self.limit


def _part(row: Row | None, by: str) -> float | None:
    if row is None:
        return None
    return row.value if by == "value" else row.cpu


def _flat(name: str) -> Target:
    text = f"{name} beside 300,000 by that beside 1,000"
    return Target(text, text, "<=", _FLAT, _GROWTH)


def _against(name: str, row: str, limit: float) -> Target:
    """CPU over HTTP/2 by that over HTTP/1.1."""
    one, other = (row.format(protocol) for protocol in ("HTTP/2", "HTTP/1.1"))
    return Target(f"{name} by HTTP/1.1's CPU", one, "<=", limit, _HTTP2, "cpu", other)


TARGETS: tuple[Target, ...] = (
    *(Target(f"GET over HTTP/2, {form}, 1/s", f"GET HTTP/2, {form}, h2load", ">=", 5000, _HTTP2) for form in _FORMS),
    Target("CREATE over HTTP/2 by HTTP/1.1's rate", "CREATE HTTP/2, 16 x 4", ">=", 0.9, _HTTP2, beside="CREATE HTTP/1.1, 64 x 1"),
    _against("event over HTTP/2", "WATCH fan-out to 100, {}", 1.5),
    _against("LIST of 32 MB over HTTP/2", "LIST 10000 Pods, {}", 1.3),
    Target("idle watch over HTTP/2, kB", "an idle watch over HTTP/2", "<=", 60, _HTTP2),
    Target("GET, 16 in flight, by the peer's rate", "GET ConfigMap 2.6 kB, 16 in flight", ">=", 4, _REQUESTS, peer=True),
    Target("CREATE, 64 in flight, by the peer's rate", "CREATE ConfigMap, 64 in flight", ">=", 2, _REQUESTS, peer=True),
    Target("UPDATE, 64 in flight, by the peer's rate", "UPDATE ConfigMap, 64 in flight", ">=", 2, _REQUESTS, peer=True),
    Target("CREATE Pod, 16 in flight, by the peer's rate", "CREATE Pod, 16 in flight", ">=", 2.5, _REQUESTS, peer=True),
    Target("CREATE ConfigMap, us of CPU", "CREATE ConfigMap, 64 in flight", "<=", 280, _REQUESTS, "cpu"),
    Target("events/s to 1,000 watchers in a burst", "WATCH burst to 1000", ">=", 150_000, "bursts"),
    Target("event of a burst, us of CPU", "WATCH burst to 1000", "<=", 8, "bursts", "cpu"),
    Target("20 events/s to 1,000 watchers, p99, ms", "WATCH 20 a second to 1000, p99", "<=", 30, "bursts"),
    Target("later start to ready, s", "later start to ready", "<=", 0.5, _LISTS),
    Target("start with 100,000 objects, s", "start with 100,000 ConfigMaps", "<=", 2.5, "large-start"),
    Target("memory idle, MB", "memory idle", "<=", 85, _LISTS),
    Target("memory with 10,000 Pods, MB", "memory with 10000 Pods", "<=", 200, _LISTS),
    Target("memory with 300,000 ConfigMaps, MB", "memory with 300,000 ConfigMaps", "<=", 1200, _GROWTH),
    _flat("GET"),
    _flat("CREATE"),
    _flat("page of 500"),
    Target("KEP-2340's LIST of 300,000, p99, ms", "LIST 1/1000 of 300,000, p99", "<=", 650, _GROWTH),
    Target("LIST of 10,000 Pods, ms of CPU", "LIST 10000 Pods", "<=", 30, _LISTS, "cpu", scale=1e-3),
    Target("page of 500 of 10,000 Pods, ms of CPU", "LIST 10000 Pods, limit 500", "<=", 3, _LISTS, "cpu", scale=1e-3 / 20),
    Target("DELETE of 50,000 ConfigMaps, s", "DELETE of 50,000 ConfigMaps", "<=", 10, "deletion"),
    Target("GET with 2 workers by one's rate", "GET, 2 workers by CPU, a core each", ">=", 1.7, "workers"),
    Target("memory of a further worker, MB", "memory of a further worker", "<=", 60, "workers"),
)  # fmt: skip


def peers() -> dict[str, list[Row]]:
    """Figures of kube-apiserver that were measured on another machine, as the name says."""
    return {name: [Row(**row) for row in rows] for name, rows in json.loads(_PEER.read_text()).items()}


def table(measured: Sequence[Row]) -> str:
    """All targets; of a row that was measured several times the last one counts."""
    rows = {row.name: row for row in measured}
    others = {row.name: row for found in peers().values() for row in found}
    lines = [f"{'target':48} {'':2} {'limit':>9} {'figure':>10}  {'':8} --only", "-" * 110]
    for target in TARGETS:
        figure = target.figure(rows, others)
        if figure is None:
            shown, met = "", "-"
        else:
            shown, met = _number(figure), "met" if target.met(figure) else "NOT MET"
        lines.append(
            f"{target.text:48} {target.sense:2} {_number(target.limit):>9} {shown:>10}  {met:8} {target.measured}"
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}".rstrip("0").rstrip(".")
