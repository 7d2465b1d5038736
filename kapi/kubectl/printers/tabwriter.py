"""Aligns columns: cells are padded to the widest one of a block of lines (upstream: ``text/tabwriter``, as kubectl uses it)."""

from __future__ import annotations

from collections.abc import Sequence

MIN_WIDTH, PADDING = 6, 3


class TabWriter:
    """Column widths are kept between blocks, for rows that are printed one after the other (watches)."""

    def __init__(self) -> None:
        self._lines: list[list[str]] = []
        self._widths: list[int] = []

    def forget_widths(self) -> None:
        self._widths = []

    def row(self, cells: Sequence[str]) -> None:
        """Adds a row; a cell that contains line breaks makes several lines."""
        for line in "\t".join(cells).split("\n"):
            self._lines.append(line.split("\t"))

    def flush(self) -> str:
        lines, self._lines = self._lines, []
        shown: list[str] = []
        self._block(lines, 0, len(lines), [], shown)
        return "".join(shown)

    def _block(self, lines: list[list[str]], start: int, end: int, widths: list[int], shown: list[str]) -> None:
        """Formats lines that share the first ``len(widths)`` columns; the last cell of a line is not part of a column."""
        column = len(widths)
        place = start
        while place < end:
            begin, width = place, MIN_WIDTH
            while place < end and len(lines[place]) > column + 1:
                width = max(width, len(lines[place][column]) + PADDING)
                place += 1
            if place > begin:
                self._block(lines, begin, place, [*widths, self._remembered(column, width)], shown)
                continue
            cells = lines[place]
            padded = [cell.ljust(width) for cell, width in zip(cells[:-1], widths, strict=True)]
            shown.append("".join(padded) + cells[-1] + "\n")
            place += 1

    def _remembered(self, column: int, width: int) -> int:
        if column == len(self._widths):
            self._widths.append(width)
        self._widths[column] = max(self._widths[column], width)
        return self._widths[column]
