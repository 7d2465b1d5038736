"""``kapi backup FILE`` and ``kapi restore FILE``: both take the flags of the server, which name the store and the keys.

A backup can be made from a running server, a stopped server, or an external store; it has one revision of each store.
A restore needs an empty store.  It raises the revision, so that a client with a later state of the old store lists again (410),
and does not wait for changes that never come (upstream: ``etcdutl snapshot restore --bump-revision``).
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger, globalLogBeginner
from twisted.python.failure import Failure

from kapi.backup.archive import PKI, Archive, ArchiveError, StoredPart, Writer
from kapi.extensions import extension_for
from kapi.foundation import Foundation, dial_to_stores, egress_of
from kapi.machinery.version import VERSION
from kapi.observability.logging import observer
from kapi.options.errors import ConfigError, complain
from kapi.options.help import show
from kapi.options.options import Options
from kapi.process.reactor import Reactor, installed_reactor, use_monotonic_clock
from kapi.serving.pki import Files, write_private
from kapi.store.address import Address, parse
from kapi.store.dump import Contents, Dump, Restore, Take
from kapi.store.embedded import DIRECTORY, EmbeddedValkey
from kapi.store.errors import StoreError
from kapi.store.script import Keys
from kapi.store.session import Session
from kapi.tap import expand

log = Logger()

#: the increment of the revision: more than the number of writes between a backup and its restore
BUMP = 1_000_000_000
_BUMP_FLAG = "--bump-revision"
_USAGE = {
    "backup": """\
Usage: kapi backup FILE [flags of the server]

Writes the objects of the store and the keys of the server to FILE, as they are at one moment; the server may run meanwhile.
The flags are those of the server (--data-dir, --redis-servers, --redis-prefix, --cert-dir, --config-file): they tell where
the store and the keys are. FILE has secrets and private keys, and only its owner may read it.

Examples:
  # Keep what the server in this directory has
  kapi backup kapi.tgz

  # Keep what the service has, by its flags
  kapi backup /var/backups/kapi.tgz --config-file=/etc/kapi/kapi.conf
""",
    "restore": f"""\
Usage: kapi restore FILE [{_BUMP_FLAG}=N] [flags of the server]

Fills an empty store, and the directory of keys, with a backup. No server may run with the data directory meanwhile.
The flags are those that the server will be started with.

  {_BUMP_FLAG}=N  raises the revision by N ({BUMP:,} if it is not given), so that clients with a later state begin anew.
                     0 is for a store that is moved, without any write after the backup.

Examples:
  # Fill a new data directory
  kapi restore kapi.tgz --data-dir=restored

  # Fill the directory of the service, which is stopped and has moved the former one away
  kapi restore /var/backups/kapi.tgz --config-file=/etc/kapi/kapi.conf
""",
}


def backup(arguments: Sequence[str]) -> None:
    """``kapi backup``; ends with its exit code."""
    _main("backup", list(arguments))


def restore(arguments: Sequence[str]) -> None:
    """``kapi restore``; ends with its exit code."""
    _main("restore", list(arguments))


def _main(command: str, rest: list[str]) -> None:
    if any(argument in ("-h", "--help") for argument in rest):
        show(_USAGE[command])
    reactor = installed_reactor()
    use_monotonic_clock(reactor)
    try:
        bump, rest = _taken(rest)
        if not rest or rest[0].startswith("-"):
            raise ConfigError(f"{command}: the name of the file is missing: kapi {command} FILE [flags]")
        path, flags = Path(rest[0]).absolute(), expand(rest[1:])
        options = Options.from_command_line(flags, extension_for(flags))
        run = _backup(path, options, reactor) if command == "backup" else _restore(path, bump, options, reactor)
    except ConfigError as error:
        complain(error)
        raise SystemExit(1) from None
    globalLogBeginner.beginLoggingTo([observer(options.logs)], redirectStandardIO=False)
    raise SystemExit(_finish(run, path, reactor))


def _taken(arguments: Sequence[str]) -> tuple[int, list[str]]:
    """The value of the command's own flag, and the other arguments.  Raises ConfigError."""
    bump, rest = BUMP, []
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name != _BUMP_FLAG:
            rest.append(argument)
        elif not value.isdigit():
            raise ConfigError(f"{_BUMP_FLAG} must be a number: {_BUMP_FLAG}={BUMP}")
        else:
            bump = int(value)
    return bump, rest


def _finish(run: Coroutine[Deferred[object], object, None], path: Path, reactor: Reactor) -> int:
    """Runs the reactor until the command has ended."""
    running: list[Deferred[None]] = []
    codes: list[int] = []

    def begin() -> None:
        running.append(Deferred.fromCoroutine(run))
        running[0].addCallbacks(lambda _: codes.append(0), lambda failure: codes.append(_failed(failure, path)))
        running[0].addBoth(lambda _: None if stopping else reactor.stop())

    def interrupted() -> Deferred[None] | None:
        """Called at a signal: lets the command clean up."""
        stopping.append(True)
        if not running or codes:
            return None
        running[0].cancel()
        return running[0]

    stopping: list[bool] = []
    reactor.addSystemEventTrigger("before", "shutdown", interrupted)
    reactor.callWhenRunning(begin)
    reactor.run()
    return codes[0] if codes else 1


