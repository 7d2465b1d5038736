"""The plugins of kubectl on the path: programs for further commands (upstream: kubectl ``cmd/plugin``)."""

from __future__ import annotations

import os
import shutil
from itertools import takewhile

from kapi.kubectl.command import Command, Help
from kapi.kubectl.commands import COMMANDS
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.messages import CommandError

_PREFIX = "kubectl-"


def run_plugin(arguments: list[str], least: int = 1) -> None:
    """Becomes the program of a command that is not built in, if the path has one.

    The longest name is taken; ``least`` words belong to it at least (upstream: kubectl ``cmd.HandlePluginCommand``).
    """
    words = list(takewhile(lambda argument: not argument.startswith("-"), arguments))
    for count in range(len(words), least - 1, -1):
        name = _PREFIX + "-".join(word.replace("-", "_") for word in words[:count])
        if path := shutil.which(name):
            os.execv(path, [path, *arguments[count:]])


async def _list(factory: Factory, program: str) -> int:
    flags = factory.flags
    found: list[str] = []
    for directory in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)):
        if not directory.strip():
            continue
        try:
            with os.scandir(directory) as entries:
                names = sorted(entry.name for entry in entries if not entry.is_dir(follow_symlinks=False))
        except OSError as error:
            problem = f"open {directory}: {str(error.strerror).lower()}"
            factory.err.write(f'Unable to read directory "{directory}" from your PATH: {problem}. Skipping...\n')
            continue
        found += [os.path.join(directory, name) for name in names if name.startswith(_PREFIX)]
    if not found:
        raise CommandError("unable to find any kubectl plugins in your PATH")
    factory.out.write("The following compatible plugins are available:\n\n")
    seen: dict[str, str] = {}
    warnings = 0
    for path in found:
        name = os.path.basename(path)
        factory.out.write(f"{name if flags.get_bool('name-only') else path}\n")
        for problem in _problems(path, name, seen, program):
            factory.err.write(f"  - {problem}\n")
            warnings += 1
        seen.setdefault(name, path)
    if warnings:
        many = "warnings were" if warnings > 1 else "warning was"
        raise CommandError(f"{'one' if warnings == 1 else warnings} plugin {many} found")
    return 0


def _problems(path: str, name: str, seen: dict[str, str], program: str) -> list[str]:
    problems = []
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        problems.append(f"warning: {path} identified as a kubectl plugin, but it is not executable")
    if name in seen:
        problems.append(f"warning: {path} is overshadowed by a similarly named plugin: {seen[name]}")
    command = name.split("-")[1]
    if command in COMMANDS:
        problems.append(f'warning: {name} overwrites existing command: "{program} {command}"')
    return problems


HELP = Help("SUBCOMMAND", "Finds plugins of kubectl.")
SUBCOMMANDS = (
    Command(
        "list", "List the plugins on the path", _list,
        Help("", "Lists the programs on the path whose names begin with kubectl-.", ("List them", "plugin list")),
        Flag("name-only", "bool", help="Print names instead of paths."),
    ),
)  # fmt: skip
