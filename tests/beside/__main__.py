"""``python -m tests.beside ONE OTHER``: asks two API servers the same at random and prints where the second differs.

    python -m tests.beside https://127.0.0.1:6443,TOKEN https://127.0.0.1:7443,TOKEN --seconds 60
    python -m tests.beside http://127.0.0.1:8001 ../kapi-0.1          # one behind ``kubectl proxy``; a checkout, which is started

Each is URL[,TOKEN] or the directory of a checkout of kapi.  All objects are made in a namespace of their own, which is deleted in
the end; what is in no namespace is only tried (``dryRun=All``).  The same seed asks the same.  The exit code is 1 when something
differs.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import sys
import tempfile
from pathlib import Path

from tests.beside.options import requests
from tests.beside.pair import Difference, Pair, Side, compare
from tests.golden.replaying import Asker

_MAX_LINES = 8  # of one difference


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.beside", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("one", help="what is wanted: URL[,TOKEN] or a checkout of kapi")
    parser.add_argument("other", help="what is compared with it")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of what is asked")
    parser.add_argument("--only", default="", help="a regular expression for GROUP/VERSION/RESOURCE: ^apps/v1/, pods$")
    parser.add_argument(
        "--options", action="store_true", help="try options, media types and encodings with a few objects"
    )
    parser.add_argument("--texts", action="store_true", help="compare messages, headers and managedFields as well")
    options = parser.parse_args(arguments)

    def tell(found: Difference) -> None:
        print(found.request, *(f"    {line}" for line in found.lines[:_MAX_LINES]), sep="\n", flush=True)

    with contextlib.ExitStack() as stack:
        one, other = (_side(text, stack) for text in (options.one, options.other))
        pair = Pair(one, other, texts=options.texts)
        only = re.compile(options.only)
        count = compare(
            pair,
            options.seconds,
            options.seed,
            tell,
            lambda kind: bool(only.search(f"{kind.version}/{kind.resource}")),
            source=requests if options.options else None,
        )
    print(f"{pair.asked} requests with seed {options.seed}, {count} differences")
    return int(count > 0)


def _side(text: str, stack: contextlib.ExitStack) -> Side:
    if "://" in text:
        url, _, token = text.partition(",")
    else:
        from tests.bench.own_server import OwnServer

        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kapi-beside-")))
        own = OwnServer(scratch, [], text)
        target, _ = own.start()
        stack.callback(own.stop)
        url, token = target.url, target.token
    asker = Asker(url, {"user": token})
    stack.callback(asker.close)
    return Side(asker, "user" if token else "anonymous")


if __name__ == "__main__":
    sys.exit(main())
