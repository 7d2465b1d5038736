"""A line of comma-separated values, as flags that are lists hold them (upstream: Go's ``encoding/csv``, ``spf13/pflag``)."""

from __future__ import annotations

_BARE = 'bare " in non-quoted-field'
_UNBALANCED = 'extraneous or missing " in quoted-field'


def read_record(text: str) -> list[str]:
    """The fields of the first line that is not empty.  Raises ValueError with the message of Go's reader."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    number = next((number for number, line in enumerate(lines) if line), None)
    if number is None:
        raise ValueError("EOF")
    start, line, place = number, lines[number], 0
    fields: list[str] = []
    while True:
        if line.startswith('"', place):
            parts: list[str] = []
            place += 1
            while True:
                quote = line.find('"', place)
                if quote < 0 and number + 1 < len(lines):  # a quoted field may go on in the next line
                    parts.append(line[place:] + "\n")
                    number += 1
                    line, place = lines[number], 0
                elif quote >= 0 and line.startswith('""', quote):
                    parts.append(line[place : quote + 1])
                    place = quote + 2
                elif quote >= 0 and line[quote + 1 : quote + 2] in ("", ","):
                    parts.append(line[place:quote])
                    break
                else:
                    raise _error(start, number, line if quote < 0 else line[:quote], _UNBALANCED)
            fields.append("".join(parts))
            end = quote + 1
        else:
            end = line.find(",", place)
            end = len(line) if end < 0 else end
            quote = line.find('"', place, end)
            if quote >= 0:
                raise _error(start, number, line[:quote], _BARE)
            fields.append(line[place:end])
        if end == len(line):
            return fields
        place = end + 1


def _error(start: int, number: int, before: str, problem: str) -> ValueError:
    """``before`` is what stands in the line before the place of the problem; columns are counted in bytes from 1 on."""
    record = "" if start == number else f"record on line {start + 1}; "
    return ValueError(f"{record}parse error on line {number + 1}, column {len(before.encode()) + 1}: {problem}")
