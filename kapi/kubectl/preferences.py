"""Preferences of the user: defaults of flags, aliases of commands, and which credential plugins may run.

Upstream: kubectl ``kuberc``, KEP-3104 (Separate kubectl user preferences from cluster configs).  ``kuberc.py`` has the commands
that show and change them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from kapi.client.exec_credential import PluginPolicy
from kapi.kubectl.command import Command, find, load
from kapi.kubectl.commands import COMMANDS, ENTRIES, client_command
from kapi.kubectl.flags import GLOBAL, Flag, Flags, UsageError, leading
from kapi.kubectl.messages import CommandError
from kapi.machinery.golang import file_error, quote
from kapi.machinery.tree import Object

_GROUP = "kubectl.config.k8s.io"
LATEST = f"{_GROUP}/v1beta1"
_NAMED = [{"name": str, "default": str}]


def _shape(defaults: str, options: str, **more: object) -> Object:
    arguments = {"prependArgs": [str], "appendArgs": [str]}
    return {
        "kind": str,
        "apiVersion": str,
        defaults: [{"command": str, options: _NAMED}],
        "aliases": [{"name": str, "command": str, options: _NAMED, **arguments}],
        **more,
    }


#: of the versions: the names of the fields that were renamed, and the shape of a file
_VERSIONS = {
    LATEST: (
        "defaults",
        "options",
        _shape(
            "defaults", "options", credentialPluginPolicy=str, credentialPluginAllowlist=[{"name": str, "command": str}]
        ),
    ),
    f"{_GROUP}/v1alpha1": ("overrides", "flags", _shape("overrides", "flags")),
}
_ALIAS = re.compile(r"[a-zA-Z]+")
_SHORTHANDS = re.compile(r"-[a-zA-Z]+")


def file_of(explicit: str) -> tuple[str, bool]:
    """The file, "" for none, and whether it is named.  Raises CommandError."""
    named = os.environ.get("KUBERC", "")
    if named == "off":
        if explicit:
            raise CommandError("disabling kuberc via KUBERC=off and passing kuberc flag are mutually exclusive")
        return "", False
    usual = os.path.join(os.path.expanduser("~"), ".kube", "kuberc")
    if explicit and explicit != usual:
        return explicit, True
    return (named, True) if named else (usual, bool(explicit))


class Preferences:
    """Of one file.  ``policy`` says which credential plugins may run.

    ``names`` has the command of the alias that was applied, and what its messages call it.
    """

    def __init__(self, tree: Object) -> None:
        defaults, options, _ = _VERSIONS[tree["apiVersion"]]
        self.defaults = [entry_of(one, options) for one in tree.get(defaults) or ()]
        self.aliases = [entry_of(one, options) for one in tree.get("aliases") or ()]
        allowed = tree.get("credentialPluginAllowlist")
        self.names: dict[str, str] = {}
        self.policy = PluginPolicy(
            tree.get("credentialPluginPolicy") or "",
            None
            if allowed is None
            else tuple((one or {}).get("command") or (one or {}).get("name") or "" for one in allowed),
        )

    def check(self) -> None:
        """Raises CommandError."""
        seen = set()
        for alias in self.aliases:
            if not _ALIAS.fullmatch(alias["name"]):
                raise CommandError("invalid alias name, can only include alphabetical characters")
            _check_options(alias)
            if alias["name"] in seen:
                raise CommandError(f"duplicate alias name {alias['name']}")
            seen.add(alias["name"])
        for default in self.defaults:
            _check_options(default)
        if problem := self.policy.problem():
            raise CommandError(problem)

    def apply(self, arguments: list[str], program: str, err: TextIO) -> list[str]:
        """The command line of kapi's own commands.  Raises CommandError."""
        line = client_command(arguments)
        if line is None:
            return self._expanded(arguments, program, err)
        return self._with_defaults(line, arguments, err)

    def _with_defaults(self, line: list[str], arguments: list[str], err: TextIO) -> list[str]:
        path, command, rest = find(load(line[0]), line[1:])
        given: list[str] = []
        for default in self._defaults_of(command.name, "", err):
            named = default["command"]
            given += _options(
                command, default, arguments, ("flag", f"for command {named}"), ("override value", f"in command {named}")
            )
        return [*path.split(), *given, *rest]

    def _defaults_of(self, name: str, alias: str, err: TextIO) -> Iterator[Object]:
        """The entries for commands that have the name, or are the alias."""
        for default in self.defaults:
            words = default["command"].split()
            if words and words[0] != alias and words[0] not in COMMANDS:
                err.write(f"Warning: command {quote(default['command'])} not found to set kuberc override\n")
            elif words and name == (alias if words[0] == alias else find(load(words[0]), words[1:])[1].name):
                yield default

    def _expanded(self, arguments: list[str], program: str, err: TextIO) -> list[str]:
        """The command of an alias; the arguments as they are, when there is none."""
        place = leading(arguments)
        name = arguments[place] if place < len(arguments) else ""
        alias = next((one for one in self.aliases if one["name"] == name), None)
        if alias is None or name in ENTRIES or name == "help":
            return arguments
        words = alias["command"].split()
        if not words or words[0] not in COMMANDS:
            shown = " ".join(words)
            raise CommandError(f"command {quote(alias['command'])} not found to set alias {quote(name)}: [{shown}]")
        path, command, _ = find(load(words[0]), words[1:])
        where = f"in alias {program}"
        given = _options(command, alias, arguments, ("alias flag", where), ("value", where))
        if any(self._defaults_of(name, name, err)):
            raise CommandError(f"alias {name} can not be overridden")
        self.names[path] = name
        before, after = arguments[:place], arguments[place + 1 :]
        return [*path.split(), *given, *before, *alias["prependArgs"], *after, *alias["appendArgs"]]


