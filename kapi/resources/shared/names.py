"""Formats of names, keys and numbers in objects; ``kapi.machinery.names`` has the formats that other packages also use.

A function returns the error texts for a value, ``()`` when it is valid.  Results are cached, since the same names of labels,
ports and images are common.  Upstream: apimachinery ``util/validation``, ``api/validate/content``.
"""

from __future__ import annotations

import re

from kapi.machinery.memo import memoized
from kapi.machinery.names import (
    SUBDOMAIN,
    SUBDOMAIN_TEXT,
    Texts,
    dns_1035_label,
    dns_label,
    dns_subdomain,
    label_value,
    long_name,
    path_segment,
    qualified_name,
    regex_text,
    too_long,
)

is_dns1123_label, is_dns1123_subdomain, is_dns1035_label = dns_label, dns_subdomain, dns_1035_label
is_label_key = is_qualified_name = qualified_name
is_label_value = label_value
is_path_segment_name = path_segment

_LABEL_ = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_ = _LABEL_ + r"(\." + _LABEL_ + ")*"
_WILDCARD = r"\*\." + SUBDOMAIN
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

_is_subdomain_ = re.compile(_SUBDOMAIN_).fullmatch
_is_wildcard = re.compile(_WILDCARD).fullmatch
_is_c_identifier = re.compile(_C_IDENTIFIER).fullmatch
_is_http_path = re.compile(_HTTP_PATH).fullmatch
_is_percent = re.compile("[0-9]+%").fullmatch
_is_header = re.compile("[-A-Za-z0-9]+").fullmatch
_is_config_key = re.compile("[-._a-zA-Z0-9]+").fullmatch
_is_port_name = re.compile("[-a-z0-9]+").fullmatch
_is_reason = re.compile(_REASON).fullmatch


@memoized(1024)
def is_dns1123_subdomain_with_underscore(value: str) -> Texts:
    if _is_subdomain_(value):
        return too_long(value, 253)
    text = SUBDOMAIN_TEXT.replace("characters, '-'", "characters, '_', '-'")
    return (*too_long(value, 253), regex_text(text, _SUBDOMAIN_, "example.com"))


@memoized(1024)
def is_wildcard_dns1123_subdomain(value: str) -> Texts:
    if _is_wildcard(value):
        return too_long(value, 253)
    text = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist "
        "of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
    )
    return (*too_long(value, 253), regex_text(text, _WILDCARD, "*.example.com"))


@memoized(1024)
def is_c_identifier(value: str) -> Texts:
    if _is_c_identifier(value):
        return ()
    text = (
        "a valid C identifier must start with alphabetic character or '_', "
        "followed by a string of alphanumeric characters or '_'"
    )
    return (regex_text(text, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName"),)


def is_port_number(value: int) -> Texts:
    return () if 1 <= value <= 65535 else ("must be between 1 and 65535, inclusive",)


def is_user_id(value: int) -> Texts:
    return () if 0 <= value <= 2147483647 else ("must be between 0 and 2147483647, inclusive",)


is_group_id = is_user_id


@memoized(1024)
def is_port_name(value: str) -> Texts:
    texts = list(too_long(value, 15))
    if not _is_port_name(value):
        texts.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in value):
        texts.append("must contain at least one letter (a-z)")
    if "--" in value:
        texts.append("must not contain consecutive hyphens")
    if value and "-" in (value[0], value[-1]):
        texts.append("must not begin or end with a hyphen")
    return tuple(texts)


@memoized(256)
def is_percent(value: str) -> Texts:
    if _is_percent(value):
        return ()
    text = "a valid percent string must be a numeric string followed by an ending '%'"
    return (regex_text(text, "[0-9]+%", "1%", "93%"),)


@memoized(256)
def is_http_header_name(value: str) -> Texts:
    if _is_header(value):
        return ()
    text = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return (regex_text(text, "[-A-Za-z0-9]+", "X-Header-Name"),)


def _dots(value: str) -> Texts:
    if value == ".":
        return ("must not be '.'",)
    if value == "..":
        return ("must not be '..'",)
    if value.startswith(".."):
        return ("must not start with '..'",)
    return ()


@memoized(1024)
def is_relaxed_env_var_name(value: str) -> Texts:
    if not value:
        return ("environment variable name must be non-empty",)
    if any(not " " <= char <= "~" or char == "=" for char in value):
        return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)
    return ()


@memoized(1024)
def is_config_map_key(value: str) -> Texts:
    texts = too_long(value, 253)
    if not _is_config_key(value):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        texts = (*texts, regex_text(text, "[-._a-zA-Z0-9]+", "key.name", "KEY_NAME", "key-name"))
    return texts + _dots(value)


def is_http_path(value: str) -> bool:
    return _is_http_path(value) is not None


HTTP_PATH_TEXT = regex_text("Invalid path", _HTTP_PATH)


@memoized(256)
def is_condition_reason(value: str) -> Texts:
    if _is_reason(value):
        return ()
    text = (
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
        "characters or '_,:', and must end with an alphanumeric character or '_'"
    )
    return (regex_text(text, _REASON, "my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"),)


# -- names of objects: (name, prefix) where a prefix is a generateName -------------------------------------------------


def _masked(name: str, prefix: bool) -> str:
    """A generateName may end with a dash, since a suffix follows."""
    return name[:-2] + "a" if prefix and len(name) > 1 and name.endswith("-") else name


def subdomain_name(name: str, prefix: bool = False) -> Texts:
    """The rule for the names of most objects."""
    return is_dns1123_subdomain(_masked(name, prefix))


def label_name(name: str, prefix: bool = False) -> Texts:
    """The rule for names of Namespaces."""
    return is_dns1123_label(_masked(name, prefix))


def service_name(name: str, prefix: bool = False) -> Texts:
    """The rule for names of Services before 1.36 (KEP-5311)."""
    return is_dns1035_label(_masked(name, prefix))


def long_object_name(name: str, prefix: bool) -> Texts:
    """The rule for names of ReplicationControllers and DeviceClasses, whose generateName is not checked."""
    return () if prefix else long_name(name)


def path_segment_name(name: str, prefix: bool) -> Texts:
    """The rule for names and generateNames of RBAC objects, which only have to fit into a URL."""
    return path_segment(name)
