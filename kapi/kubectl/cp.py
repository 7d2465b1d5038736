"""``kapi cp``: files to and from containers, through ``tar`` in the container (upstream: kubectl ``cmd/cp``)."""

from __future__ import annotations

import os
import posixpath
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, TextIO

from twisted.internet.defer import CancelledError, Deferred, TimeoutError

from kapi.client.errors import ClientError, StatusError
from kapi.client.remotecommand import MAX_WRITE, STDERR, RemoteCommand, start
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, shared
from kapi.kubectl.messages import CommandError
from kapi.kubectl.pods_of import container_of, write_bytes
from kapi.kubectl.remote_streams import upgrading
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object, dig
from kapi.wire.upgrade import WebSocketClosed

FLAGS = (
    *shared("container"),
    Flag("no-preserve", "bool", help="Do not keep owners and modes."),
    Flag(
        "retries", "int", help="How often a copy that breaks off is taken up again; 0 for never, negative for always."
    ),
)
_FORM = "filespec must match the canonical format: [[namespace/]pod:]file/path"
MAX_CHECK_SECONDS = 30.0  # of the check whether the destination is a directory
HELP = Help(
    "SOURCE DESTINATION",
    "Copies files and directories to and from containers, with the program tar in them. A place in a container is\n"
    "[NAMESPACE/]POD:PATH.",
    ("Copy a directory into a container", "cp ./site web-0:/srv/site -c app"),
    ("Copy a file out of a pod", "cp test/web-0:/var/log/app.log app.log"),
)


class Place(NamedTuple):
    """A path in a pod; without a pod it is on this machine."""

    namespace: str
    pod: str
    path: str


async def run(factory: Factory, program: str) -> int:
    arguments = factory.flags.arguments
    factory.check_namespace()
    factory.check_config()
    if len(arguments) != 2:
        raise CommandError("source and destination are required")
    source, target = map(_place, arguments)
    if source.pod and target.pod:
        raise CommandError("one of src or dest must be a local file specification")
    if not source.path or not target.path:
        raise CommandError("filepath can not be empty")
    if source.pod:
        await _from_pod(factory, program, source, target.path)
    elif target.pod:
        await _to_pod(factory, source.path, target)
    else:
        raise CommandError("one of src or dest must be a remote file specification")
    return 0


def _place(text: str) -> Place:
    """Raises CommandError."""
    pod, colon, path = text.partition(":")
    if not colon:
        return Place("", "", _bare(text))
    names = pod.split("/")
    if not pod or len(names) > 2:
        raise CommandError(_FORM)
    return Place(names[0] if len(names) == 2 else "", names[-1], _bare(path.replace("\\", "/")))


def _bare(path: str) -> str:
    """The path without the slash at its end."""
    return path[:-1] if path.endswith("/") and path != "/" else path


class Container:
    """The container in which commands run; the pod is read once.  ``tell``: the stream for the name of a default container."""

    def __init__(self, factory: Factory, place: Place, tell: TextIO) -> None:
        self._factory, self._place, self._tell, self._told = factory, place, tell, False
        self._pod: Object | None = None

    async def pod(self) -> Object:
        """Raises StatusError and ClientError."""
        if self._pod is None:
            namespace = self._place.namespace or self._factory.namespace
            request = self._factory.client("v1").get().namespace(namespace).resource("pods")
            self._pod = await request.name(self._place.pod).do()
        return self._pod

    async def run(
        self, command: list[str], *, stdin: IO[bytes] | None = None, out: Callable[[bytes], object] | None = None,
        err: Callable[[bytes], object] | None = None,
    ) -> int:  # fmt: skip
        """The exit code.  Raises StatusError, ClientError, CommandError and WebSocketClosed."""
        factory, name = self._factory, self._place.pod
        namespace, pod = self._place.namespace or factory.namespace, await self.pod()
        phase = dig(pod, "status", "phase")
        if phase in ("Succeeded", "Failed"):
            raise CommandError(f"cannot exec into a container in a completed pod; current phase is {phase}")
        quiet = err is None or self._told
        self._told = self._told or not quiet
        container = container_of(factory, pod, factory.flags.get_string("container"), quiet=quiet, err=self._tell)
        with upgrading():
            running = await start(
                factory.client("v1"), namespace, name, command, container=container, stdin=stdin is not None
            )
        feeding = Deferred.fromCoroutine(_feed(running, stdin)) if stdin is not None else None
        try:
            async for channel, data in running:
                take = err if channel == STDERR else out
                if take is not None:
                    take(data)
        finally:
            if feeding is not None:
                feeding.addErrback(lambda why: why.trap(CancelledError, WebSocketClosed))
                feeding.cancel()
            running.close()
        return running.exit_code or 0


async def _feed(running: RemoteCommand, stdin: IO[bytes]) -> None:
    while data := stdin.read(MAX_WRITE):
        await running.write(data)
    await running.end_input()


def _ended(code: int) -> None:
    """Raises CommandError for an exit code that is not 0."""
    if code:
        raise CommandError(f"command terminated with exit code {code}", code=code, plain=True)


