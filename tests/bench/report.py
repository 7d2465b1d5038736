"""A table, JSON and a plot of one or more servers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from xml.sax.saxutils import escape

from tests.bench.cases import Row


def table(rows: Sequence[Row]) -> str:
    """As a reStructuredText list table's body, aligned for reading."""
    lines = [f"{'measurement':36} {'median':>12} {'unit':9} {'±%':>4} {'CPU us/op':>10}  notes", "-" * 110]
    for row in rows:
        cpu = f"{row.cpu:10,.0f}" if row.cpu is not None else " " * 10
        lines.append(f"{row.name:36} {row.value:12,.1f} {row.unit:9} {row.spread:4.0f} {cpu}  {row.note}")
    return "\n".join(lines)


def as_json(results: dict[str, Sequence[Row]]) -> str:
    return json.dumps({name: [dataclasses.asdict(row) for row in rows] for name, rows in results.items()}, indent=1)


def beside(results: dict[str, Sequence[Row]], peers: dict[str, list[Row]]) -> dict[str, Sequence[Row]]:
    """With what others were measured to do, of the same measurements."""
    names = {row.name for rows in results.values() for row in rows}
    shared = {peer: [row for row in rows if row.name in names] for peer, rows in peers.items()}
    return {**results, **{peer: rows for peer, rows in shared.items() if rows}}


def svg(results: dict[str, Sequence[Row]]) -> str:
    """Bars per measurement, each scaled to the largest of the servers compared."""
    colours = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1")
    names = list(dict.fromkeys(row.name for rows in results.values() for row in rows))
    height = 16 * max(1, len(results)) + 14
    parts = []
    y = 40
    for name in names:
        found = [(server, row) for server, rows in results.items() for row in rows if row.name == name]
        largest = max(row.value for _, row in found) or 1
        parts.append(f'<text x="10" y="{y + 11}" font-size="11">{escape(name)}</text>')
        for index, (server, row) in enumerate(found):
            width = 420 * row.value / largest
            colour = colours[list(results).index(server) % len(colours)]
            top = y + index * 16
            parts.append(f'<rect x="270" y="{top}" width="{width:.1f}" height="13" fill="{colour}"/>')
            parts.append(
                f'<text x="{276 + width:.1f}" y="{top + 11}" font-size="10">{row.value:,.1f} {escape(row.unit)}</text>'
            )
        y += height
    legend = "".join(
        f'<rect x="{270 + index * 130}" y="12" width="12" height="12" fill="{colours[index % len(colours)]}"/>'
        f'<text x="{288 + index * 130}" y="22" font-size="12">{escape(server)}</text>'
        for index, server in enumerate(results)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="840" height="{y + 10}" font-family="sans-serif">'
        f'<rect width="100%" height="100%" fill="white"/>{legend}{"".join(parts)}</svg>\n'
    )
