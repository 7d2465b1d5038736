"""Formats of names, keys and label values (upstream: apimachinery ``util/validation``).

Each function returns the complaints about a value, in upstream's words; an empty list means that it is valid.
"""

from __future__ import annotations

import re

from kapi.machinery.memo import remember

_LABEL_FMT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FMT = _LABEL_FMT + r"(\." + _LABEL_FMT + ")*"
_LABEL_1035_FMT = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED_FMT = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_FMT = "(" + _QUALIFIED_FMT + ")?"

_LABEL = re.compile(_LABEL_FMT)
_SUBDOMAIN = re.compile(_SUBDOMAIN_FMT)
_LABEL_1035 = re.compile(_LABEL_1035_FMT)
_QUALIFIED = re.compile(_QUALIFIED_FMT)
_VALUE = re.compile(_VALUE_FMT)

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and "
    "end with an alphanumeric character"
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character"
)


def regex_error(text: str, fmt: str, *examples: str) -> str:
    """``text (e.g. 'a',  or 'b', regex used for validation is 'fmt')``."""
    if not examples:
        return f"{text} (regex used for validation is '{fmt}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{fmt}')"


def max_length(length: int) -> str:
    return f"must be no more than {length} bytes"


@remember(4096)
def dns_label(value: str) -> tuple[str, ...]:
    """RFC 1123 label: at most 63 characters."""
    errors = []
    if len(value) > 63:
        errors.append(max_length(63))
    if not _LABEL.fullmatch(value):
        if _SUBDOMAIN.fullmatch(value):
            errors.append("must not contain dots")
        else:
            errors.append(regex_error(_LABEL_TEXT, _LABEL_FMT, "my-name", "123-abc"))
    return tuple(errors)


@remember(4096)
def dns_subdomain(value: str) -> tuple[str, ...]:
    """RFC 1123 subdomain: at most 253 characters."""
    errors = []
    if len(value) > 253:
        errors.append(max_length(253))
    if not _SUBDOMAIN.fullmatch(value):
        errors.append(regex_error(_SUBDOMAIN_TEXT, _SUBDOMAIN_FMT, "example.com"))
    return tuple(errors)


@remember(4096)
def dns_1035_label(value: str) -> tuple[str, ...]:
    """RFC 1035 label: at most 63 characters, starts with a letter."""
    errors = []
    if len(value) > 63:
        errors.append(max_length(63))
    if not _LABEL_1035.fullmatch(value):
        errors.append(regex_error(_LABEL_1035_TEXT, _LABEL_1035_FMT, "my-name", "abc-123"))
    return tuple(errors)


@remember(4096)
def qualified_name(value: str) -> tuple[str, ...]:
    """``[prefix/]name``: label keys, annotation keys (lower-cased by the caller), resource names."""
    parts = value.split("/")
    errors: list[str] = []
    if len(parts) == 1:
        name = parts[0]
    elif len(parts) == 2:
        prefix, name = parts
        if not prefix:
            errors.append("prefix part must be non-empty")
        else:
            errors.extend("prefix part " + text for text in dns_subdomain(prefix))
    else:
        return (
            "a valid label key "
            + regex_error(_QUALIFIED_TEXT, _QUALIFIED_FMT, "MyName", "my.name", "123-abc")
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append("name part " + max_length(63))
    if not _QUALIFIED.fullmatch(name):
        errors.append("name part " + regex_error(_QUALIFIED_TEXT, _QUALIFIED_FMT, "MyName", "my.name", "123-abc"))
    return tuple(errors)


@remember(4096)
def label_value(value: str) -> tuple[str, ...]:
    """At most 63 characters; may be empty."""
    errors = []
    if len(value) > 63:
        errors.append(max_length(63))
    if not _VALUE.fullmatch(value):
        errors.append(regex_error(_VALUE_TEXT, _VALUE_FMT, "MyValue", "my_value", "12345"))
    return tuple(errors)


def path_segment(value: str) -> list[str]:
    """What may stand as a name in a URL path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in ("/", "%") if char in value]
