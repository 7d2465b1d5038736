"""Formats of names, keys and numbers (upstream: apimachinery ``util/validation``, ``api/validate/content``).

A function takes a value and gives the texts of what is wrong with it: ``()`` when it is good.  All are memoised: the
names of labels, ports and images come again and again.
"""

from __future__ import annotations

import re
from functools import lru_cache

Texts = tuple[str, ...]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_LABEL_ = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_ = _LABEL_ + r"(\." + _LABEL_ + ")*"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_LABEL_RE = re.compile(_LABEL + r"\Z").match
_SUBDOMAIN_RE = re.compile(_SUBDOMAIN + r"\Z").match
_SUBDOMAIN__RE = re.compile(_SUBDOMAIN_ + r"\Z").match
_SUBDOMAIN_ANY_CASE_RE = re.compile(_SUBDOMAIN + r"\Z", re.IGNORECASE | re.ASCII).match
_DNS1035_RE = re.compile(_DNS1035 + r"\Z").match
_KEY_RE = re.compile(_KEY + r"\Z").match
_VALUE_RE = re.compile(_VALUE + r"\Z").match
_C_IDENTIFIER_RE = re.compile(_C_IDENTIFIER + r"\Z").match
_WILDCARD_RE = re.compile(r"\*\." + _SUBDOMAIN + r"\Z").match
_HTTP_PATH_RE = re.compile(_HTTP_PATH + r"\Z").match
_PERCENT_RE = re.compile(r"[0-9]+%\Z").match
_HEADER_RE = re.compile(r"[-A-Za-z0-9]+\Z").match
_ENV_RE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*\Z").match
_CONFIG_KEY_RE = re.compile(r"[-._a-zA-Z0-9]+\Z").match
_PORT_NAME_RE = re.compile(r"[-a-z0-9]+\Z").match
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_RE = re.compile(_REASON + r"\Z").match

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_KEY_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
NON_EMPTY = "must be non-empty"


def regex_text(text: str, pattern: str, *examples: str) -> str:
    """A text that ends with examples and the regular expression."""
    if not examples:
        return f"{text} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def _too_many_bytes(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _length(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))


@lru_cache(4096)
def is_dns1123_label(value: str) -> Texts:
    texts: Texts = ()
    if _length(value) > 63:
        texts = (_too_long(63),)
    if not _LABEL_RE(value):
        if _SUBDOMAIN_RE(value):
            return (*texts, "must not contain dots")
        return (*texts, regex_text(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))
    return texts


