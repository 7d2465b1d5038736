"""Draws the sequence diagrams of the documentation: ``python docs/diagrams/draw.py`` writes an SVG beside each text.

A text has a line for the title, for each actor (``actor NAME LABEL | FILES``, from left to right), for each message
(``FROM -> TO: TEXT``) and for each note (``note ACTOR: TEXT``), from top to bottom.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
_COLUMN = 172  # pixels between two actors
_TOP = 92
_LINE = 15  # pixels of a line of text
_WRAP = 24  # characters of a line within a column
_INK, _PALE, _NOTE = "#1a365d", "#90a4c0", "#fef6dd"


@dataclass
class Diagram:
    title: str = ""
    actors: dict[str, tuple[str, str]] = field(default_factory=dict)  # label and files by name
    steps: list[tuple[str, str, str]] = field(default_factory=list)  # from, to ("" is a note), text


def parse(text: str) -> Diagram:
    """Raises ValueError for a line that is nothing, and KeyError for an actor that is not named."""
    diagram = Diagram()
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("title "):
            diagram.title = line.removeprefix("title ")
        elif found := re.fullmatch(r"actor (\w+) ([^|]+?)(?: \| (.+))?", line):
            diagram.actors[found[1]] = found[2], found[3] or ""
        elif found := re.fullmatch(r"note (\w+): (.+)", line):
            diagram.steps.append((found[1], "", found[2]))
        elif found := re.fullmatch(r"(\w+) -> (\w+): (.+)", line):
            diagram.steps.append((found[1], found[2], found[3]))
        else:
            raise ValueError(line)
    return diagram


def draw(diagram: Diagram) -> str:
    places = {name: 90 + index * _COLUMN for index, name in enumerate(diagram.actors)}
    parts: list[str] = []
    y = _TOP + 14
    for origin, target, text in diagram.steps:
        if target:
            y = _arrow(parts, places[origin], places[target], y, text)
        else:
            y = _note(parts, places[origin], y, text)
    width, height = 180 + (len(places) - 1) * _COLUMN, y + 10
    head = [_text(width / 2, 22, diagram.title, "middle", 'font-weight="bold" font-size="15"')]
    for name, (label, files) in diagram.actors.items():
        x = places[name]
        head.append(f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{height - 6}" stroke="{_PALE}" stroke-dasharray="3 4"/>')
        head.append(
            f'<rect x="{x - 80}" y="36" width="160" height="{_TOP - 36}" rx="5" fill="#e8eef7" stroke="{_INK}"/>'
        )
        lines = textwrap.wrap(label, _WRAP)
        for index, line in enumerate(lines):
            head.append(_text(x, 54 + index * _LINE, line, "middle", 'font-weight="bold"'))
        for index, line in enumerate(textwrap.wrap(files, _WRAP)):
            head.append(_text(x, 54 + (len(lines) + index) * _LINE, line, "middle", 'font-size="10.5"'))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="sans-serif" font-size="12" fill="{_INK}" role="img">\n'
        f"<title>{escape(diagram.title)}</title>\n"
        f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(head + parts) + "\n</svg>\n"
    )


def _arrow(parts: list[str], start: int, end: int, y: int, text: str) -> int:
    """Answers where the next step begins."""
    span = abs(end - start)
    lines = textwrap.wrap(text, max(_WRAP, span // 7))
    for index, line in enumerate(lines):
        for halo in ('stroke="white" stroke-width="4"', ""):  # where it crosses an actor's line it stays readable
            parts.append(_text((start + end) / 2, y + index * _LINE, line, "middle", halo))
    y += (len(lines) - 1) * _LINE + 6
    tip = -7 if end > start else 7
    parts.append(f'<line x1="{start}" y1="{y}" x2="{end}" y2="{y}" stroke="{_INK}" stroke-width="1.3"/>')
    parts.append(f'<path d="M{end} {y} l{tip} -4 v8 z"/>')
    return y + 22


def _note(parts: list[str], x: int, y: int, text: str) -> int:
    lines = textwrap.wrap(text, _WRAP)
    height = len(lines) * _LINE + 8
    parts.append(
        f'<rect x="{x - 84}" y="{y - 12}" width="168" height="{height}" rx="3" fill="{_NOTE}" stroke="{_PALE}"/>'
    )
    for index, line in enumerate(lines):
        parts.append(_text(x, y + 3 + index * _LINE, line, "middle"))
    return y + height + 10


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{" " + more if more else ""}>{escape(text)}</text>'


def main() -> None:
    for source in sorted(HERE.glob("*.txt")):
        source.with_suffix(".svg").write_text(draw(parse(source.read_text())))


if __name__ == "__main__":
    main()
