"""The help text: flags by heading, in upstream's order (upstream: component-base ``cli/flag`` PrintSections, pflag)."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable
from typing import NoReturn

from kapi.machinery.golang import duration_text
from kapi.options.flags import Flag, FlagSet, duration, integer, ip_address, number, port_range, string

#: upstream's headings, then ours
_ORDER = (
    "Generic", "Etcd", "Secure serving", "Auditing", "Features", "Authentication", "Authorization", "API enablement",
    "Egress selector", "Admission", "Metrics", "Logs", "Traces", "Misc", "Global", "Storage", "Controllers", "Kapi",
)  # fmt: skip
_TYPES: dict[object, str] = {
    string: "string",
    integer: "int",
    number: "float",
    duration: "duration",
    ip_address: "ip",
    port_range: "portRange",
}
_KINDS = {"bool": "bool", "list": "strings", "array": "stringArray", "map": "mapStringString"}
_WIDTH = 112


def show(text: str) -> NoReturn:
    """Prints the text and ends the process with 0, even when its reader ends early, as ``head`` does."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that Python can flush the rest at exit without an error
    raise SystemExit(0)


def usage(groups: Iterable[FlagSet]) -> str:
    """All flags with their types and defaults."""
    sections: dict[str, list[Flag]] = {title: [] for title in _ORDER}
    for group in groups:
        for flag in group.flags.values():
            if not flag.deprecated:
                sections[flag.group or group.title].append(flag)
    lines: list[str] = []
    for title, flags in sections.items():
        lines += [f"{title} flags:", ""]
        for flag in sorted(flags, key=lambda flag: flag.name):
            short = f"-{flag.short}, " if flag.short else "    "
            shown = type_of(flag)
            lines.append(
                f"  {short}--{flag.name}{'' if shown == 'bool' else '[=true]' if shown == _VERSION else ' ' + shown}"
            )
            lines += _wrapped(_text(flag))
        lines.append("")
    return "\n".join(lines)


_VERSION = "version[=true]"


def _text(flag: Flag) -> str:
    text = flag.help
    if flag.refused:
        text += f" Not for kapi: {flag.refused}."
    elif flag.inert:
        text += f" No effect here: {flag.inert}."
    default = default_of(flag)
    return f"{text} (default\0{default})" if default else text


def _wrapped(text: str) -> list[str]:
    """The lines below a flag.  A NUL stands for a space at which the line must not be broken."""
    indent = " " * 16
    lines = textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace("\0", " ") for line in lines]


def type_of(flag: Flag) -> str:
    """The name of the flag's values in the help text."""
    return flag.type or _KINDS.get(flag.kind) or _TYPES[flag.parse]


def default_of(flag: Flag) -> str:
    """The default in the help text; "" for an empty or zero default."""
    default = flag.default
    if flag.type in ("int32Slice", "namedCertKey", "stringToString"):
        return "[]"
    if default in ("", None, [], {}, False, 0):
        return ""
    if isinstance(default, list):
        return f"[{','.join(default)}]"
    if flag.parse is string and flag.kind == "value" and not flag.type:
        return f'"{default}"'
    return value_text(flag, default)


def value_text(flag: Flag, value: object) -> str:
    """A value in the form of the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if flag.parse is duration and isinstance(value, float):
        return duration_text(value)
    if isinstance(value, tuple):
        return "-".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}={value_text(flag, one)}" for key, one in value.items())
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)