def _failed(failure: Failure, path: Path) -> int:
    error = failure.value
    if isinstance(error, (StoreError, ConfigError, ArchiveError)):
        complain(error)
    elif isinstance(error, CancelledError):
        complain(ConfigError("interrupted"))
    elif isinstance(error, OSError):
        complain(ConfigError(f"{error.filename or path}: {error.strerror or error}"))
    else:
        failure.printTraceback(file=sys.stderr)
    return 1


def _keys_directory(options: Options) -> Path:
    directory = options.serving.cert_dir
    return Path(directory).absolute() if directory else Path(options.storage.data_dir).absolute() / "pki"


def _key_files(directory: Path) -> list[Path]:
    """The files that a server cannot make again; other files are made at its start."""
    files = Files(directory)
    return [files.ca, files.ca_key, files.service_account_key, files.service_account_public]


def _stores(options: Options, reactor: Reactor) -> dict[Address, list[str]]:
    """The stores, the main one first, with the resources of --redis-servers-overrides that they hold.  Raises ConfigError."""
    storage, dial = options.storage, dial_to_stores(options, egress_of(options))
    if storage.embedded:
        main = Address(path=EmbeddedValkey(Path(storage.data_dir) / "store", reactor).socket_path)
    else:
        try:
            main = parse(",".join(storage.redis_servers))
        except ValueError as error:
            raise ConfigError(f"--redis-servers: {error}") from None
    found: dict[Address, list[str]] = {replace(main, dial=dial): []}
    for resource, address in storage.overrides.items():
        found.setdefault(replace(address, dial=dial), []).append(str(resource))
    return {address: sorted(resources) for address, resources in found.items()}


async def _backup(path: Path, options: Options, reactor: Reactor) -> None:
    data = Path(options.storage.data_dir).absolute()
    if options.storage.embedded and not (data / "store" / DIRECTORY).is_dir():
        raise ConfigError(f"--data-dir: there is no store in {data}")
    stores, directory = _stores(options, reactor), _keys_directory(options)
    keys = [file for file in _key_files(directory) if file.exists()]
    if not keys:
        log.warn("no keys are in {directory}: the backup has objects only", directory=str(directory))
    server = await _own_server(data / "store", reactor) if options.storage.embedded else None
    try:
        writer = Writer(path)
        try:
            for file in keys:
                writer.add(PKI + file.name, file.read_bytes())
            parts = []
            for number, (address, resources) in enumerate(stores.items()):
                writer.begin_store(number)
                contents = await _dumped(address, options, reactor, writer.take)
                parts.append(StoredPart(resources, contents.revision, contents.objects, writer.end_store()))
            size = writer.close(VERSION["gitVersion"], parts)
        except BaseException:
            writer.abort()
            raise
    finally:
        if server is not None:
            await server.stop()
    for part in parts:
        of = f" of {', '.join(part.resources)}" if part.resources else ""
        print(f"{part.objects} objects{of} at revision {part.revision}")
    print(f"{size} bytes in {path}")


async def _dumped(address: Address, options: Options, reactor: Reactor, take: Take) -> Contents:
    async with Session(address, reactor) as session:
        return await Dump(session.connection, Keys.under(options.storage.redis_prefix), take).run()


async def _own_server(directory: Path, reactor: Reactor) -> EmbeddedValkey | None:
    """The embedded store's server, started for the backup; None when the server of a running kapi can be used."""
    server = EmbeddedValkey(directory, reactor)
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(server.socket_path)
            return None
        except OSError:
            pass
    await server.start()
    return server


async def _restore(path: Path, bump: int, options: Options, reactor: Reactor) -> None:
    archive, stores, directory = Archive(path), _stores(options, reactor), _keys_directory(options)
    _check_resources(archive, list(stores.values()))
    _check_keys(archive, directory)
    foundation = Foundation(options, reactor)
    try:
        await foundation.start_server()
        try:
            for address in stores:  # checked before anything is written
                async with Session(address, reactor) as session:
                    await _restoring(session, address, options).begin()
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for file in _key_files(directory):
                if file.name in archive.keys:
                    write_private(file, archive.keys[file.name])
            for number, (address, part) in enumerate(zip(stores, archive.stores, strict=True)):
                async with Session(address, reactor) as session:
                    restoring = _restoring(session, address, options)
                    for records in archive.records(number):
                        await restoring.take(records)
                    await restoring.finish(part.revision + bump)
        finally:
            await foundation.stop_server()
    finally:
        foundation.release()
    for part in archive.stores:
        print(f"{part.objects} objects of {archive.time}; the revision goes on from {part.revision + bump}")


def _restoring(session: Session, address: Address, options: Options) -> Restore:
    return Restore(session.connection, Keys.under(options.storage.redis_prefix), str(address))


def _check_resources(archive: Archive, resources: Sequence[Sequence[str]]) -> None:
    """Raises ConfigError."""
    for part, wanted in zip(archive.stores, resources, strict=False):
        if list(part.resources) != list(wanted):
            break
    else:
        if len(archive.stores) == len(resources):
            return
    kept = "; ".join(", ".join(part.resources) for part in archive.stores[1:]) or "none"
    raise ConfigError(
        f"--redis-servers-overrides: the backup has stores of their own for: {kept}; name the same resources"
    )


def _check_keys(archive: Archive, directory: Path) -> None:
    """Raises ConfigError when other keys are there: tokens and certificates of the backup would not be valid."""
    for file in _key_files(directory):
        if file.name in archive.keys and file.exists() and file.read_bytes() != archive.keys[file.name]:
            raise ConfigError(f"{file} is another one than in the backup; move it away, or name another directory")