def entry_of(entry: Object, options: str) -> Object:
    """With all fields; the options are pairs of name and default."""
    entry = entry or {}
    pairs = [((one or {}).get("name") or "", (one or {}).get("default") or "") for one in entry.get(options) or ()]
    texts = {field: entry.get(field) or "" for field in ("name", "command")}
    lists = {field: [one or "" for one in entry.get(field) or ()] for field in ("prependArgs", "appendArgs")}
    return {**texts, **lists, "options": pairs}


def _check_options(entry: Object) -> None:
    for name, _ in entry["options"]:
        if name.startswith("-"):
            raise CommandError(f"flag name {name} should be in long form without dashes")


def _flag(command: Command, name: str) -> Flag | None:
    return next((one for one in (*command.flags, *GLOBAL) if one.name == name), None)


def _is_given(flag: Flag, arguments: Sequence[str]) -> bool:
    """Whether a command line sets the flag; letters after a dash may all be flags."""
    for argument in arguments:
        if argument == f"--{flag.name}" or argument.startswith(f"--{flag.name}="):
            return True
        if flag.short and (
            argument.startswith(f"-{flag.short}") or _SHORTHANDS.fullmatch(argument) and flag.short in argument
        ):
            return True
    return False


def _options(
    command: Command, entry: Object, arguments: Sequence[str], unknown: tuple[str, str], wrong: tuple[str, str]
) -> list[str]:
    """The arguments that set the flags of an entry which the command line does not set.

    Raises CommandError for a flag that the command does not have, and for a value that the flag cannot have.  ``unknown`` and
    ``wrong`` are what the two errors call the flag or its value, and where it stands.
    """
    found = []
    for name, value in entry["options"]:
        flag = _flag(command, name)
        if flag is None:
            raise CommandError(f"invalid {unknown[0]} {name} {unknown[1]}")
        if _is_given(flag, arguments):
            continue
        argument = f"--{flag.name}={value}"
        try:
            Flags((flag,)).parse([argument])
        except UsageError as error:
            raise CommandError(f"could not apply {wrong[0]} {value} to flag {name} {wrong[1]} err: {error}") from None
        found.append(argument)
    return found


def applied(
    arguments: list[str], program: str, err: TextIO
) -> tuple[list[str], PluginPolicy | None, Mapping[str, str]]:
    """The command line with the user's preferences, the policy for credential plugins, and names of commands in messages.

    Raises CommandError.
    """
    preferences = _read(_explicit(arguments), err)
    if preferences is None:
        return arguments, None, {}
    preferences.check()
    return preferences.apply(arguments, program, err), preferences.policy, preferences.names


def _explicit(arguments: Sequence[str]) -> str:
    """The file of ``--kuberc``, which is looked for before the command is known.  Raises CommandError."""
    for place, argument in enumerate(arguments):
        found = None
        if argument == "--":
            break
        if argument == "--kuberc":
            found = arguments[place + 1] if place + 1 < len(arguments) else ""
        elif "--kuberc=" in argument:
            found = argument.split("=")[1]
        if found:
            return found
        if found is not None:
            raise CommandError("kuberc file is not found")
    return ""


def _read(explicit: str, err: TextIO) -> Preferences | None:
    """Raises CommandError for a file that is named and cannot be used; another one is only told of."""
    try:
        file, named = file_of(explicit)
    except CommandError as error:
        raise CommandError(f"kuberc error {error}") from None
    if not file:
        return None
    try:
        tree, problems = decode(file)
    except FileNotFoundError as error:
        if not named:
            return None
        raise CommandError(f"kuberc error kuberc: {file_error(error)}") from None
    except (OSError, ValueError) as error:
        why = file_error(error) if isinstance(error, OSError) else str(error)
        if named:
            raise CommandError(f"kuberc error kuberc: {why}") from None
        err.write(f"kuberc: no preferences loaded from {file}: {why}")
        return None
    if tree is None:
        return None
    if problems:
        err.write(f"kuberc: ignoring strict decoding error in {file}: strict decoding error: {', '.join(problems)}")
    return Preferences(tree)


def decode(file: str) -> tuple[Object | None, list[str]]:
    """The first document that has preferences, and what is unknown in it.  Raises OSError and ValueError."""
    from kapi.codecs import yaml_reading
    from kapi.kubectl.visitor import parts
    from kapi.machinery.shape import shape_errors

    with open(file, "rb") as opened:
        documents = [part for part in parts(opened.read()) if part.strip()]
    for document in documents:
        try:
            tree, duplicates = yaml_reading.loads(document, math.inf)
        except ValueError:
            continue
        if not isinstance(tree, dict) or tree.get("kind") != "Preference" or tree.get("apiVersion") not in _VERSIONS:
            continue
        wrong, unknown = shape_errors(tree, _VERSIONS[tree["apiVersion"]][2])
        names = [one for one in tree.get("credentialPluginAllowlist") or () if isinstance(one, dict)]
        if wrong or any(one.get("name") and one.get("command") not in (None, "", one["name"]) for one in names):
            continue
        found = ["yaml: unmarshal errors:\n  " + "\n  ".join(duplicates)] if duplicates else []
        return tree, found + unknown
    if documents:
        raise ValueError(f"no valid preferences found in {file}, use --v=5 to see details")
    return None, []