@lru_cache(4096)
def is_dns1123_subdomain(value: str) -> Texts:
    texts: Texts = ()
    if _length(value) > 253:
        texts = (_too_long(253),)
    if not _SUBDOMAIN_RE(value):
        return (*texts, regex_text(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return texts


@lru_cache(1024)
def is_dns1123_subdomain_with_underscore(value: str) -> Texts:
    texts: Texts = ()
    if _length(value) > 253:
        texts = (_too_long(253),)
    if not _SUBDOMAIN__RE(value):
        text = _SUBDOMAIN_TEXT.replace("characters, '-'", "characters, '_', '-'")
        return (*texts, regex_text(text, _SUBDOMAIN_, "example.com"))
    return texts


@lru_cache(1024)
def is_dns1123_subdomain_caseless(value: str) -> Texts:
    texts: Texts = ()
    if _length(value) > 253:
        texts = (_too_many_bytes(253),)
    if not _SUBDOMAIN_ANY_CASE_RE(value):
        text = (
            "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', "
            "and must start and end with an alphanumeric character"
        )
        return (*texts, regex_text(text, _SUBDOMAIN, "Example.com"))
    return texts


@lru_cache(1024)
def is_dns1035_label(value: str) -> Texts:
    texts: Texts = ()
    if _length(value) > 63:
        texts = (_too_long(63),)
    if not _DNS1035_RE(value):
        text = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
            "start with an alphabetic character, and end with an alphanumeric character"
        )
        return (*texts, regex_text(text, _DNS1035, "my-name", "abc-123"))
    return texts


@lru_cache(1024)
def is_wildcard_dns1123_subdomain(value: str) -> Texts:
    texts: Texts = ()
    if _length(value) > 253:
        texts = (_too_long(253),)
    if not _WILDCARD_RE(value):
        text = (
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist "
            "of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
        )
        return (*texts, regex_text(text, r"\*\." + _SUBDOMAIN, "*.example.com"))
    return texts


@lru_cache(8192)
def is_label_key(value: str) -> Texts:
    """A qualified name: label keys, annotation keys, finalizers, condition types, resource names."""
    prefix, slash, name = value.partition("/")
    texts: Texts = ()
    if not slash:
        name = prefix
    elif "/" in name:
        text = "a valid label key " + regex_text(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
        return (text + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    elif not prefix:
        texts = ("prefix part " + NON_EMPTY,)
    else:
        long = ("prefix part " + _too_many_bytes(253),) if _length(prefix) > 253 else ()
        texts = long
        if not _SUBDOMAIN_RE(prefix):
            texts = (*texts, "prefix part " + regex_text(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    if not name:
        texts = (*texts, "name part " + NON_EMPTY)
    elif _length(name) > 63:
        texts = (*texts, "name part " + _too_many_bytes(63))
    if not _KEY_RE(name):
        texts = (*texts, "name part " + regex_text(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc"))
    return texts


is_qualified_name = is_label_key


@lru_cache(8192)
def is_label_value(value: str) -> Texts:
    texts: Texts = ()
    if _length(value) > 63:
        texts = (_too_many_bytes(63),)
    if not _VALUE_RE(value):
        text = "a valid label must be an empty string or consist" + _KEY_TEXT.removeprefix("must consist")
        return (*texts, regex_text(text, _VALUE, "MyValue", "my_value", "12345"))
    return texts


@lru_cache(1024)
def is_c_identifier(value: str) -> Texts:
    if _C_IDENTIFIER_RE(value):
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


@lru_cache(1024)
def is_port_name(value: str) -> Texts:
    texts: list[str] = []
    if _length(value) > 15:
        texts.append(_too_long(15))
    if not _PORT_NAME_RE(value):
        texts.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in value):
        texts.append("must contain at least one letter (a-z)")
    if "--" in value:
        texts.append("must not contain consecutive hyphens")
    if value and "-" in (value[0], value[-1]):
        texts.append("must not begin or end with a hyphen")
    return tuple(texts)


@lru_cache(256)
def is_percent(value: str) -> Texts:
    if _PERCENT_RE(value):
        return ()
    text = "a valid percent string must be a numeric string followed by an ending '%'"
    return (regex_text(text, "[0-9]+%", "1%", "93%"),)


@lru_cache(256)
def is_http_header_name(value: str) -> Texts:
    if _HEADER_RE(value):
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


@lru_cache(1024)
def is_env_var_name(value: str) -> Texts:
    texts: Texts = ()
    if not _ENV_RE(value):
        text = (
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', "
            "and must not start with a digit"
        )
        texts = (regex_text(text, "[-._a-zA-Z][-._a-zA-Z0-9]*", "my.env-name", "MY_ENV.NAME", "MyEnvName1"),)
    return texts + _dots(value)


@lru_cache(1024)
def is_relaxed_env_var_name(value: str) -> Texts:
    if not value:
        return ("environment variable name " + NON_EMPTY,)
    if any(not " " <= char <= "~" or char == "=" for char in value):
        return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)
    return ()


@lru_cache(1024)
def is_config_map_key(value: str) -> Texts:
    texts: Texts = ()
    if _length(value) > 253:
        texts = (_too_long(253),)
    if not _CONFIG_KEY_RE(value):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        texts = (*texts, regex_text(text, "[-._a-zA-Z0-9]+", "key.name", "KEY_NAME", "key-name"))
    return texts + _dots(value)


@lru_cache(1024)
def is_path_segment_name(value: str) -> Texts:
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return is_path_segment_prefix(value)


def is_path_segment_prefix(value: str) -> Texts:
    return tuple(f"may not contain '{char}'" for char in "/%" if char in value)


def is_http_path(value: str) -> bool:
    return _HTTP_PATH_RE(value) is not None


HTTP_PATH_TEXT = regex_text("Invalid path", _HTTP_PATH)


@lru_cache(256)
def is_condition_reason(value: str) -> Texts:
    if _REASON_RE(value):
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
    """Most objects."""
    return is_dns1123_subdomain(_masked(name, prefix))


def label_name(name: str, prefix: bool = False) -> Texts:
    """Namespaces."""
    return is_dns1123_label(_masked(name, prefix))


def dns1035_name(name: str, prefix: bool = False) -> Texts:
    """Services."""
    return is_dns1035_label(_masked(name, prefix))


def path_segment_name(name: str, prefix: bool = False) -> Texts:
    """RBAC objects and others that only have to fit into a URL."""
    return is_path_segment_prefix(name) if prefix else is_path_segment_name(name)
