"""A server on a machine of another name: ``named_server NAME flags...``.  Servers of one machine have the same identity."""

from __future__ import annotations

import os
import socket
import sys

from kapi import __main__ as program


def main() -> None:
    name = sys.argv.pop(1)
    machine = os.uname_result([name if field == "nodename" else getattr(os.uname(), field) for field in _FIELDS])
    os.uname = lambda: machine
    socket.gethostname = lambda: name
    program.main()


_FIELDS = ("sysname", "nodename", "release", "version", "machine")
