"""The client commands for programs: they run in this process, with its reactor."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from kapi.process.reactor import Reactor, installed_reactor

if TYPE_CHECKING:
    from kapi.client.config import Config


class KubectlError(Exception):
    """A command has failed: ``code`` is its exit code, ``stdout`` and ``stderr`` are its output."""

    def __init__(self, arguments: tuple[str, ...], code: int, stdout: str, stderr: str) -> None:
        super().__init__(f"{' '.join(arguments)} ended with {code}:\n{stdout}{stderr}")
        self.code, self.stdout, self.stderr = code, stdout, stderr


class Kubectl:
    """``await kubectl("get", "pods", "-o", "name")`` returns the standard output of the command.

    ``config`` is a client's configuration; the default is from the kubeconfig files, as on the command line.
    Preferences of the user (``kuberc``) have no effect.
    """

    def __init__(self, config: Config | None = None, reactor: Reactor | None = None) -> None:
        self._config, self._reactor = config, reactor

    async def __call__(self, *arguments: str, input: str = "") -> str:
        """``input`` is the standard input.  Raises KubectlError."""
        from kapi.kubectl.commands import COMMANDS, client_command
        from kapi.kubectl.main import run

        line = client_command(list(arguments))
        if line is None:
            raise ValueError(f"no client command: {' '.join(arguments)}; there are {', '.join(COMMANDS)}")
        out, err = io.StringIO(), io.StringIO()
        code = await run(line, self._reactor or installed_reactor(), out, err, io.StringIO(input), self._config)
        if code:
            raise KubectlError(arguments, code, out.getvalue(), err.getvalue())
        return out.getvalue()
