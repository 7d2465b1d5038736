"""Paths of files inside volumes and containers, and paths with a domain before them.

Upstream: ``core/validation`` validatePathNoBacksteps and relatives, apimachinery ``validation.IsDomainPrefixedPath``.
"""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.field import FieldError, Path
from kapi.resources.shared.names import HTTP_PATH_TEXT, is_dns1123_subdomain, is_http_path
from kapi.resources.shared.rules import Errors

FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def has_backsteps(text: str) -> bool:
    return ".." in text and ".." in text.split("/")


def validate_no_backsteps(text: str, path: Path, errors: Errors) -> None:
    if has_backsteps(text):
        errors.append(field.invalid(path, text, "must not contain '..'"))


def validate_descending(text: str, path: Path, errors: Errors) -> None:
    """A relative path without ``..``."""
    if text.startswith("/"):
        errors.append(field.invalid(path, text, "must be a relative path"))
    validate_no_backsteps(text, path, errors)


def validate_local(text: str, path: Path, errors: Errors) -> None:
    """A relative path without ``..`` that does not start with two dots, since volumes use such names themselves."""
    validate_descending(text, path, errors)
    if text.startswith("..") and not text.startswith("../"):
        errors.append(field.invalid(path, text, "must not start with '..'"))


def validate_mode(mode: int | None, path: Path, errors: Errors) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        errors.append(field.invalid(path, mode, FILE_MODE))


def domain_prefixed_path(text: str, path: Path) -> list[FieldError]:
    """The errors of a name such as ``acme.io/foo``."""
    if not text:
        return [field.required(path)]
    host, _, rest = text.partition("/")
    if not host or not rest:
        return [field.invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [field.invalid(path, host, problem) for problem in is_dns1123_subdomain(host)]
    if not is_http_path(rest):
        errors.append(field.invalid(path, rest, HTTP_PATH_TEXT))
    return errors
