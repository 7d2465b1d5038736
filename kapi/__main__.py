"""``python -m kapi`` and the console script: starts quickly, then hands over to ``kapi.tap``.

What a start makes stays for the life of the process, so the garbage collector would only look at it again and again; it is turned
on when the server is ready (``App._settle``).
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    gc.disable()
    try:
        from kapi.tap import main as run

        run()
    except KeyboardInterrupt:  # before the reactor has taken the signals over
        sys.exit(130)


if __name__ == "__main__":
    main()
