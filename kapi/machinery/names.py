"""Formats of names, keys and label values (upstream: apimachinery ``util/validation``, ``api/validate/content``).

Each function returns the errors of a value, in upstream's words; an empty tuple means that it is valid.  Upstream's texts say
"characters" or "bytes", depending on the package; both mean bytes.
"""

from __future__ import annotations

import re

from kapi.machinery.memo import memoized

Texts = tuple[str, ...]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(SUBDOMAIN).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_value = re.compile(_VALUE).fullmatch

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character"
)
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and "
    "end with an alphanumeric character"
)
_KEY_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_TEXT = "a valid label must be an empty string or consist" + _KEY_TEXT.removeprefix("must consist")
_NON_EMPTY = "must be non-empty"


def regex_text(text: str, pattern: str, *examples: str) -> str:
    """``text (e.g. 'a',  or 'b', regex used for validation is 'pattern')``."""
    if not examples:
        return f"{text} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def too_long(value: str, limit: int, unit: str = "characters") -> Texts:
    """The error of a value with more than ``limit`` bytes of UTF-8."""
    size = len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    return (f"must be no more than {limit} {unit}",) if size > limit else ()


@memoized(4096)
def dns_label(value: str) -> Texts:
    """RFC 1123 label: at most 63 bytes."""
    if _is_label(value):
        return too_long(value, 63)
    if _is_subdomain(value):
        return (*too_long(value, 63), "must not contain dots")
    return (*too_long(value, 63), regex_text(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))


@memoized(4096)
def dns_subdomain(value: str) -> Texts:
    """RFC 1123 subdomain: at most 253 bytes."""
    return (*too_long(value, 253), *_subdomain_form(value))


@memoized(1024)
def long_name(value: str) -> Texts:
    """``dns_subdomain`` with a text that says "bytes": for names of some kinds and prefixes of qualified names."""
    return (*too_long(value, 253, "bytes"), *_subdomain_form(value))


def _subdomain_form(value: str) -> Texts:
    return () if _is_subdomain(value) else (regex_text(SUBDOMAIN_TEXT, SUBDOMAIN, "example.com"),)


@memoized(1024)
def dns_1035_label(value: str) -> Texts:
    """RFC 1035 label: at most 63 bytes, starts with a letter."""
    if _is_label_1035(value):
        return too_long(value, 63)
    return (*too_long(value, 63), regex_text(_LABEL_1035_TEXT, _LABEL_1035, "my-name", "abc-123"))


@memoized(8192)
def qualified_name(value: str) -> Texts:
    """``[prefix/]name``: label keys, annotation keys, finalizers, condition types, resource names."""
    prefix, slash, name = value.partition("/")
    texts: Texts = ()
    if not slash:
        name = prefix
    elif "/" in name:
        text = "a valid label key " + regex_text(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
        return (text + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    elif not prefix:
        texts = ("prefix part " + _NON_EMPTY,)
    else:
        texts = tuple("prefix part " + text for text in long_name(prefix))
    if not name:
        texts = (*texts, "name part " + _NON_EMPTY)
    else:
        texts = (*texts, *("name part " + text for text in too_long(name, 63, "bytes")))
    if not _is_key(name):
        texts = (*texts, "name part " + regex_text(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc"))
    return texts


def checked_label_value(value: str) -> Texts:
    """``label_value`` without the cache, for one of very many values."""
    if _is_value(value):
        return too_long(value, 63, "bytes")
    return (*too_long(value, 63, "bytes"), regex_text(_VALUE_TEXT, _VALUE, "MyValue", "my_value", "12345"))


@memoized(8192)
def label_value(value: str) -> Texts:
    """At most 63 bytes; may be empty."""
    return checked_label_value(value)


def path_segment(value: str) -> Texts:
    """Whether a name can be a segment of a URL path."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return path_segment_prefix(value)


def path_segment_prefix(value: str) -> Texts:
    """Whether a text can be the beginning of such a name."""
    return tuple(f"may not contain '{char}'" for char in "/%" if char in value)
