"""Command-line flags as Kubernetes servers read them (upstream: component-base ``cli/flag``, pflag).

``--flag=value`` and ``--flag value``; a bool stands alone or takes ``=true``/``=false``.  Parsing collects every error
instead of stopping at the first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar, cast

import msgspec

from kapi.machinery import golang
from kapi.machinery.netip import parse_ip

Parsed = TypeVar("Parsed")


class FlagError(ValueError):
    """An invalid value of a flag; ``str(error)`` says why."""


def _as_flag(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """A parser that raises FlagError with Go's message."""

    @functools.wraps(parse)
    def read(text: str) -> Parsed:
        try:
            return parse(text)
        except ValueError as error:
            raise FlagError(str(error)) from None

    return read


#: parsers: seconds of a Go duration such as ``1h30m``; a 64-bit number, a float64 and a bool as in Go's ``strconv``
duration = _as_flag(golang.parse_duration)
integer = _as_flag(golang.parse_literal)
number = _as_flag(golang.parse_float)
boolean = _as_flag(golang.parse_bool)


def string(text: str) -> str:
    return text


def ip_address(text: str) -> str:
    """An IP address in its canonical form; as with Go's ``net.ParseIP``, without a zone."""
    address = parse_ip(text.strip())
    if address is None:
        raise FlagError(f'failed to parse IP: "{text}"')
    return str(address)


def port_range(text: str) -> tuple[int, int]:
    """``base-last``, ``base+size`` or one port, as (first, last); (0, 0) for "" (apimachinery ``net.PortRange``)."""
    text = text.strip()
    if not text:
        return 0, 0
    if "-" in text and "+" in text:
        raise FlagError(f"unable to parse port range: {text}")
    first, mark, rest = text.partition("+" if "+" in text else "-")
    low = high = _decimal(first)
    if mark:
        high = _decimal(rest) if mark == "-" else low + _decimal(rest)
    if max(low, high) > 65535:
        raise FlagError(f"the port range cannot be greater than 65535: {text}")
    if high < low:
        raise FlagError(f"end port cannot be less than start port: {text}")
    return low, high


def _decimal(text: str) -> int:
    try:
        return golang.parse_int(text)
    except golang.NumberError as error:
        raise FlagError(f"strconv.Atoi: parsing {golang.quote(text)}: {error}") from None


def pairs(text: str) -> dict[str, str]:
    """``a=b,c=d`` as a mapping; an item without ``=`` gets the value "true"."""
    found: dict[str, str] = {}
    for item in text.split(","):
        if not item.strip():
            continue
        key, mark, value = item.partition("=")
        found[key.strip()] = value.strip() if mark else "true"
    return found


class Flag(msgspec.Struct, frozen=True):
    """A flag of the command line.

    ``kind`` is the way in which repeated flags combine: "value" and "bool" (the last one counts), "list" (comma-separated, adds
    up), "array" (adds up) or "map" (adds up).  ``type`` is the name of its values in the help text; ``group`` is its heading when
    it differs from the FlagSet's heading.  ``inert`` is the reason why it is accepted without effect.  ``refused`` names the
    replacement of a flag that is not accepted.  ``deprecated`` is upstream's text about a flag that the help text does not show.
    """

    name: str
    parse: Callable[[str], object]
    default: object
    help: str
    kind: str = "value"
    short: str = ""
    type: str = ""
    group: str = ""
    inert: str = ""
    refused: str = ""
    deprecated: str = ""

    @property
    def attribute(self) -> str:
        return self.name.replace("-", "_")


def value(parse: Callable[[str], Parsed], default: Parsed, help: str, **more: str) -> Parsed:
    """Declares a flag in the body of a FlagSet; for a type checker it returns the flag's value."""
    return cast(Parsed, Flag("", parse, default, help, **more))


def switch(default: bool, help: str, **more: str) -> bool:
    return cast(bool, Flag("", boolean, default, help, "bool", **more))


def items(
    parse: Callable[[str], Parsed], default: Sequence[Parsed], help: str, kind: str = "list", **more: str
) -> list[Parsed]:
    return cast("list[Parsed]", Flag("", parse, list(default), help, kind, **more))


