"""Aligns columns: cells are padded to the widest one of a block of lines (upstream: ``text/tabwriter``, as kubectl uses it)."""

from __future__ import annotations

from collections.abc import Sequence

#: control characters for terminals, and their replacements (upstream: cli-runtime ``printers/terminal.go``)
ESCAPES = str.maketrans({"\x1b": "^[", "\r": "\\r"})


class TabWriter:
    """``remember``: column widths are kept between blocks, for rows that are printed one after the other (watches)."""

    def __init__(self, min_width: int = 6, padding: int = 3, *, remember: bool = True) -> None:
        self._min_width, self._padding, self._remember = min_width, padding, remember
        self._lines: list[list[str]] = []
        self._widths: list[int] = []

    def forget_widths(self) -> None:
        self._widths = []

    def row(self, cells: Sequence[str]) -> None:
        """Adds a row; a cell that contains line breaks makes several lines."""
        self.text("\t".join(cells))

    def text(self, text: str) -> None:
        """Adds lines whose cells end with tabs."""
        self._lines += [line.split("\t") for line in text.split("\n")]

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
            begin, width = place, self._min_width
            while place < end and len(lines[place]) > column + 1:
                width = max(width, len(lines[place][column]) + self._padding)
                place += 1
            if place > begin:
                self._block(lines, begin, place, [*widths, self._remembered(column, width)], shown)
                continue
            cells = lines[place]
            padded = [cell.ljust(width) for cell, width in zip(cells[:-1], widths, strict=True)]
            shown.append("".join(padded) + cells[-1] + "\n")
            place += 1

    def _remembered(self, column: int, width: int) -> int:
        if not self._remember:
            return width
        if column == len(self._widths):
            self._widths.append(width)
        self._widths[column] = max(self._widths[column], width)
        return self._widths[column]
