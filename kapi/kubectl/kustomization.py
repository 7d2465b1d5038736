"""Manifests of kustomizations, which the program ``kustomize`` builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile

from kapi.kubectl.messages import CommandError

_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")


def build(directory: str) -> str:
    """The manifests of a kustomization.  Raises CommandError."""
    if os.path.isdir(directory) and not any(os.path.exists(os.path.join(directory, name)) for name in _NAMES):
        names = f"'{_NAMES[0]}', '{_NAMES[1]}' or '{_NAMES[2]}'"
        raise CommandError(f"unable to find one of {names} in directory '{os.path.abspath(directory)}'")
    path = shutil.which("kustomize")
    if path is None:
        raise CommandError(
            "kustomizations are built by the program kustomize, and it is not on the PATH (https://kubectl.docs.kubernetes.io)"
        )
    done = subprocess.run([path, "build", directory], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(done.stderr.strip() or f"kustomize ended with {done.returncode}")
    return done.stdout


def built_file(directory: str) -> str:
    """A temporary file with the manifests; the caller removes it.  Raises CommandError."""
    text = build(directory)
    number, path = tempfile.mkstemp(suffix=".yaml", prefix="kustomization-")
    with os.fdopen(number, "w") as file:
        file.write(text)
    return path
