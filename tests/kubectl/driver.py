"""Runs command lines of kapi in one process: a JSON list of arguments on each line of stdin, a JSON result on each of stdout."""

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
        stdout, stderr, stdin = io.StringIO(), io.StringIO(), io.TextIOWrapper(io.BytesIO())
        running = Deferred.fromCoroutine(run(client_command(json.loads(line)) or [], react, stdout, stderr, stdin))
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
