"""``kapi kuberc``: shows and changes preferences of the user (upstream: kubectl ``cmd/kuberc``)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kapi.kubectl.command import Command, Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import PRINT_YAML, Flag, Flags, shared
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.preferences import LATEST, Preferences, decode, entry_of, file_of
from kapi.kubectl.print_flags import printer_for
from kapi.machinery.golang import file_error, quote
from kapi.machinery.tree import Object

_KIND: Object = {"kind": "Preference", "apiVersion": LATEST}
_SECTIONS = ("defaults", "aliases", "credentialplugin")
_POLICIES = ("AllowAll", "DenyAll", "Allowlist")


def _own_file(factory: Factory) -> tuple[str, bool]:
    """The file of the commands below.  Raises CommandError."""
    file, named = file_of(factory.flags.get_string("kuberc"))
    if not file:
        raise CommandError("KUBERC is disabled via KUBERC=off environment variable")
    return file, named


def _tree(file: str) -> Object:
    """The file in the latest version, in the order of its type.  Raises CommandError and FileNotFoundError."""
    try:
        tree, _ = decode(file)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CommandError(f"error reading kuberc file: {file_error(error)}") from None
    except ValueError as error:
        raise CommandError(f"error reading kuberc file: {error}") from None
    if tree is None:
        return dict(_KIND)
    found = Preferences(tree)
    result: Object = {
        **_KIND,
        "defaults": [
            {"command": one["command"], "options": _written(one["options"])} for one in found.defaults
        ] or None,
        "aliases": [_alias(one) for one in found.aliases] or None,
    }  # fmt: skip
    return result | _policy(found.policy.kind, found.policy.allowed or ())


def _written(options: Sequence[tuple[str, str]]) -> list[Object] | None:
    return [{"name": name, "default": value} for name, value in options] or None


def _alias(entry: Object) -> Object:
    """Without empty fields."""
    found: Object = {"name": entry["name"], "command": entry["command"]}
    lists = {field: entry[field] for field in ("prependArgs", "appendArgs") if entry[field]}
    options = _written(entry["options"])
    return found | lists | ({"options": options} if options else {})


def _policy(kind: str, allowed: Sequence[str]) -> Object:
    entries = [{"command": one} for one in allowed]
    pairs = (("credentialPluginPolicy", kind), ("credentialPluginAllowlist", entries))
    return {field: value for field, value in pairs if value}


def _save(factory: Factory, tree: Object, file: str) -> None:
    from kapi.kubectl.printers.documents import YAMLPrinter

    fields = {"aliases": None, "defaults": None, **tree}
    try:
        os.makedirs(os.path.dirname(file) or ".", exist_ok=True)
        with open(file, "w") as opened:
            opened.write(YAMLPrinter().print(fields))
    except OSError as error:
        raise CommandError(f"failed to write kuberc file: {file_error(error)}") from None
    factory.out.write(f"Updated {file}\n")


async def _view(factory: Factory, program: str) -> int:
    file, named = _own_file(factory)
    try:
        tree = _tree(file)
    except FileNotFoundError:
        if named:
            raise CommandError(f"kuberc file not found at {file}") from None
        factory.out.write(
            f"kuberc file not found at {file}\n"
            "Would you like to generate a default kuberc file with recommended options? (y/N): "
        )
        factory.out.flush()
        if factory.stdin.readline().strip().lower() == "y":
            defaults = (("apply", "server-side"), ("delete", "interactive"))
            options = [{"command": name, "options": _written([(flag, "true")])} for name, flag in defaults]
            _save(factory, {**_KIND, "defaults": options}, file)
        return 0
    shown = {**tree, "defaults": tree.get("defaults") or [], "aliases": tree.get("aliases") or []}
    factory.out.write(printer_for(factory.flags, typed=True).print(shown))
    return 0


def _set_problem(flags: Flags) -> str:
    """What is wrong with the flags of ``set``."""
    section, policy = flags.get_string("section"), flags.get_string("policy")
    entries = flags.get_list("allowlist-entry")
    plugin = section == "credentialplugin"
    only = "--section=credentialplugin and --policy=Allowlist"
    checks: tuple[tuple[object, str], ...] = (
        (section not in _SECTIONS, f"--section must be {_either(_SECTIONS)}, got: {section}"),
        (section == "aliases" and not flags.get_string("name"), "--name is required when --section=aliases"),
        (section == "defaults" and flags.get_string("name"), "--name should not be specified when --section=defaults"),
        (
            section == "defaults" and (flags.get_list("prependarg") or flags.get_list("appendarg")),
            "--prependarg and --appendarg are only valid for --section=aliases",
        ),
        (
            not plugin and not flags.get_string("command"),
            "--command is required when --section=aliases or --section=defaults",
        ),
        (plugin and not policy, "--policy is required when --section=credentialplugin"),
        (plugin and policy not in _POLICIES, f" --policy must be  {_either(_POLICIES)}, got: {policy}"),
        (plugin and policy != "Allowlist" and entries, f"--allowlist-entry may only be used when {only}"),
        (plugin and policy == "Allowlist" and not entries, f"--allowlist-entry is required when {only}"),
    )
    return next((text for wrong, text in checks if wrong), "")


def _either(names: Sequence[str]) -> str:
    return f"{', '.join(map(quote, names[:-1]))}, or {quote(names[-1])}"


async def _set(factory: Factory, program: str) -> int:
    flags = factory.flags
    file, _ = _own_file(factory)
    if problem := _set_problem(flags):
        raise CommandError(problem)
    try:
        tree = _tree(file)
    except FileNotFoundError:
        tree = dict(_KIND)
    options = []
    for text in flags.get_list("option"):
        name, equals, value = text.partition("=")
        if not equals:
            raise CommandError(f"invalid option format {quote(text)}, expected flag=value")
        options.append((name.lstrip("-"), value))
    section = flags.get_string("section")
    if section == "credentialplugin":
        allowed = _allowed(flags.get_list("allowlist-entry"))
        before = [one["command"] for one in tree.get("credentialPluginAllowlist") or ()]
        tree |= _policy(flags.get_string("policy"), allowed or before)
    else:
        _put(flags, tree, section, options)
    _save(factory, tree, file)
    return 0


def _put(flags: Flags, tree: Object, section: str, options: list[tuple[str, str]]) -> None:
    """Adds the entry, or with ``--overwrite`` changes what the flags give of the one that is there.  Raises CommandError."""
    aliases = section == "aliases"
    key, name = ("name", flags.get_string("name")) if aliases else ("command", flags.get_string("command"))
    entries = list(tree.get(section) or ())
    place = next((place for place, one in enumerate(entries) if one[key] == name), None)
    if place is not None and not flags.get_bool("overwrite"):
        what = f"alias {quote(name)} already exists" if aliases else f"defaults for command {quote(name)} already exist"
        raise CommandError(f"{what}, use --overwrite to replace")
    before = entry_of(entries[place], "options") if place is not None else entry_of({}, "options")
    entry: Object = {
        "name": flags.get_string("name"),
        "command": flags.get_string("command"),
        "prependArgs": flags.get_list("prependarg") or before["prependArgs"],
        "appendArgs": flags.get_list("appendarg") or before["appendArgs"],
        "options": options or before["options"],
    }
    made = _alias(entry) if aliases else {"command": name, "options": _written(entry["options"])}
    if place is None:
        entries.append(made)
    else:
        entries[place] = made
    tree[section] = entries


def _allowed(texts: Sequence[str]) -> list[str]:
    """The programs of ``--allowlist-entry``.  Raises CommandError with all that is wrong."""
    problems, found = [], []
    for text in ",".join(texts).split(",") if texts else ():
        field, equals, value = text.partition("=")
        if not equals:
            problems.append(f"improperly formatted allowlist entry: {quote(text)}")
        elif field == "name":
            problems.append('allowlist entry field "name" is deprecated, use "command" instead')
        elif field != "command":
            problems.append(f"unrecognized allowlist entry field: {quote(field)}")
        elif not value.strip():
            problems.append(f"empty value in allowlist entry for field {quote(field)}")
        else:
            found.append(value)
    raise_errors([CommandError(one) for one in dict.fromkeys(problems)])
    return found


HELP = Help(
    "SUBCOMMAND",
    "Shows and changes preferences: defaults of flags, aliases of commands, and which credential plugins may run.\n"
    "They are in the file of --kuberc, of $KUBERC, or ~/.kube/kuberc; KUBERC=off turns them off.",
)
SUBCOMMANDS = (
    Command(
        "view", "Show the preferences", _view,
        Help("", "", ("Show them", "kuberc view"), ("Show those of a file in JSON", "kuberc view --kuberc=FILE -o json")),
        *PRINT_YAML, *shared("kuberc"),
    ),
    Command(
        "set", "Set preferences", _set,
        Help(
            "--section=SECTION [--command=COMMAND] [--option=FLAG=VALUE]", "",
            ("List with more columns", "kuberc set --section=defaults --command=get --option=output=wide"),
            ("Let getn list nodes", "kuberc set --section=aliases --name=getn --command=get --prependarg=nodes"),
            ("Let no credential plugin run", "kuberc set --section=credentialplugin --policy=DenyAll"),
        ),
        *shared("kuberc"),
        Flag("section", required=True, help="What is set: defaults, aliases or credentialplugin."),
        Flag("command", help='The command that gets defaults or an alias, such as get or "set env".'),
        Flag("name", help="The name of the alias."),
        Flag("policy", help="Which credential plugins may run: AllowAll, DenyAll or Allowlist."),
        Flag("option", "array", help="A flag of the command and its default, FLAG=VALUE; may be repeated."),
        Flag("prependarg", "array", help="An argument of the alias before those given to it; may be repeated."),
        Flag("appendarg", "array", help="An argument of the alias after those given to it; may be repeated."),
        Flag("allowlist-entry", "array", help="A plugin that may run, command=PROGRAM; may be repeated."),
        Flag("overwrite", "bool", help="An entry that is there may be replaced."),
    ),
)  # fmt: skip
