"""The interface of commands, and the search for the command of a command line (upstream: ``spf13/cobra``).

A client command is a module with ``FLAGS`` and ``run``.  ``HELP`` describes it, ``SUBCOMMANDS`` are the commands below it, and
``FAILURE`` is the exit code of an error, where that is not 1.  ``NEIGHBOURS`` are further commands of the module, by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

from kapi.kubectl.commands import ENTRIES, module_of
from kapi.kubectl.flags import GLOBAL, Flag

if TYPE_CHECKING:
    from kapi.kubectl.factory import Factory

#: runs a command; gets the program's name, returns the exit code
Run = Callable[["Factory", str], Awaitable[int]]
MAX_DISTANCE = 2  # edits between a word and the names that are suggested for it


class Help:
    """``usage`` is the text after the name, such as "(-f FILENAME | TYPE NAME)".

    ``examples``: a description of each, and its command line without the program's name.
    """

    def __init__(self, usage: str = "", description: str = "", *examples: tuple[str, str]) -> None:
        self.usage, self.description, self.examples = usage, description, examples


_NO_HELP = Help()


class Command:
    """Without ``run`` it is only a group of subcommands, and shows its help.  ``failure`` is the exit code of an error."""

    def __init__(
        self, name: str, summary: str, run: Run | None = None, help: Help = _NO_HELP, *flags: Flag,
        subcommands: tuple[Command, ...] = (), aliases: tuple[str, ...] = (), failure: int = 1,
    ) -> None:  # fmt: skip
        self.name, self.summary, self.run, self.help, self.flags = name, summary, run, help, flags
        self.subcommands, self.aliases, self.failure = subcommands, aliases, failure


def load(name: str) -> Command:
    """The client command of this name, from its module."""
    module = importlib.import_module(module_of(name))
    if name in getattr(module, "NEIGHBOURS", {}):
        return cast(Command, module.NEIGHBOURS[name])
    return Command(
        name,
        ENTRIES[name].summary,
        getattr(module, "run", None),
        getattr(module, "HELP", _NO_HELP),
        *getattr(module, "FLAGS", ()),
        subcommands=tuple(getattr(module, "SUBCOMMANDS", ())),
        failure=getattr(module, "FAILURE", 1),
    )


def find(command: Command, arguments: Sequence[str]) -> tuple[str, Command, list[str]]:
    """The subcommand that the arguments name, with its path, such as "create secret tls", and the other arguments."""
    path, rest = command.name, list(arguments)
    while command.subcommands:
        place = _first_word(rest, (*command.flags, *GLOBAL))
        below = None if place is None else _named(command.subcommands, rest[place])
        if place is None or below is None:
            break
        del rest[place]
        command, path = below, f"{path} {below.name}"
    return path, command, rest


def _named(commands: Iterable[Command], name: str) -> Command | None:
    return next((one for one in commands if name == one.name or name in one.aliases), None)


def _first_word(arguments: Sequence[str], known: Iterable[Flag]) -> int | None:
    """The index of the first argument that is neither a flag nor a flag's value."""
    alone = {flag.name for flag in known if flag.kind == "bool" or flag.no_opt_default}
    alone_short = {flag.short for flag in known if flag.short and (flag.kind == "bool" or flag.no_opt_default)}
    alone, alone_short = alone | {"help"}, alone_short | {"h"}
    place = 0
    while place < len(arguments):
        argument = arguments[place]
        if argument == "--":
            return None
        if argument.startswith("--"):
            place += 1 if "=" in argument or argument[2:] in alone else 2
        elif argument.startswith("-") and len(argument) > 1:
            place += 2 if len(argument) == 2 and argument[1] not in alone_short else 1
        else:
            return place
    return None


def _distance(one: str, other: str) -> int:
    """The Levenshtein distance."""
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, 1):
        before, row[0] = row[0], number
        for place, match in enumerate(other, 1):
            before, row[place] = (
                row[place],
                before if letter == match else 1 + min(before, row[place], row[place - 1]),
            )
    return row[-1]


#: other programs' words for a command (upstream: ``SuggestFor``)
_ALSO_MEANT = {"delete": ("rm", "remove"), "describe": ("inspect",), "get": ("list", "ls"), "top": ("stats",)}


def unknown_command(word: str, program: str) -> str:
    """The message for an unknown command."""
    text = f'error: unknown command "{word}" for "{program}"\n'
    lower = word.lower()
    meant = [
        name
        for name in ENTRIES
        if _distance(lower, name) <= MAX_DISTANCE or name.startswith(lower) or lower in _ALSO_MEANT.get(name, ())
    ]
    if meant:
        text += "\nDid you mean this?\n" + "".join(f"\t{name}\n" for name in meant)
    return text
