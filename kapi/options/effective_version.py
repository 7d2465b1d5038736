"""The release that is emulated, from ``--emulated-version`` and ``--min-compatibility-version``.

Upstream: component-base ``compatibility``, apimachinery ``util/version``, apiserver ``util/compatibility``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kapi.machinery.golang import quote
from kapi.machinery.lifecycles import CURRENT, OLDEST, RELEASE, EffectiveVersion, Release

_COMPONENT = "kube"
_VERSION = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)")


def effective_version(emulated: Sequence[str], compatible: Sequence[str]) -> tuple[EffectiveVersion, list[str]]:
    """The version for the values of both flags, each with its component or without, and upstream's errors."""
    try:
        release = _value(emulated)
        least = _value(compatible)
    except ValueError as error:
        return CURRENT, [str(error)]
    if release is None:
        release = RELEASE
    if least is None:
        least = max(release.before(1), OLDEST)
    errors = []
    if not OLDEST <= release <= RELEASE:
        errors.append(f"emulation version {release} is not between [{OLDEST}, {RELEASE}.0]")
    if not OLDEST <= least <= release:
        errors.append(f"minCompatibilityVersion version {least} is not between [{OLDEST}, {release}]")
    return EffectiveVersion(release, least), errors


def _value(texts: Sequence[str]) -> Release | None:
    """None without a value.  Raises ValueError."""
    found: dict[str, Release] = {}
    for text in texts:
        name, mark, value = text.partition("=")
        component, value = (name.strip(), value.strip()) if mark else (_COMPONENT, text)
        release = _parse(value, component)
        if component in found:
            raise ValueError(f"duplicate version flag, {component}={found[component]} and {component}={release}")
        found[component] = release
    for component in found:
        if component != _COMPONENT:
            raise ValueError(f"component not registered: {component}")
    return found.get(_COMPONENT)


def _parse(text: str, component: str) -> Release:
    """Raises ValueError."""
    match = _VERSION.match(text)
    if match is None:
        raise ValueError(f"could not parse {quote(text)} as version")
    major, *rest = match[1].split(".")
    if not rest:
        raise ValueError(f"illegal version string {quote(text)}")
    if major.startswith("0") and major != "0":
        raise ValueError(f"illegal zero-prefixed version component {quote(major)} in {quote(text)}")
    if len(rest) > 1 and int(rest[1]):
        raise ValueError(f"patch version not allowed, got: {component}={match[1]}")
    return Release(int(major), int(rest[0]))
