"""``python -m kapi`` and the console script: starts quickly, then hands over to ``kapi.tap``.

The objects of a start stay for the life of the process, so the garbage collector would only visit them again and again.  It is
turned on when the server is ready (``App._tune_interpreter``).
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from kapi.kubectl.commands import ENTRIES, client_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.client.exec_credential import PluginPolicy


def _answer(arguments: list[str]) -> None:
    """Answers a command line about the program itself, and exits: help, version, or an unknown command."""
    match arguments:
        case ["help", *words]:
            text = _help(words)
        case ["--help" | "-h"]:
            text = _help([])
        case ["--version" | "--version=true"]:
            text = _version()
        case [word, *_] if word and not word.startswith("-"):
            from kapi.kubectl.command import unknown_command
            from kapi.kubectl.main import PROGRAM
            from kapi.kubectl.plugin import run_plugin

            run_plugin(arguments)
            sys.stderr.write(unknown_command(word, PROGRAM))
            raise SystemExit(1)
        case _:
            return
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes once more at exit
    raise SystemExit(0)


def _create_by_plugin(command: list[str]) -> None:
    """Runs a plugin for a kind that ``create`` has no subcommand for, if there is one."""
    from kapi.kubectl.command import find, load
    from kapi.kubectl.plugin import run_plugin

    if find(load("create"), command[1:])[0] == "create":
        run_plugin(command, 2)


def _help(words: list[str]) -> str:
    from kapi.kubectl.main import help_of

    return help_of(words)


def _version() -> str:
    from kapi import __version__
    from kapi.machinery.version import VERSION

    return f"kapi {__version__}, Kubernetes {VERSION['major']}.{VERSION['minor']}\n"


def _preferred(arguments: list[str]) -> tuple[list[str], PluginPolicy | None, Mapping[str, str]]:
    """What ``kapi.kubectl.preferences.applied`` returns; ends the process for bad preferences."""
    usual = os.path.join(os.path.expanduser("~"), ".kube", "kuberc")
    named = "KUBERC" in os.environ or any(argument.startswith("--kuberc") for argument in arguments)
    disabled = os.environ.get("KUBECTL_KUBERC", "").lower() == "false"
    if not arguments or disabled or not (named or os.path.lexists(usual)):
        return arguments, None, {}
    from kapi.kubectl.flags import leading

    place = leading(arguments)
    words = arguments[place : place + 1]
    if client_command(arguments) is None and (not words or not words[0].isalpha() or words[0] in ENTRIES):
        return arguments, None, {}  # of the server or of another program
    from kapi.kubectl.postponed import postpone

    postpone()
    from kapi.kubectl.messages import CommandError
    from kapi.kubectl.preferences import applied

    try:
        return applied(arguments, sys.argv[0], sys.stderr)
    except CommandError as error:
        sys.stderr.write(f"error occurred while applying preferences {error}\n")
        raise SystemExit(1) from None


def main() -> None:
    if os.name == "nt":
        sys.exit(
            "kapi runs on Linux and macOS. On Windows run it in WSL: install it with `wsl --install`, open a shell with `wsl`,"
            " and install kapi there."
        )
    gc.disable()
    arguments, policy, names = _preferred(sys.argv[1:])
    command = client_command(arguments)
    if command is not None:
        from kapi.kubectl.postponed import postpone

        postpone()
        if command[0] == "create" and len(command) > 1 and not command[1].startswith("-"):
            _create_by_plugin(command)
        from kapi.kubectl.main import main as run_command

        run_command(command, policy, names)
    entry = ENTRIES.get(arguments[0]) if arguments else None
    if entry is not None and entry.program:
        module, _, function = entry.program.partition(":")
        getattr(importlib.import_module(module), function)(arguments[1:])
    _answer(arguments)
    # Ctrl-C ends the process at once until the reactor handles signals: an exception in the middle of an
    # import prints a traceback, or is lost
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kapi.tap import main as run

    run()


if __name__ == "__main__":
    main()
