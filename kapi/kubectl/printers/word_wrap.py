"""Text in lines of a bounded width, broken between words (upstream: kubectl ``util/term``, go-wordwrap).

Spaces inside of a line are kept; those at a break are removed.  A no-break space is part of its word.
"""

from __future__ import annotations

import re

_PIECE = re.compile(r"\n|[^\S\n\xa0]+|(?:[^\s]|\xa0)+")


def wrapped(text: str, width: int) -> str:
    """Breaks the text into lines of ``width`` characters; a longer word has a line of its own."""
    out: list[str] = []
    column, spaces = 0, ""
    for piece in _PIECE.findall(text):
        if piece == "\n":
            if column + len(spaces) <= width:
                out.append(spaces)
            out.append("\n")
            column, spaces = 0, ""
        elif piece.strip() == "" and piece != "\xa0" * len(piece):
            spaces = piece
        else:
            before = column + len(spaces)
            if before > 1 and before + len(piece) > width:
                out.append("\n")
                column, spaces = 0, ""
            out.append(spaces + piece)
            column, spaces = column + len(spaces) + len(piece), ""
    if column + len(spaces) <= width:
        out.append(spaces)
    return "".join(out)


def indented(text: str, amount: int) -> str:
    """Indents each line by ``amount`` spaces, also an empty one at the end."""
    margin = " " * amount
    return margin + text.replace("\n", "\n" + margin)
