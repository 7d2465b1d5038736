"""Parses flags as kubectl does, with its messages: long or short, anywhere among the arguments (upstream: ``spf13/pflag``).

Flags that are lists hold comma-separated values (upstream: Go's ``encoding/csv``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kapi.machinery.golang import parse_bool, parse_duration, parse_literal, quote

CHUNK_SIZE = 500  # objects of a page of a list, as usual
_BARE = 'bare " in non-quoted-field'
_UNBALANCED = 'extraneous or missing " in quoted-field'
Value = str | bool | int | float | list[str]
_ZERO: dict[str, Value] = {
    "bool": False,
    "string": "",
    "int": 0,
    "int32": 0,
    "duration": 0.0,
    "list": [],
    "pairs": [],
    "map": [],
    "array": [],
}


def read_record(text: str) -> list[str]:
    """The fields of the first line that is not empty.  Raises ValueError with the message of Go's reader."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    number = next((number for number, line in enumerate(lines) if line), None)
    if number is None:
        raise ValueError("EOF")
    start, line, place = number, lines[number], 0
    fields: list[str] = []
    while True:
        if line.startswith('"', place):
            parts: list[str] = []
            place += 1
            while True:
                quote = line.find('"', place)
                if quote < 0 and number + 1 < len(lines):  # a quoted field may continue in the next line
                    parts.append(line[place:] + "\n")
                    number += 1
                    line, place = lines[number], 0
                elif quote >= 0 and line.startswith('""', quote):
                    parts.append(line[place : quote + 1])
                    place = quote + 2
                elif quote >= 0 and line[quote + 1 : quote + 2] in ("", ","):
                    parts.append(line[place:quote])
                    break
                else:
                    raise _error(start, number, line if quote < 0 else line[:quote], _UNBALANCED)
            fields.append("".join(parts))
            end = quote + 1
        else:
            end = line.find(",", place)
            end = len(line) if end < 0 else end
            quote = line.find('"', place, end)
            if quote >= 0:
                raise _error(start, number, line[:quote], _BARE)
            fields.append(line[place:end])
        if end == len(line):
            return fields
        place = end + 1


def _error(start: int, number: int, before: str, problem: str) -> ValueError:
    """``before`` is the line up to the problem; columns are counted in bytes from 1."""
    record = "" if start == number else f"record on line {start + 1}; "
    return ValueError(f"{record}parse error on line {number + 1}, column {len(before.encode()) + 1}: {problem}")


class UsageError(Exception):
    """A command line that cannot be read."""


class Flag(NamedTuple):
    """``kind``: bool, string, int, int32, duration, list (comma-separated, may be repeated), pairs and map (lists of KEY=VALUE,
    as of pflag and of component-base) or array (may be repeated).

    ``no_opt_default`` is the value of a string flag that is given without one (pflag's NoOptDefVal).  ``deprecated``: what
    to do instead; such a flag is in no help.
    """

    name: str
    kind: str = "string"
    short: str = ""
    default: Value = ""
    no_opt_default: str = ""
    help: str = ""
    required: bool = False
    deprecated: str = ""