async def _to_pod(factory: Factory, source: str, target: Place) -> None:
    if not os.path.exists(source):
        raise CommandError(f"{source} doesn't exist in local filesystem")
    container = Container(factory, target, factory.err)
    checking = Deferred.fromCoroutine(container.run(["test", "-d", target.path]))
    try:
        is_directory = await checking.addTimeout(MAX_CHECK_SECONDS, factory.reactor) == 0
    except TimeoutError:
        raise CommandError("context deadline exceeded") from None
    except (ClientError, CommandError, StatusError):
        is_directory = False
    path = posixpath.join(target.path, os.path.basename(source)) if is_directory else target.path
    command = ["tar", "-xmf", "-"]
    if factory.flags.get_bool("no-preserve"):
        command[1:1] = ["--no-same-permissions", "--no-same-owner"]
    if directory := posixpath.dirname(path) or ".":
        command += ["-C", directory]
    with tempfile.TemporaryFile() as archive:
        _pack(Path(os.path.normpath(source)), posixpath.basename(posixpath.normpath(path)), archive)
        archive.seek(0)

        def err(data: bytes) -> None:
            write_bytes(factory.err, data)

        def out(data: bytes) -> None:
            write_bytes(factory.out, data)

        _ended(await container.run(command, stdin=archive, out=out, err=err))


def _pack(source: Path, name: str, archive: IO[bytes]) -> None:
    """Packs files, links and empty directories.  Raises CommandError."""
    try:
        with tarfile.open(fileobj=archive, mode="w") as packed:
            for path, inside in _files(source, name):
                packed.add(path, inside, recursive=False)
    except OSError as error:
        raise CommandError(f"{source}: {str(error.strerror).lower()}") from None


def _files(path: Path, name: str) -> Iterator[tuple[Path, str]]:
    if path.is_symlink() or not path.is_dir():
        yield path, name
        return
    inside = sorted(path.iterdir())
    if not inside:
        yield path, name
    for one in inside:
        yield from _files(one, f"{name}/{one.name}")


async def _from_pod(factory: Factory, program: str, source: Place, target: str) -> None:
    container = Container(factory, source, factory.out)
    await container.pod()
    tries, most = 0, factory.flags.get_int("retries")
    escaped = source.path.replace("'", "'\\''")
    with tempfile.TemporaryFile() as archive:

        def out(data: bytes) -> None:
            archive.write(data)

        def err(data: bytes) -> None:
            write_bytes(factory.out, data)  # as kubectl

        while True:
            have = archive.tell()
            command = ["tar", "cf", "-", source.path]
            if most:
                begin = have + 1 if tries else 0
                command = ["sh", "-c", f"tar cf - '{escaped}' | tail -c+{begin}"]
            try:
                _ended(await container.run(command, out=out, err=err))
                break
            except (ClientError, WebSocketClosed):
                if 0 <= most <= tries:
                    factory.out.write(f"Dropping out copy after {tries} retries\n")
                    raise CommandError("unexpected EOF") from None
                tries += 1
                factory.out.write(f"Resuming copy at {archive.tell()} bytes, retry {tries}/{most}\n")
        archive.seek(0)
        _unpack(factory, program, source, target, archive)


def _inside(path: str) -> str:
    """The path without ``../`` at its beginning, and without a slash."""
    while path.startswith("../"):
        path = path[3:]
    return "" if path in (".", "..") else path.removeprefix("/")


def _unpack(factory: Factory, program: str, source: Place, target: str, archive: IO[bytes]) -> None:
    """Writes only files below the target, and no links: an attacker may have made the archive.  Raises CommandError."""
    prefix = _inside(posixpath.normpath(source.path.lstrip("/\\")))
    warned = False
    try:
        with tarfile.open(fileobj=archive, mode="r|") as packed:
            for member in packed:
                if not member.name.startswith(prefix):
                    raise CommandError("tar contents corrupted")
                path = os.path.normpath(os.path.join(target, "./" + member.name[len(prefix) :].replace("\\", "/")))
                if os.path.relpath(path, target).split(os.sep)[0] == "..":
                    factory.err.write(f"warning: file {quote(path)} is outside target destination, skipping\n")
                    continue
                if member.issym() or member.islnk():
                    hint = "" if warned else _hint(program, source)
                    factory.err.write(f"warning: skipping symlink: {quote(path)} -> {quote(member.linkname)}{hint}\n")
                    warned = True
                    continue
                os.makedirs(path if member.isdir() else os.path.dirname(path) or ".", 0o755, exist_ok=True)
                content = packed.extractfile(member) if member.isfile() else None
                if content is not None:
                    with open(path, "wb") as file:
                        while data := content.read(MAX_WRITE):
                            file.write(data)
    except tarfile.TarError:
        raise CommandError("unexpected EOF") from None
    except OSError as error:
        raise CommandError(f"open {error.filename}: {str(error.strerror).lower()}") from None


def _hint(program: str, source: Place) -> str:
    names = f"-n {quote(source.namespace)} {quote(source.pod)}"
    return f' (consider using "{program} exec {names} -- tar cf - {quote(source.path)} | tar xf -")'
