"""Manifests of kustomizations, which the program ``kustomize`` builds, or ``kubectl`` if there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from kapi.kubectl.messages import CommandError

_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")


def build(directory: str, options: Sequence[str] = ()) -> str:
    """The manifests of a kustomization, which may be a remote one; ``options`` are the program's.  Raises CommandError."""
    if "://" not in directory and "?ref=" not in directory:
        _check(directory)
    done = subprocess.run([*_program(), directory, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(done.stderr.strip() or f"the build of {directory} ended with {done.returncode}")
    return done.stdout


def _check(directory: str) -> None:
    """Raises CommandError for a directory that is not a kustomization, with kubectl's message for both programs."""
    if not directory:
        raise CommandError("must build at directory: directory path cannot be empty")
    place = os.path.abspath(directory)
    if not os.path.exists(place):
        raise CommandError(
            f"must build at directory: not a valid directory: evalsymlink failure on '{directory}' : "
            f"lstat {place}: no such file or directory"
        )
    if not os.path.isdir(place):
        raise CommandError(f"must build at directory: '{directory}': file is not directory")
    if not any(os.path.exists(os.path.join(place, name)) for name in _NAMES):
        names = f"'{_NAMES[0]}', '{_NAMES[1]}' or '{_NAMES[2]}'"
        raise CommandError(f"unable to find one of {names} in directory '{os.path.realpath(place)}'")


def _program() -> list[str]:
    """The program that builds: kustomize, or kubectl, which contains it.  Raises CommandError."""
    if path := shutil.which("kustomize"):
        return [path, "build"]
    path = shutil.which("kubectl")
    if path and os.path.realpath(path) != os.path.realpath(sys.argv[0]):  # it may be a link to kapi
        return [path, "kustomize"]
    raise CommandError(
        "kustomizations are built by the programs kustomize or kubectl, and none of them is on the PATH "
        "(https://kubectl.docs.kubernetes.io)"
    )


def built_file(directory: str) -> str:
    """A temporary file with the manifests; the caller removes it.  Raises CommandError."""
    text = build(directory)
    number, path = tempfile.mkstemp(suffix=".yaml", prefix="kustomization-")
    with os.fdopen(number, "w") as file:
        file.write(text)
    return path
