"""What the subcommands of ``config`` that change files share."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator

from kapi.client.clientcmd import Kubeconfig
from kapi.kubectl.factory import Factory
from kapi.kubectl.messages import CommandError


@contextlib.contextmanager
def changing(factory: Factory, *, relative: bool = True) -> Iterator[Kubeconfig]:
    """The files to be changed, which are written at the end.  ``relative``: paths become relative to their file.

    Raises ConfigError.
    """
    from kapi.client.kubeconfig_changes import save

    before = factory.kubeconfig(must_exist=False)
    after = copy.deepcopy(before)
    yield after
    save(before, after, relative=relative)


def help_text(factory: Factory) -> str:
    """The help of the command itself."""
    from kapi.kubectl.main import help_of

    return help_of(factory.command.split())


def unexpected(factory: Factory, what: str = "Unexpected args") -> CommandError:
    """The error for a wrong number of arguments, after the help."""
    return CommandError(f"{what}: [{' '.join(factory.flags.arguments)}]", output=help_text(factory))
