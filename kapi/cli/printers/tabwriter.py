"""Columns: cells of a block of lines, padded to the widest (upstream: ``text/tabwriter`` as kubectl sets it up)."""

from __future__ import annotations

from collections.abc import Sequence

MIN_WIDTH, PADDING = 6, 3


class TabWriter:
    """``widths`` are remembered from block to block, for rows that come one after the other (watches)."""

    def __init__(self) -> None:
        self._rows: list[Sequence[str]] = []
        self._widths: list[int] = []

    def forget_widths(self) -> None:
        self._widths = []

    def row(self, cells: Sequence[str]) -> None:
        self._rows.append(cells)

    def flush(self) -> str:
        rows, self._rows = self._rows, []
        if not rows:
            return ""
        columns = max(len(row) for row in rows) - 1
        widths = []
        for column in range(columns):
            widest = max((len(row[column]) for row in rows if len(row) > column + 1), default=0)
            width = max(MIN_WIDTH, widest + PADDING)
            if column < len(self._widths):
                width = max(width, self._widths[column])
            widths.append(width)
        self._widths = widths
        lines = []
        for row in rows:
            padded = [cell.ljust(widths[column]) for column, cell in enumerate(row[:-1])]
            lines.append("".join(padded) + row[-1] + "\n")
        return "".join(lines)
