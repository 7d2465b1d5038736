"""``python -m tests.firsthour``: plays the first hour with this checkout, and prints what each step took.

It needs a package index, the other clients in this environment, and for the step in a browser a chromium.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.firsthour.hour import Hour


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kapi-first-hour-") as directory:
        hour = Hour(Path(directory))
        hour.play()
        print(f"{'in all':24}{sum(seconds for _, seconds in hour.took):8.2f} s")


if __name__ == "__main__":
    main()