class Flags:
    """A parsed command line: ``flags.get_string("namespace")``, ``flags.given("watch")``, ``flags.arguments``."""

    def __init__(self, known: Iterable[Flag]) -> None:
        """``known`` are the flags beside ``GLOBAL``, which they come before."""
        own = {flag.name: flag for flag in known}
        self._known = {flag.name: flag for flag in GLOBAL} | own
        self._own = own.keys()
        self._short = {flag.short: flag for flag in self._known.values() if flag.short}
        self._values: dict[str, Value] = {}
        self.arguments: list[str] = []
        self.dash: int | None = None  # number of arguments before "--"
        self.as_given: list[str] = []  # the flags of the command line, as --NAME=VALUE
        self.warnings: list[str] = []  # about deprecated flags
        self._help = False

    def __getitem__(self, name: str) -> Value:
        """The value of a flag of any kind."""
        if name in self._values:
            return self._values[name]
        flag = self._known[name]
        return flag.default if flag.default != "" else _ZERO[flag.kind]

    def get_string(self, name: str) -> str:
        value = self[name]
        assert isinstance(value, str)
        return value

    def get_bool(self, name: str) -> bool:
        value = self[name]
        assert isinstance(value, bool)
        return value

    def get_int(self, name: str) -> int:
        value = self[name]
        assert isinstance(value, int)
        return value

    def get_duration(self, name: str) -> float:
        """The value in seconds."""
        value = self[name]
        assert isinstance(value, (int, float))
        return float(value)

    def get_list(self, name: str) -> list[str]:
        value = self[name]
        assert isinstance(value, list)
        return list(value)

    def get_global(self, name: str) -> str:
        """The value of a flag of ``GLOBAL``; "" where a flag of the command has its name."""
        return "" if name in self._own else self.get_string(name)

    def has(self, name: str) -> bool:
        """Whether the command has such a flag."""
        return name in self._known

    def given(self, name: str) -> bool:
        return name in self._values

    def set(self, name: str, value: Value) -> None:
        """Sets a flag as if it were given."""
        self._values[name] = value

    def parse(self, arguments: Sequence[str]) -> Flags:
        """Reads the arguments after the command's name.  Raises UsageError."""
        rest = list(arguments)
        while rest:
            argument = rest.pop(0)
            if argument == "--":
                self.dash = len(self.arguments)
                self.arguments += rest
                break
            if argument.startswith("-") and len(argument) > 1:
                rest.insert(0, argument)
                self.take(rest)
            else:
                self.arguments.append(argument)
        if self._help:
            raise UsageError("pflag: help requested")
        return self

    def missing(self) -> list[str]:
        """The required flags that are not given."""
        return sorted(flag.name for flag in self._known.values() if flag.required and flag.name not in self._values)

    def take(self, rest: list[str]) -> None:
        """Removes the first flag and its value from ``rest`` and stores them.  Raises UsageError."""
        argument = rest.pop(0)
        (self._long if argument.startswith("--") else self._shorts)(argument, rest)

    def _long(self, argument: str, rest: list[str]) -> None:
        name, equals, value = argument[2:].partition("=")
        flag = self._known.get(name)
        if not name or name[0] in "-=":
            raise UsageError(f"bad flag syntax: {argument}")
        if flag is None and name == "help":  # after all other problems
            self._help = True
            return
        if flag is None:
            raise UsageError(f"unknown flag: --{name}")
        if not equals:
            value = self._value(flag, rest, f"flag needs an argument: --{name}")
        self._set(flag, value)

    def _shorts(self, argument: str, rest: list[str]) -> None:
        letters = argument[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            flag = self._short.get(letter)
            if flag is None and letter == "h":
                self._help = True
                continue
            if flag is None:
                raise UsageError(f"unknown shorthand flag: '{letter}' in -{letter}{letters}")
            if flag.deprecated:
                self.warnings.append(f"Flag shorthand -{letter} has been deprecated, {flag.deprecated}")
            if letters.startswith("=") and len(letters) > 1:
                self._set(flag, letters[1:])
                return
            if flag.kind == "bool" or flag.no_opt_default:
                self._set(flag, flag.no_opt_default or "true")
            elif letters:
                self._set(flag, letters)
                return
            else:
                self._set(flag, self._value(flag, rest, f"flag needs an argument: '{letter}' in {argument}"))

    def _value(self, flag: Flag, rest: list[str], missing: str) -> str:
        if flag.kind == "bool":
            return "true"
        if flag.no_opt_default:
            return flag.no_opt_default
        if not rest:
            raise UsageError(missing)
        return rest.pop(0)

    def _set(self, flag: Flag, text: str) -> None:
        shown = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
        try:
            value = _READERS[flag.kind](text)
        except ValueError as error:
            raise UsageError(f'invalid argument "{text}" for "{shown}" flag: {error}') from None
        if flag.kind in ("list", "pairs", "map", "array"):
            before = self._values.get(flag.name)
            value = [*(before if isinstance(before, list) else ()), *(value if isinstance(value, list) else ())]
        self._values[flag.name] = value
        self.as_given.append(f"--{flag.name}={text}")
        if flag.deprecated:
            self.warnings.append(f"Flag --{flag.name} has been deprecated, {flag.deprecated}")


def _read_pairs(text: str) -> list[str]:
    """Raises ValueError."""
    pairs = read_record(text) if text.count("=") > 1 else [text.strip('"')]
    for pair in pairs:
        if "=" not in pair:
            raise ValueError(f"{pair} must be formatted as key=value")
    return pairs


def _read_map(text: str) -> list[str]:
    """Raises ValueError."""
    pairs = [pair.strip() for pair in text.split(",") if pair]
    if not all("=" in pair for pair in pairs):
        raise ValueError("malformed pair, expect string=string")
    return pairs


def _read_int32(text: str) -> int:
    """Raises ValueError."""
    value = parse_literal(text)
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return value


_READERS: dict[str, Callable[[str], Value]] = {
    "bool": parse_bool,
    "string": str,
    "int": parse_literal,
    "int32": _read_int32,
    "duration": parse_duration,
    "list": lambda text: read_record(text) if text else [],
    "pairs": _read_pairs,
    "map": _read_map,
    "array": lambda text: [text],
}

#: flags that are the same in several commands, by name
_SHARED = {flag.name: flag for flag in (
    Flag("all", "bool", help="All objects of the given types in the namespace."),
    Flag("all-namespaces", "bool", short="A", help="The objects of all namespaces; the namespace of the context is not used."),
    Flag("attach", "bool", help="Wait until the container runs, and join it; so by default with -i."),
    Flag("chunk-size", "int", default=CHUNK_SIZE, help="Lists are read in pages of so many objects; 0 reads them in one piece."),
    Flag("container", short="c", help="The container; without it, the annotated or the first one of the pod."),
    Flag("detach-keys", default="ctrl-p,ctrl-q", help="The keys that end the connection."),
    Flag("dry-run", no_opt_default="unchanged", default="none",
         help="none, client (only show what would be sent), or server (the server does all but store it)."),
    Flag("field-manager", help="The name of the owner of the fields that are written."),
    Flag("field-selector", help="Only objects with these fields: =, == and !=, for instance metadata.name=web."),
    Flag("filename", "list", short="f", help="Files, directories or URLs with the objects; - is standard input."),
    Flag("force", "bool", help="Delete at once, without waiting for the end of what runs; may lose data."),
    Flag("force-conflicts", "bool", help="Take fields over that belong to other managers (server-side)."),
    Flag("grace-period", "int", default=-1,
         help="The seconds that an object gets to end; negative for its own time, 0 only with --force."),
    Flag("ignore-not-found", "bool", help="An object that is not there is no error."),
    Flag("image-pull-policy", help="When the image is pulled: Always, IfNotPresent or Never."),
    Flag("kuberc", help="The file of preferences; KUBERC=off in the environment turns them off."),
    Flag("local", "bool", help="Work on the files alone, without a server."),
    Flag("no-headers", "bool", help="Print no line of headers."),
    Flag("output", short="o",
         help="The format: json, yaml, kyaml, name, wide, custom-columns, go-template or jsonpath, "
              "with -file for one in a file."),
    Flag("overwrite", "bool", default=True, help="Values that are there may be replaced."),
    Flag("pod-running-timeout", "duration", default=60.0, help="How long to wait until a pod runs, such as 5s, 2m or 3h."),
    Flag("prune", "bool", help="Delete objects that were applied before and that no file has any more."),
    Flag("prune-allowlist", "array", help="The kinds that --prune may delete, GROUP/VERSION/KIND; may be repeated."),
    Flag("quiet", "bool", short="q", help="Print no messages beside the output."),
    Flag("raw", help="A path on the server; the answer is printed as it comes."),
    Flag("record", "bool", deprecated="--record will be removed in the future",
         help="Keep the command in an annotation of the object."),
    Flag("recursive", "bool", short="R", help="Read the directories in -f with those below them."),
    Flag("resource-version", help="Only if the object has this resourceVersion."),
    Flag("save-config", "bool", help="Keep the object in its annotation, so that apply can be used with it later."),
    Flag("selector", short="l", help="Only objects with these labels: =, ==, !=, in, notin, for instance app=web."),
    Flag("server-side", "bool", help="Let the server merge the manifest (server-side apply)."),
    Flag("show-managed-fields", "bool", help="Keep the managedFields in JSON and YAML."),
    Flag("sort-by", help="Sort the list by a field, such as '{.metadata.name}'."),
    Flag("stdin", "bool", short="i", help="Pass standard input on."),
    Flag("subresource", help="The subresource that is meant, such as status or scale."),
    Flag("timeout", "duration", default=0.0, help="How long to wait, such as 1s, 2m or 3h; 0 decides by the object."),
    Flag("tty", "bool", short="t", help="Standard input is a terminal."),
    Flag("validate", no_opt_default="strict", default="strict",
         help="Fields that are unknown or given twice: strict (an error), warn or ignore."),
    Flag("wait", "bool", help="Wait until the objects are gone."),
    Flag("watch", "bool", short="w", help="Show the objects, then each change."),
)}  # fmt: skip


def like(name: str, *, default: Value) -> Flag:
    """A shared flag with another default."""
    return _SHARED[name]._replace(default=default)


def shared(names: str) -> tuple[Flag, ...]:
    """Shared flags, by their names."""
    return tuple(_SHARED[name] for name in names.split())


#: flags that every command has
GLOBAL = (
    Flag("kubeconfig", help="The kubeconfig file; before $KUBECONFIG and ~/.kube/config."),
    Flag("context", help="The context of the kubeconfig to use."),
    Flag("cluster", help="The cluster of the kubeconfig to use."),
    Flag("user", help="The user of the kubeconfig to use."),
    Flag("namespace", short="n", help="The namespace to work in."),
    Flag("server", short="s", help="The address of the server."),
    Flag("token", help="The bearer token."),
    Flag("tls-server-name", help="The name that the server's certificate is checked against."),
    Flag("insecure-skip-tls-verify", "bool", help="Accept any certificate of the server; the connection is not safe then."),
    Flag("certificate-authority", help="A file with the certificates that the server's is checked against."),
    Flag("client-certificate", help="A file with the client's certificate."),
    Flag("client-key", help="A file with the key of the client's certificate."),
    Flag("as", help="The user to act as: a name, or system:serviceaccount:NAMESPACE:NAME."),
    Flag("as-group", "array", help="A group to act as a member of; may be repeated."),
    Flag("as-uid", help="The UID to act with."),
    Flag("as-user-extra", "array", help="Extra fields of the user to act as, KEY=VALUE; may be repeated."),
    Flag("username", help="The name of basic authentication."),
    Flag("password", help="The password of basic authentication."),
    Flag("proxy-url", help="The proxy to connect through."),
    Flag("disable-compression", "bool", help="Ask for answers without compression, as is always done here."),
    Flag("cache-dir", help="Where discovery is kept between commands."),
    Flag("request-timeout", default="0", help="How long a request may take, such as 1s, 2m or 3h; 0 for no limit."),
    Flag("warnings-as-errors", "bool", help="A warning of the server ends the command with an error."),
    Flag("v", "int", short="v",
         help="How much is shown of requests: 6 answers, 7 their headers, 8 also headers and bodies of answers, "
              "9 curl commands."),
    Flag("vmodule", help="Has no effect: there are no log lines by file."),
    Flag("log-flush-frequency", "duration", default=5.0, help="Has no effect: messages are written at once."),
    Flag("match-server-version", "bool", help="Fail when client and server have different versions."),
    Flag("profile", default="none", help="none; Python's own profiler is python -m cProfile -m kapi."),
    Flag("profile-output", default="profile.pprof", help="Has no effect: no profiles are written."),
    *shared("kuberc"),
)  # fmt: skip
FILENAME = (
    *shared("filename recursive"),
    Flag("kustomize", short="k", help="A kustomization directory; not together with -f and -R."),
)
#: of commands that also look below directories, and know no kustomizations
FILES_BELOW = (*shared("filename"), like("recursive", default=True))
_TEMPLATES = (
    Flag("template", help="The template, or its file, of -o go-template, jsonpath and their -file forms."),
    Flag("allow-missing-template-keys", "bool", default=True,
         help="A field or key that is missing is no error in a template (go-template and jsonpath)."),
    *shared("show-managed-fields"),
)  # fmt: skip
PRINT = (*shared("output"), *_TEMPLATES)
PRINT_YAML = (like("output", default="yaml"), *_TEMPLATES)


def leading(arguments: Sequence[str]) -> int:
    """The number of arguments before the command's name, which are global flags and their values."""
    count = 0
    while count < len(arguments):
        flags, rest = Flags(()), list(arguments[count:])
        if not rest[0].startswith("-") or len(rest[0]) < 2 or rest[0] == "--":
            break
        try:
            flags.take(rest)
        except UsageError:
            break
        count = len(arguments) - len(rest)
    return count


def read_pairs(flags: Flags, name: str) -> tuple[dict[str, str], list[str]]:
    """The values of a flag of KEY=VALUE and KEY-: what to set, and what to remove.  Raises UsageError."""
    setting: dict[str, str] = {}
    removing: list[str] = []
    for text in flags.get_list(name):
        key, equals, value = text.partition("=")
        if key and equals:
            setting[key] = value
        elif text.endswith("-") and text != "-" and not equals:
            removing.append(text[:-1])
        else:
            raise UsageError(f"invalid {name} format: {text}")
    return setting, removing