def strings(default: Sequence[str], help: str, **more: str) -> list[str]:
    return items(string, default, help, **more)


def array(help: str, **more: str) -> list[str]:
    return items(string, (), help, "array", **more)


def mapping(parse: Callable[[str], Mapping[str, Parsed]], help: str, **more: str) -> dict[str, Parsed]:
    return cast("dict[str, Parsed]", Flag("", parse, {}, help, "map", **more))


class FlagSet:
    """The flags of one group, and their values as attributes: ``serving.secure_port`` is the value of ``--secure-port``.

    A subclass declares the flags as its attributes: ``secure_port = value(integer, 6443, "Port for HTTPS.")``.
    """

    #: heading in the help text
    title = ""

    def __init__(self) -> None:
        self.flags: dict[str, Flag] = {}
        self.given: set[str] = set()
        for name, flag in vars(type(self)).items():
            if isinstance(flag, Flag):
                self.declare(name.replace("_", "-"), flag)
        self.add()

    def add(self) -> None:
        """Declares further flags: flags whose attribute is not used, or whose names are computed."""

    def complete(self) -> None:
        """Derives values from other flags; may read files and raise ConfigError."""

    def validate(self) -> list[str]:
        """All errors of the group."""
        return []

    def is_set(self, name: str) -> bool:
        """Whether the command line names the flag."""
        return name in self.given

    def declare(self, name: str, flag: object) -> None:
        """Adds a flag that ``value``, ``switch`` and the like have made."""
        assert isinstance(flag, Flag)
        flag = self.flags[name] = msgspec.structs.replace(flag, name=name)
        empty = flag.default
        setattr(self, flag.attribute, type(empty)(empty) if isinstance(empty, (list, dict)) else empty)

    def set(self, flag: Flag, text: str) -> None:
        """Sets the value from one occurrence on the command line.  Raises FlagError."""
        first = flag.name not in self.given
        if flag.kind == "list":
            items = [item.strip() for item in text.split(",")] if text else []
            parsed = [flag.parse(item) for item in items]
            setattr(self, flag.attribute, parsed if first else [*getattr(self, flag.attribute), *parsed])
        elif flag.kind == "array":
            setattr(self, flag.attribute, [*([] if first else getattr(self, flag.attribute)), flag.parse(text)])
        elif flag.kind == "map":
            before = {} if first else getattr(self, flag.attribute)
            setattr(self, flag.attribute, {**before, **cast(Mapping[str, object], flag.parse(text))})
        else:
            setattr(self, flag.attribute, flag.parse(text))
        self.given.add(flag.name)


def parse(groups: Iterable[FlagSet], arguments: Sequence[str]) -> list[str]:
    """Sets the flags from ``arguments``.  Returns all errors, such as unknown flags and stray arguments."""
    by_name = {name: (group, flag) for group in groups for name, flag in group.flags.items()}
    by_short = {flag.short: (group, flag) for group, flag in by_name.values() if flag.short}
    errors: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument.startswith("--") and len(argument) > 2:
            name, mark, text = argument[2:].partition("=")
            found = by_name.get(name.replace("_", "-"))
            shown = f"--{name}"
        elif argument.startswith("-") and len(argument) > 1 and argument != "--":
            name, text = argument[1], argument[2:]
            mark = "=" if text else ""
            text = text.removeprefix("=")
            found = by_short.get(name)
            shown = f"-{name}"
        else:
            if argument:  # empty ones, as of an unset variable in a script, are ignored as upstream does
                errors.append(f"unexpected argument {argument!r}")
            continue
        if found is None:
            errors.append(f"unknown flag: {shown}")
            if not mark and rest and not rest[0].startswith("-"):
                rest.pop(0)
            continue
        group, flag = found
        if flag.refused:
            errors.append(f"{shown} is not for kapi: {flag.refused}")
            if not mark and rest and not rest[0].startswith("-"):
                rest.pop(0)
            continue
        if not mark:
            if flag.kind == "bool":
                text = "true"
            elif rest:
                text = rest.pop(0)
            else:
                errors.append(f"flag needs an argument: {shown}")
                continue
        try:
            group.set(flag, text)
        except FlagError as error:
            errors.append(f'invalid argument "{text}" for "{shown}" flag: {error}')
    return errors
