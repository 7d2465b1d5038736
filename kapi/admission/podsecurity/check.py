"""What a check is, and how what it finds is put into words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from kapi.machinery.tree import Object

Finding = tuple[str, str] | None


Rule = Callable[[Object, Object], Finding]


@dataclass(frozen=True, slots=True)
class Check:
    """``versions``: minor version -> the rule from then on.  ``overrides`` names the baseline check it replaces."""

    name: str
    level: str
    versions: tuple[tuple[int, Rule], ...]
    overrides: str = ""


def containers_of(spec: Object) -> Iterator[Object]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def context_of(holder: Object) -> Object:
    return holder.get("securityContext") or {}


def plural(one: str, many: str, items: Collection[str]) -> str:
    return one if len(items) == 1 else many


def quoted(items: Collection[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def named(containers: list[str]) -> str:
    return f"{plural('container', 'containers', containers)} {quoted(containers)}"


def setters_of(pod: bool, containers: list[str]) -> str:
    parts = ["pod"] if pod else []
    if containers:
        parts.append(named(containers))
    return " and ".join(parts)


def not_on_windows(rule: Rule) -> Rule:
    def checked(metadata: Object, spec: Object) -> Finding:
        return None if (spec.get("os") or {}).get("name") == "windows" else rule(metadata, spec)

    return checked


def not_in_user_namespace(rule: Rule) -> Rule:
    def checked(metadata: Object, spec: Object) -> Finding:
        return None if spec.get("hostUsers") is False else rule(metadata, spec)

    return checked
