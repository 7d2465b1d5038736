"""File paths inside volumes and containers (upstream: ``core/validation`` validatePathNoBacksteps and relatives)."""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.field import Path
from kapi.resources.shared.rules import Errors

FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def has_backsteps(text: str) -> bool:
    return ".." in text and ".." in text.split("/")


def validate_no_backsteps(text: str, path: Path, errors: Errors) -> None:
    if has_backsteps(text):
        errors.append(field.invalid(path, text, "must not contain '..'"))


def validate_descending(text: str, path: Path, errors: Errors) -> None:
    """Relative, and never upwards."""
    if text.startswith("/"):
        errors.append(field.invalid(path, text, "must be a relative path"))
    validate_no_backsteps(text, path, errors)


def validate_local(text: str, path: Path, errors: Errors) -> None:
    """A descending path that does not start with two dots either, which volumes keep for themselves."""
    validate_descending(text, path, errors)
    if text.startswith("..") and not text.startswith("../"):
        errors.append(field.invalid(path, text, "must not start with '..'"))


def validate_mode(mode: int | None, path: Path, errors: Errors) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        errors.append(field.invalid(path, mode, FILE_MODE))
