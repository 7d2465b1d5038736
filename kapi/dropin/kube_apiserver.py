"""``kube-apiserver`` for test tools and static pods: kapi with upstream's flags and defaults.

It differs from ``kapi``: the flags for etcd are accepted and lead to kapi's own etcd (``kapi.dropin.etcd``); the certificate is
in ``--cert-dir``, and made there when it is not given; controllers of kube-controller-manager do not run; the data directory is
removed at the end.  Upstream: cmd/kube-apiserver ``app/options``, apiserver ``server/options/etcd.go`` and ``serving.go``.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode

from msgspec.structs import replace

from kapi.codecs.negotiation import SUPPORTED
from kapi.dropin.etcd_flags import address_of
from kapi.options.errors import ConfigError, complain
from kapi.options.flags import Flag, FlagSet, integer, parse, string, strings, value
from kapi.options.help import show, usage
from kapi.options.options import Options
from kapi.serving.pki import Files

if TYPE_CHECKING:
    from kapi.app import App
    from kapi.workers.supervisor import Supervisor

_DIRECTORY = "kapi-apiserver-"
_LAST_REQUEST_SECONDS = 0.125  # short: after stopping its server, a test sends no more requests
_PAIR = ("apiserver.crt", "apiserver.key")


class EtcdClientFlags(FlagSet):
    """Flags of the storage group that kapi itself refuses."""

    etcd_servers = strings((), "URL of kapi's etcd: http://ADDRESS:PORT or https://ADDRESS:PORT.")
    etcd_servers_overrides = strings((), "Resources kept in other etcds of kapi, comma separated: group/resource#URL.")
    etcd_cafile = value(string, "", "PEM file with the CAs of its certificate.")
    etcd_certfile = value(string, "", "PEM file with the certificate to show it.")
    etcd_keyfile = value(string, "", "PEM file with the key of --etcd-certfile.")
    etcd_prefix = value(string, "/registry", "Prefix of all keys in it.")
    storage_media_type = value(
        string, "application/vnd.kubernetes.protobuf", "Form of stored objects.", inert="objects are stored as JSON"
    )

    def declare(self, name: str, flag: object) -> None:
        super().declare(name, replace(cast(Flag, flag), group="Etcd"))  # shown with kapi's flags of this group

    def add(self) -> None:
        self.declare("storage-backend", value(string, "", "etcd3.", inert="there is one storage"))
        self.declare(
            "lease-reuse-duration-seconds",
            value(integer, 60, "How long leases are used again.", inert="there are no leases in the store"),
        )

    def check_media_type(self) -> None:
        """Raises ConfigError for a media type in which upstream stores nothing; upstream has CBOR with its feature gate."""
        if self.storage_media_type and self.storage_media_type not in SUPPORTED:
            allowed = ", ".join(sorted(SUPPORTED))
            raise ConfigError(f'--storage-media-type "{self.storage_media_type}" invalid, allowed values: {allowed}')

    def url(self) -> str:
        """The URL of the store for ``--redis-servers``.  Raises ConfigError."""
        if not self.etcd_servers:
            raise ConfigError("--etcd-servers must be specified")
        return self._store("etcd-servers", self.etcd_servers)

    def overrides(self) -> list[str]:
        """The values for ``--redis-servers-overrides``.  Raises ConfigError."""
        found = []
        for entry in self.etcd_servers_overrides:
            place, mark, servers = entry.partition("#")
            if not mark:
                raise ConfigError(
                    "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, "
                    "semicolon separated"
                )
            found.append(f"{place}#{self._store('etcd-servers-overrides', servers.split(';'))}")
        return found

    def _store(self, flag: str, urls: Sequence[str]) -> str:
        if len(urls) > 1:
            raise ConfigError(f"--{flag}: one URL is needed; kapi's etcd has one member")
        address = address_of(urls[0])
        if address is None:
            raise ConfigError(f"--{flag}: {urls[0]}: http://ADDRESS:PORT or https://ADDRESS:PORT")
        scheme, name, port = address
        host = f"[{name}]" if ":" in name else name
        if scheme == "http":
            return f"redis://{host}:{port}"
        files = {"ca": self.etcd_cafile, "cert": self.etcd_certfile, "key": self.etcd_keyfile}
        return f"rediss://{host}:{port}?" + urlencode({name: path for name, path in files.items() if path})


def translate(arguments: Sequence[str], directory: Path) -> tuple[list[str], Path | None]:
    """kapi's flags for kube-apiserver's flags, and the directory for the certificate if it must be generated.

    ``directory`` is the data directory.  Raises ConfigError.
    """
    own = EtcdClientFlags()
    taken, rest = _divide(arguments, set(own.flags))
    errors = parse([own], taken)
    if errors:
        raise ConfigError(*errors)
    own.check_media_type()
    if _value(rest, "workers") not in (None, "1"):
        raise ConfigError("--workers: kube-apiserver is one process")
    flags = [f"--redis-servers={own.url()}", f"--redis-prefix={own.etcd_prefix.strip('/') or 'registry'}"]
    flags += [f"--redis-servers-overrides={entry}" for entry in own.overrides()]
    for name, default in (("data-dir", str(directory)), ("controllers", "")):
        if _value(rest, name) is None:
            flags.append(f"--{name}={default}")
    if _value(rest, "authorization-mode") is None and _value(rest, "authorization-config") is None:
        flags.append("--authorization-mode=AlwaysAllow")
    place = None
    certificates = _value(rest, "cert-dir")
    if certificates and not _value(rest, "tls-cert-file"):
        pair = [Path(certificates, name) for name in _PAIR]
        if all(path.exists() for path in pair):
            flags += [f"--tls-cert-file={pair[0]}", f"--tls-private-key-file={pair[1]}"]
        else:
            place = Path(certificates)
    kept = _divide(rest, {"cert-dir"})[1]  # kapi would put its own keys there
    return [*kept, *flags], place


def _divide(arguments: Sequence[str], names: set[str]) -> tuple[list[str], list[str]]:
    """The flags with these names, which all take a value, and the rest."""
    taken: list[str] = []
    rest: list[str] = []
    pending = False
    for argument in arguments:
        name, mark, _ = argument[2:].partition("=")
        if pending:
            taken.append(argument)
            pending = False
        elif argument.startswith("--") and name.replace("_", "-") in names:
            taken.append(argument)
            pending = not mark
        else:
            rest.append(argument)
    return taken, rest


def _value(arguments: Sequence[str], name: str) -> str | None:
    """The last value of a flag, None when it is not given."""
    flags = FlagSet()
    flags.declare(name, value(string, "", ""))
    taken = _divide(arguments, {name})[0]
    parse([flags], taken)
    return str(getattr(flags, name.replace("-", "_"))) if taken else None


def help_text() -> str:
    """kapi's help text, with the flags for etcd of this program."""
    options = Options()
    flags = options.storage.flags
    flags.update(EtcdClientFlags().flags)
    for name, text in (
        ("cert-dir", "Directory of apiserver.crt and apiserver.key, made there when --tls-cert-file is not given."),
        ("controllers", "Controllers of kube-controller-manager to run in this process; default: none."),
    ):
        for group in options.groups:
            if name in group.flags:
                group.flags[name] = Flag(name, string, "", text, group=group.flags[name].group)
    return usage(options.groups)


