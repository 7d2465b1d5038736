"""``kapi completion bash|zsh|fish``: commands, their flags, and names of resources (upstream: kubectl ``cmd/completion``).

The scripts contain the commands and flags.  For resources they call ``kapi api-resources`` when TAB is pressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kapi.kubectl.command import Command, Help, load
from kapi.kubectl.commands import COMMANDS, ENTRIES
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import GLOBAL, Flag
from kapi.kubectl.messages import CommandError

FLAGS = ()
SHELLS = ("bash", "zsh", "fish")
_WITH_RESOURCES = (
    "get",
    "describe",
    "delete",
    "wait",
    "explain",
    "edit",
    "patch",
    "label",
    "annotate",
    "scale",
    "autoscale",
    "expose",
)

HELP = Help(
    "(bash | zsh | fish)",
    "Prints a script that completes commands, flags and resources in a shell. In bash and zsh\n"
    "source <(kapi completion bash) (or zsh) loads it into the shell.",
    (
        "Keep it for bash, with the package bash-completion",
        "completion bash > ~/.local/share/bash-completion/completions/kapi",
    ),
    ("Keep it for zsh", 'completion zsh > "${fpath[1]}/_kapi"'),
    ("Keep it for fish", "completion fish > ~/.config/fish/completions/kapi.fish"),
    ("Load it into this fish", "completion fish | source"),
)

#: candidates are lines of "word<TAB>description"; bash shows descriptions only when it lists several of them
_BASH = """# {program} completion for bash: source <({program} completion bash)
_{program}() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" path="" word lines="" line
    local place=1
    while [ "$place" -lt "$COMP_CWORD" ]; do
        word="${{COMP_WORDS[place]}}"
        case "$path/$word" in
            {paths}) path="$path/$word" ;;
        esac
        place=$((place + 1))
    done
    if [[ "$current" == -* ]]; then
        case "$path" in
{flags}
        esac
        lines+='
{everywhere}'
    else
        case "$path" in
{words}
            {resources}) lines="$({program} api-resources --cached -o name 2>/dev/null)" ;;
        esac
    fi
    COMPREPLY=()
    while IFS= read -r line; do
        [[ -n "$line" && "$line" == "$current"* ]] && COMPREPLY+=("$line")
    done <<< "$lines"
    if [ "${{#COMPREPLY[@]}}" -gt 1 ] && [ "$COMP_TYPE" = 63 ]; then
        COMPREPLY=("${{COMPREPLY[@]/$'\t'/  -- }}")
    else
        COMPREPLY=("${{COMPREPLY[@]%%$'\t'*}}")
    fi
}}
complete -o default -F _{program} {program}
"""
_ZSH = """#compdef {program}
# {program} completion for zsh: source <({program} completion zsh)
_{program}() {{
    local -a found lines
    local route="" place word line
    for (( place = 2; place < CURRENT; place++ )); do
        word="${{words[place]}}"
        case "$route/$word" in
            {paths}) route="$route/$word" ;;
        esac
    done
    if [[ "${{words[CURRENT]}}" == -* ]]; then
        case "$route" in
{flags}
        esac
        lines+='
{everywhere}'
    else
        case "$route" in
{words}
            {resources}) lines="$({program} api-resources --cached -o name 2>/dev/null)" ;;
        esac
    fi
    for line in "${{(@f)lines}}"; do
        [[ -n "$line" ]] && found+=("${{${{line//:/\\\\:}}/$'\t'/:}}")
    done
    if (( ${{#found}} )); then _describe {program} found; else _files; fi
}}
(( $+functions[compdef] )) && compdef _{program} {program}
[[ "${{funcstack[1]}}" = _{program} ]] && _{program}  # from a directory of fpath the first use loads this file
"""
#: word -> description
Words = dict[str, str]


async def run(factory: Factory, program: str) -> int:
    shells = factory.flags.arguments
    if len(shells) != 1:
        raise CommandError(
            "Shell not specified." if not shells else "Too many arguments. Expected only the shell type.",
            usage=f"{program} completion",
        )
    if shells[0] not in SHELLS:
        raise CommandError(f'Unsupported shell type "{shells[0]}".', usage=f"{program} completion")
    factory.out.write(script(shells[0], program))
    return 0


def _tree() -> dict[str, tuple[Words, Words]]:
    """For each path of commands, such as "/create/secret": the commands below it, and its flags."""
    found: dict[str, tuple[Words, Words]] = {"": ({name: entry.summary for name, entry in ENTRIES.items()}, {})}
    found[""][0]["help"] = "Show the help of a command"

    def add(path: str, command: Command) -> None:
        below = {one.name: one.summary for one in command.subcommands}
        found[path] = (below, _flags(command.flags))
        for one in command.subcommands:
            add(f"{path}/{one.name}", one)

    for name in COMMANDS:
        add(f"/{name}", load(name))
    return found


def _flags(flags: Iterable[Flag]) -> Words:
    return {f"--{flag.name}": flag.help for flag in sorted(flags, key=lambda flag: flag.name) if not flag.deprecated}


def script(shell: str, program: str) -> str:
    """The script for a shell."""
    tree = _tree()
    if shell == "fish":
        return _fish(program, tree)
    flags = "\n".join(_case(path, words) for path, (_, words) in tree.items() if words)
    words = "\n".join(_case(path, words) for path, (words, _) in tree.items() if words)
    return (_BASH if shell == "bash" else _ZSH).format(
        program=program,
        paths="|".join(path for path in tree if path),
        flags=flags,
        everywhere=_lines(_flags(GLOBAL)),
        words=words,
        resources="|".join(f"/{name}" for name in _WITH_RESOURCES),
    )


def _case(path: str, words: Words) -> str:
    return f"            {path or chr(34) * 2}) lines='{_lines(words)}' ;;"


def _lines(words: Words) -> str:
    return "\n".join(f"{word}\t{_quoted(text)}" for word, text in words.items())


def _quoted(text: str) -> str:
    """A text, escaped for single quotes of a shell."""
    return text.replace("'", "’")


def _fish(program: str, tree: Mapping[str, tuple[Words, Words]]) -> str:
    lines = [f"# {program} completion for fish: {program} completion fish | source", f"complete -c {program} -f"]
    for path, (words, flags) in tree.items():
        names = path.split("/")[1:]
        where = " and ".join(f"__fish_seen_subcommand_from {name}" for name in names) or "__fish_use_subcommand"
        start = f"complete -c {program} -n '{where.replace(' and ', '; and ')}'"
        lines += [f"{start} -a {word} -d '{_quoted(text)}'" for word, text in words.items()]
        lines += [f"{start} -l {flag[2:]} -d '{_quoted(text)}'" for flag, text in flags.items()]
        if len(names) == 1 and names[0] in _WITH_RESOURCES:
            lines.append(f"{start} -a '({program} api-resources --cached -o name 2>/dev/null)'")
    start = f"complete -c {program} -n 'not __fish_use_subcommand'"
    lines += [f"{start} -l {flag[2:]} -d '{_quoted(text)}'" for flag, text in _flags(GLOBAL).items()]
    return "\n".join(lines) + "\n"
