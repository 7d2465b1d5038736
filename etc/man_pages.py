"""Writes a manual page for each command of kapi, from its help: ``python3 etc/man_pages.py DIRECTORY``."""

from __future__ import annotations

import sys
from pathlib import Path

import kapi
from kapi.kubectl.commands import ENTRIES
from kapi.kubectl.main import help_of


def page(name: str, summary: str, text: str) -> str:
    """In roff; the help is shown as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    shown = "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.splitlines())
    title = f"kapi-{name}".upper()
    return (
        f'.TH "{title}" 1 "" "kapi {kapi.__version__}" "kapi"\n'
        f".SH NAME\nkapi\\-{name} \\- {summary}\n.SH DESCRIPTION\n.nf\n{shown}\n.fi\n.SH SEE ALSO\n\\fBkapi\\fP(8)\n"
    )


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, entry in ENTRIES.items():
        (directory / f"kapi-{name}.1").write_text(page(name, entry.summary, help_of([name])))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
