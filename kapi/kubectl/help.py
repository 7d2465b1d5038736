"""Help texts: of ``kapi`` and of each client command; ``kapi options`` (upstream: kubectl ``cmd/options``).

Upstream: kubectl ``util/templates``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kapi.kubectl.command import Command, Help
from kapi.kubectl.commands import ENTRIES, GROUPS
from kapi.kubectl.flags import GLOBAL, Flag, Value
from kapi.machinery.golang import duration_text

if TYPE_CHECKING:
    from kapi.kubectl.factory import Factory

_WIDTH = 112
_GLOBAL = 'Use "{0} options" for the flags that all client commands have.\n'


def overview(program: str) -> str:
    """The help of the program: its commands by group."""
    text = (
        f"{program} is a Kubernetes API server, and a client of one with kubectl's commands.\n\n"
        f"Usage: {program} [flags]             (starts the server; {program} --help-server lists its flags)\n"
        f"       {program} <command> [flags]\n"
    )
    width = max(map(len, ENTRIES)) + 3
    for title, entries in GROUPS.items():
        text += f"\n{title}:\n" + "".join(f"  {entry.name:<{width}}{entry.summary}\n" for entry in entries)
    return text + f'\nUse "{program} <command> --help" for more about a command.\n' + _GLOBAL.format(program)


def command_help(program: str, path: str, command: Command) -> str:
    """The help of a client command; ``path`` is its name with those above it."""
    described = command.help
    parts = [f"{described.description or command.summary + '.'}\n"]
    if described.examples:
        lines = [f"  # {what}\n  {program} {line}\n" for what, line in described.examples]
        parts.append("Examples:\n" + "\n".join(lines))
    if command.subcommands:
        width = max(len(one.name) for one in command.subcommands) + 3
        parts.append(
            "Available Commands:\n"
            + "".join(f"  {one.name:<{width}}{one.summary}\n" for one in sorted(command.subcommands, key=_name))
        )
    if any(not flag.deprecated for flag in command.flags):
        parts.append("Options:\n" + flag_lines(command.flags))
    usage = described.usage or ("SUBCOMMAND" if command.subcommands else "")
    parts.append("Usage:\n  " + " ".join(filter(None, (program, path, usage, "[options]"))) + "\n")
    end = f'Use "{program} {path} <command> --help" for more about a command.\n' if command.subcommands else ""
    return "\n".join(parts) + "\n" + end + _GLOBAL.format(program)


def _name(command: Command) -> str:
    return command.name


def flag_lines(flags: Iterable[Flag]) -> str:
    """Each flag with its default and description."""
    return "\n".join(_flag(flag) for flag in sorted(flags, key=lambda flag: flag.name) if not flag.deprecated)


def _flag(flag: Flag) -> str:
    short = f"-{flag.short}, " if flag.short else ""
    lines = textwrap.wrap(flag.help, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return f"    {short}--{flag.name}={_default(flag)}:\n" + "".join(f"        {line}\n" for line in lines)


def _default(flag: Flag) -> str:
    default: Value = flag.default
    match flag.kind:
        case "bool":
            return "true" if default else "false"
        case "int" | "int32":
            return str(default or 0)
        case "duration":
            return duration_text(float(default) if isinstance(default, int | float) else 0.0)
        case "list" | "pairs" | "map" | "array":
            return f"[{','.join(default)}]" if isinstance(default, Sequence) else "[]"
    return f"'{default}'"


async def _run_options(factory: Factory, program: str) -> int:
    factory.out.write("These flags may be given with each client command:\n\n" + flag_lines(GLOBAL))
    return 0


_OPTIONS_HELP = Help("", "Lists the flags that may be given with each client command.", ("Show them", "options"))
NEIGHBOURS = {"options": Command("options", ENTRIES["options"].summary, _run_options, help=_OPTIONS_HELP)}
