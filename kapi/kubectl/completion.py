"""``kapi completion bash|zsh|fish``: commands, their flags, and names of resources (upstream: kubectl ``cmd/completion``).

The scripts contain the commands and flags.  For resources they call ``kapi api-resources`` when TAB is pressed.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence

from kapi.kubectl.commands import COMMANDS, module_of
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import GLOBAL
from kapi.kubectl.messages import CommandError

FLAGS = ()
SHELLS = ("bash", "zsh", "fish")
_WITH_RESOURCES = ("get", "delete", "wait", "explain")

_BASH = """# {program} completion for bash: source <({program} completion bash)
_{program}() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    elif [[ "$current" == -* ]]; then
        case "$command" in
{cases}
        esac
    else
        case "$command" in
            {resources}) words="$({program} api-resources --cached -o name 2>/dev/null)" ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _{program} {program}
"""
_ZSH = """#compdef {program}
# {program} completion for zsh: source <({program} completion zsh)
autoload -Uz bashcompinit && bashcompinit
"""


async def run(factory: Factory, program: str) -> int:
    shells = factory.flags.arguments
    if len(shells) != 1:
        raise CommandError(
            "Shell not specified." if not shells else "Too many arguments. Expected only the shell type."
        )
    if shells[0] not in SHELLS:
        raise CommandError(f'Unsupported shell type "{shells[0]}".')
    flags = {name: [*_flags_of(name), *(f"--{flag.name}" for flag in GLOBAL)] for name in COMMANDS}
    factory.out.write(script(shells[0], program, flags))
    return 0


def _flags_of(command: str) -> list[str]:
    return sorted(f"--{flag.name}" for flag in importlib.import_module(module_of(command)).FLAGS)


def script(shell: str, program: str, flags: Mapping[str, Sequence[str]]) -> str:
    """The script for a shell; ``flags`` are those of each command."""
    if shell == "fish":
        return _fish(program, flags)
    cases = "\n".join(f'            {name}) words="{" ".join(known)}" ;;' for name, known in flags.items())
    text = _BASH.format(
        program=program, commands=" ".join(flags), cases=cases, resources="|".join(_WITH_RESOURCES)
    )  # fmt: skip
    return text if shell == "bash" else _ZSH.format(program=program) + text


def _fish(program: str, flags: Mapping[str, Sequence[str]]) -> str:
    lines = [f"# {program} completion for fish: {program} completion fish | source"]
    lines.append(f"complete -c {program} -n __fish_use_subcommand -f -a '{' '.join(flags)}'")
    for name, known in flags.items():
        seen = f"'__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c {program} -n {seen} -l {flag[2:]}" for flag in known]
        if name in _WITH_RESOURCES:
            lines.append(
                f"complete -c {program} -n {seen} -f -a '({program} api-resources --cached -o name 2>/dev/null)'"
            )
    return "\n".join(lines) + "\n"
