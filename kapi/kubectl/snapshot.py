"""``kapi snapshot``: saves and restores states of logical clusters; upstream has nothing like it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, shared
from kapi.kubectl.logical_clusters import FLAG, LogicalClusters, segment
from kapi.kubectl.messages import CommandError
from kapi.kubectl.pods_of import write_bytes
from kapi.kubectl.printers.tabwriter import TabWriter
from kapi.machinery.tree import Object, Tree

FLAGS = (
    FLAG,
    Flag("filename", short="f", help="The file that save writes and load reads; - is standard output or input."),
    *shared("no-headers"),
)
MAX_REQUEST = 2_000_000  # bytes of a file that are sent in one request
_LINES = "application/x-kapi-snapshot"
#: action -> whether it is about one snapshot, and whether it has a file
_ACTIONS = {
    "create": (True, False), "save": (True, True), "load": (True, True), "list": (False, False),
    "reset": (True, False), "delete": (True, False),
}  # fmt: skip
HELP = Help(
    "(create | save | load | reset | delete | list) [NAME] [--logical-cluster=NAME] [-f FILE]",
    "Keeps states of the logical clusters of a test server (kapi --testbed): create keeps one, reset returns to it, save\n"
    "and load move it through a file.",
    ("Keep the state of a logical cluster", "snapshot create before --logical-cluster=one"),
    ("Return to it", "snapshot reset before --logical-cluster=one"),
    ("Write it to a file", "snapshot save before -f before.snapshot"),
)


async def run(factory: Factory, program: str) -> int:
    action, name, file = _arguments(factory, program)
    clusters = LogicalClusters(factory)
    path = f"/snapshots/{segment(name)}"
    match action:
        case "list":
            found = await clusters.server.get().abs_path("/snapshots").do()
            factory.out.write(_table(found["snapshots"], headers=not factory.flags.get_bool("no-headers")))
            return 0
        case "save":
            data = await clusters.server.get().abs_path(f"{path}?content=1").raw()
            _write(factory, file, data)
            return 0
        case "create":
            clusters.path()  # raises an error when no logical cluster is named
            made = await clusters.server.put().abs_path(path).body({"cluster": clusters.name}).do()
            done = f"created with {made['objects']} objects at revision {made['revision']}"
        case "load":
            made = await _load(clusters, path, file, factory.stdin)
            done = f"loaded with {made['objects']} objects at revision {made['revision']}"
        case "reset":
            await clusters.server.patch("merge").abs_path(clusters.path()).body({"from": name}).do()
            factory.out.write(f'logical cluster "{clusters.name}" reset to snapshot "{name}"\n')
            return 0
        case _:
            await clusters.server.delete().abs_path(path).do()
            done = "deleted"
    factory.out.write(f'snapshot "{name}" {done}\n')
    return 0


def _arguments(factory: Factory, program: str) -> tuple[str, str, str]:
    """Action, name of a snapshot and file.  Raises CommandError."""
    action, *rest = factory.flags.arguments or [""]
    if action not in _ACTIONS:
        raise CommandError(f'unknown command "{action}": one of {", ".join(_ACTIONS)}')
    named, filed = _ACTIONS[action]
    usage = f"{program} snapshot"
    if len(rest) != named:
        raise CommandError(f"{action} takes {'the name of one snapshot' if named else 'no arguments'}", usage=usage)
    file = factory.flags.get_string("filename")
    if bool(file) != filed:
        raise CommandError(f"{action} {'needs a file: -f' if filed else 'takes no file'}", usage=usage)
    return action, rest[0] if rest else "", file


def _write(factory: Factory, file: str, data: bytes) -> None:
    if file == "-":
        write_bytes(factory.out, data)
        return
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from None


async def _load(clusters: LogicalClusters, path: str, file: str, stdin: object) -> Tree:
    """Sends the file in requests of a size that the server accepts.  Returns the last answer, which is about all of them."""
    if file == "-":
        return await _send(clusters, path, getattr(stdin, "buffer", sys.stdin.buffer))
    try:
        with Path(file).open("rb") as lines:
            return await _send(clusters, path, lines)
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from None


async def _send(clusters: LogicalClusters, path: str, lines: BinaryIO) -> Tree:
    made = None
    for part in parts_of(lines):
        request = clusters.server.put() if made is None else clusters.server.post()
        made = await request.abs_path(path).body(part, _LINES).do()
    if made is None:
        raise CommandError("the file is empty")
    return made


def parts_of(lines: Iterable[bytes], most: int = MAX_REQUEST) -> Iterator[bytes]:
    """Splits lines into parts of at most ``most`` bytes; a longer line is a part of its own."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and size + len(line) > most:
            yield b"".join(part)
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield b"".join(part)


def _table(snapshots: list[Object], *, headers: bool) -> str:
    writer = TabWriter()
    if headers:
        writer.row(["NAME", "REVISION", "OBJECTS"])
    for one in sorted(snapshots, key=lambda one: str(one["name"])):
        writer.row([one["name"], str(one["revision"]), str(one["objects"])])
    return writer.flush()
