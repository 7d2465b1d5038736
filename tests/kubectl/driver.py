"""Runs command lines of kapi in one process.

Each line of stdin is a JSON list of the arguments and the standard input of one, each of stdout a JSON result.
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from kapi.kubectl.commands import client_command
from kapi.kubectl.main import run

react: Any = reactor
MAX_RUN = 130.0  # seconds; above those that a line may wait


async def serve() -> None:
    out = sys.stdout
    for line in sys.stdin:
        arguments, text = json.loads(line)
        stdout, stderr, stdin = io.StringIO(), io.StringIO(), io.TextIOWrapper(io.BytesIO(text.encode()))
        running = Deferred.fromCoroutine(run(client_command(arguments) or [], react, stdout, stderr, stdin))
        running.addTimeout(MAX_RUN, react, lambda result, timeout: -1)
        code = await running
        out.write(json.dumps([stdout.getvalue(), stderr.getvalue(), code]) + "\n")
        out.flush()


def main() -> None:
    def begin() -> None:
        done = Deferred.fromCoroutine(serve())
        done.addErrback(lambda failure: failure.printTraceback())
        done.addBoth(lambda _: react.stop())

    react.callWhenRunning(begin)
    react.run()


if __name__ == "__main__":
    main()
