"""Help of ``kapi`` and of its commands, words that are no command, completion: all from one list of commands."""

from __future__ import annotations

import io
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapi import __main__
from kapi.kubectl.command import Command, find, load, unknown_command
from kapi.kubectl.commands import COMMANDS, ENTRIES, GROUPS
from kapi.kubectl.completion import script
from kapi.kubectl.flags import GLOBAL, Flags
from kapi.kubectl.help import command_help, overview
from kapi.kubectl.main import help_of
from tests import fork_server


def below(path: str, command: Command) -> Iterator[tuple[str, Command]]:
    yield path, command
    for one in command.subcommands:
        yield from below(f"{path} {one.name}", one)


TREE = dict(pair for name in COMMANDS for pair in below(name, load(name)))


def asked(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        __main__._answer(arguments)
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def test_the_overview_names_all_commands_by_group() -> None:
    text = overview("kapi")
    for title, entries in GROUPS.items():
        part = text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in part.splitlines()] == [entry.name for entry in entries]
    assert "--help-server" in text
    assert len(text.splitlines()) < 100


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"]])
def test_the_overview_is_asked_for(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(arguments, capsys) == (0, overview("kapi"), "")


def test_help_of_a_command_and_of_one_that_is_not_there() -> None:
    assert help_of(["get"]) == command_help("kapi", "get", load("get"))
    assert help_of(["gett"]) == "Unknown help topic [`gett`]\n\n" + overview("kapi")
    assert "envtest-assets --help" in help_of(["envtest-assets"])


def test_a_word_that_is_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = asked(["gett", "pods"], capsys)
    assert (code, out) == (1, "")
    start, _, meant = err.partition("\n\nDid you mean this?\n")
    assert start == 'error: unknown command "gett" for "kapi"'
    assert "\tget\n" in meant
    assert asked(["zzzzzz"], capsys) == (1, "", 'error: unknown command "zzzzzz" for "kapi"\n')


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("gett", ["set", "get"]),
        ("CORD", ["cordon"]),
        ("creat", ["create"]),
        ("list", ["get"]),
        ("remove", ["delete"]),
        ("Inspect", ["describe"]),
        ("stats", ["top"]),
    ],
)
def test_commands_are_suggested_that_are_near_or_begin_so_or_have_other_names(word: str, meant: list[str]) -> None:
    lines = "".join(f"\t{name}\n" for name in meant)
    assert unknown_command(word, "kapi") == f'error: unknown command "{word}" for "kapi"\n\nDid you mean this?\n{lines}'


@pytest.mark.parametrize("path", TREE)
def test_each_command_describes_itself(path: str) -> None:
    command = TREE[path]
    assert command.summary and not command.summary.endswith(".")
    assert command.run is not None or command.subcommands
    text = command_help("kapi", path, command)
    assert f"\n  kapi {path} " in text.partition("Usage:")[2]
    assert [flag.name for flag in (*command.flags, *GLOBAL) if not flag.help] == []
    if command.run is not None:
        assert command.help.examples, "an example is missing"


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.program])
def test_each_program_shows_an_example_of_itself(name: str) -> None:
    done = fork_server.run([name, "--help"])
    assert done.returncode == 0
    assert f"kapi {name} " in done.stdout.partition("Example")[2]


@pytest.mark.parametrize("path", TREE)
def test_examples_can_be_run(path: str) -> None:
    """Each is a command line of its own command, with flags that this has."""
    for _, line in TREE[path].help.examples:
        words = shlex.split(line.partition(" | ")[0].partition(" < ")[0].partition(" > ")[0])
        found, command, rest = find(load(words[0]), words[1:])
        assert found == path or found.startswith(f"{path} ")
        assert Flags(command.flags).parse(rest).missing() == []


@pytest.mark.parametrize(
    ("line", "path", "rest"),
    [
        ("get pods", "get", "pods"),
        ("config -n x view", "config view", "-n x"),
        ("config --minify=true", "config", "--minify=true"),
        ("config nothing view", "config", "nothing view"),
        ("config -- view", "config", "-- view"),
    ],
)
def test_subcommands_are_found_among_flags(line: str, path: str, rest: str) -> None:
    view = Command("view", "Show")
    commands = {"get": Command("get", "Get"), "config": Command("config", "Config", subcommands=(view,))}
    first, *words = line.split()
    found, _, left = find(commands[first], words)
    assert (found, " ".join(left)) == (path, rest)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_all_commands_with_descriptions(shell: str) -> None:
    text = script(shell, "kapi")
    for name, entry in ENTRIES.items():
        assert name in text
        assert entry.summary.replace("'", "’") in text


def bash(line: str, type_: int = 9) -> list[str]:
    path = shutil.which("bash")
    if path is None:
        pytest.skip("no bash")
    words = line.split(" ")
    ask = f"COMP_WORDS=({line}) COMP_CWORD={len(words) - 1} COMP_TYPE={type_}; _kapi; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run([path, "-c", f"{script('bash', 'kapi')}\n{ask}"], text=True, capture_output=True, check=True)
    return done.stdout.splitlines()


def test_bash_completes_commands_and_flags() -> None:
    assert bash("kapi envtest") == ["envtest-assets"]
    assert bash("kapi get --show-l") == ["--show-labels"]
    assert bash("kapi api-", 63) == [
        f"{name}  -- {ENTRIES[name].summary}" for name in ("api-resources", "api-versions")
    ]


def test_zsh_completes_at_the_first_key() -> None:
    """From a directory of ``fpath`` the file is the function, which has to complete itself when it is loaded."""
    text = script("zsh", "kapi")
    path = shutil.which("zsh")
    assert text.startswith("#compdef kapi\n") and '"${funcstack[1]}" = _kapi' in text
    if path is not None:
        ask = (
            "_describe() { print -l -- ${(P)2} }; words=(kapi envtest); CURRENT=2; fpath=($PWD); autoload _kapi; _kapi"
        )
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "_kapi").write_text(text)
            done = subprocess.run([path, "-f", "-c", ask], cwd=directory, text=True, capture_output=True, check=True)
        assert any(line.startswith("envtest-assets:") for line in done.stdout.splitlines())


def test_the_programs_of_the_list_exist() -> None:
    import importlib

    for entry in ENTRIES.values():
        if entry.program:
            module, _, function = entry.program.partition(":")
            assert callable(getattr(importlib.import_module(module), function))


def test_options_lists_the_flags_of_all_commands() -> None:
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred

    from kapi.kubectl.main import run

    out = io.StringIO()
    codes: list[int] = []
    Deferred.fromCoroutine(run(["options"], reactor, out, out)).addCallback(codes.append)  # type: ignore[arg-type]
    assert codes == [0]
    assert all(f"--{flag.name}=" in out.getvalue() for flag in GLOBAL)