def make_directory() -> Path:
    """Makes a data directory for this process.  Directories of killed processes, whose lock is free, are removed."""
    for left in Path(tempfile.gettempdir()).glob(f"{_DIRECTORY}*"):
        try:
            if left.is_symlink() or left.stat().st_uid != os.getuid():
                continue
            lock = os.open(left / "kapi.lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # another process removes it, or has not completed it
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
    return Path(tempfile.mkdtemp(prefix=_DIRECTORY))


def publish_certificate(files: Files, place: Path) -> None:
    """Writes the generated pair to the directory; the certificate's file also has its CA, so that clients can verify it."""
    from kapi.serving.pki import write_private

    place.mkdir(parents=True, exist_ok=True)
    write_private(place / _PAIR[1], files.serving_key.read_bytes())
    write_private(place / _PAIR[0], files.serving.read_bytes() + files.ca.read_bytes())


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the program.  Raises SystemExit with its exit code."""
    gc.disable()  # until the server is ready, as ``kapi`` does
    arguments = sys.argv[1:] if arguments is None else arguments
    if any(argument in ("--help", "-h") for argument in arguments):
        show("Usage: kube-apiserver [flags]\n\n" + help_text())
    from kapi.tap import asks_version, run

    if asks_version(arguments):
        run(arguments)
    directory = make_directory()
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    try:
        flags, place = translate(arguments, directory)
    except ConfigError as error:
        complain(error)
        raise SystemExit(1) from None

    def prepared(service: App | Supervisor) -> None:
        app = cast("App", service)  # ``translate`` refuses more processes than one
        app.announce = lambda: None  # no line with the kubeconfig, which is removed with the directory
        app.connections.last_request = _LAST_REQUEST_SECONDS
        if place is None:
            return
        try:
            publish_certificate(app.files, place)
        except OSError as error:
            complain(ConfigError(f"--cert-dir: {place}: {error.strerror or error}"))
            raise SystemExit(1) from None

    run(flags, prepared)


if __name__ == "__main__":
    main()
