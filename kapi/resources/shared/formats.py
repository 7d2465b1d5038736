"""Forms of names and values: each function lists what is wrong with a text, in upstream's words.

Upstream: apimachinery ``util/validation/validation.go``, ``api/validate/content``, ``api/validation/generic.go``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kapi.machinery.names import (
    dns_1035_label,
    dns_label,
    dns_subdomain,
    label_value,
    max_length,
    path_segment,
    qualified_name,
    regex_error,
)

__all__ = [
    "Format", "NameRule", "between", "c_identifier", "condition_reason", "config_key", "dns_1035_label", "dns_label",
    "dns_subdomain", "dns_subdomain_caseless", "http_path", "label_value", "max_length", "name_is_1035_label",
    "name_is_label", "name_is_path_segment", "name_is_subdomain", "parent_directory", "path_segment", "port_name",
    "port_number", "qualified_name", "regex_error", "wildcard_subdomain",
]  # fmt: skip

#: what is wrong with a text; empty when nothing is
Format = Callable[[str], Sequence[str]]
#: a rule for object names; the second argument is True for a generateName, which may end in a dash
NameRule = Callable[[str, bool], Sequence[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + "(\\." + _LABEL + ")*"
_WILDCARD = "\\*\\." + _SUBDOMAIN
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

_subdomain_caseless_re = re.compile(_SUBDOMAIN, re.IGNORECASE)
_wildcard_re = re.compile(_WILDCARD)
_config_key_re = re.compile(_CONFIG_KEY)
_http_path_re = re.compile(_HTTP_PATH)
_c_identifier_re = re.compile(_C_IDENTIFIER)
_reason_re = re.compile(_REASON)
_port_charset_re = re.compile("[-a-z0-9]+")
_letter_re = re.compile("[a-z]")


def between(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def _size(text: str) -> int:
    """Length in bytes, as Go counts."""
    return len(text) if text.isascii() else len(text.encode())


def dns_subdomain_caseless(text: str) -> list[str]:
    """An RFC 1123 subdomain in either case."""
    problems = [max_length(253)] if _size(text) > 253 else []
    if not _subdomain_caseless_re.fullmatch(text):
        problems.append(
            regex_error(
                "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end "
                "with an alphanumeric character",
                _SUBDOMAIN,
                "Example.com",
            )
        )
    return problems


def wildcard_subdomain(text: str) -> list[str]:
    """``*.`` and a subdomain."""
    problems = [max_length(253)] if _size(text) > 253 else []
    if not _wildcard_re.fullmatch(text):
        problems.append(
            regex_error(
                "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must "
                "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
                _WILDCARD,
                "*.example.com",
            )
        )
    return problems


def c_identifier(text: str) -> list[str]:
    if _c_identifier_re.fullmatch(text):
        return []
    return [
        regex_error(
            "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
            "characters or '_'",
            _C_IDENTIFIER,
            "my_name",
            "MY_NAME",
            "MyName",
        )
    ]


def config_key(text: str) -> list[str]:
    """A key of a ConfigMap or Secret."""
    problems = [max_length(253)] if _size(text) > 253 else []
    if not _config_key_re.fullmatch(text):
        problems.append(
            regex_error(
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
                _CONFIG_KEY,
                "key.name",
                "KEY_NAME",
                "key-name",
            )
        )
    return problems + parent_directory(text)


def parent_directory(text: str) -> list[str]:
    if text == ".":
        return ["must not be '.'"]
    if text == "..":
        return ["must not be '..'"]
    if text.startswith(".."):
        return ["must not start with '..'"]
    return []


def port_number(port: int) -> list[str]:
    return [] if 1 <= port <= 65535 else [between(1, 65535)]


def port_name(text: str) -> list[str]:
    """An IANA service name."""
    problems = [max_length(15)] if _size(text) > 15 else []
    if not _port_charset_re.fullmatch(text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _letter_re.search(text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text and (text[0] == "-" or text[-1] == "-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def condition_reason(text: str) -> list[str]:
    if _reason_re.fullmatch(text):
        return []
    return [
        regex_error(
            "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
            "characters or '_,:', and must end with an alphanumeric character or '_'",
            _REASON,
            "my_name",
            "MY_NAME",
            "MyName",
            "ReasonA,ReasonB",
            "ReasonA:ReasonB",
        )
    ]


def http_path(text: str) -> list[str]:
    return [] if _http_path_re.fullmatch(text) else [regex_error("Invalid path", _HTTP_PATH)]


def _mask_trailing_dash(name: str) -> str:
    # upstream also drops the character before the dash; the length is what counts then
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name


def name_is_subdomain(name: str, prefix: bool) -> Sequence[str]:
    return dns_subdomain(_mask_trailing_dash(name) if prefix else name)


def name_is_label(name: str, prefix: bool) -> Sequence[str]:
    return dns_label(_mask_trailing_dash(name) if prefix else name)


def name_is_1035_label(name: str, prefix: bool) -> Sequence[str]:
    return dns_1035_label(_mask_trailing_dash(name) if prefix else name)


def name_is_path_segment(name: str, prefix: bool) -> Sequence[str]:
    if prefix:
        return [f"may not contain '{illegal}'" for illegal in "/%" if illegal in name]
    return path_segment(name)
