"""A software bill of materials: kapi and the packages that it needs here, as CycloneDX 1.6 in JSON, on standard output.

It has the same bytes for the same packages.  Needs ``packaging``.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement


def needed(name: str) -> dict[str, Distribution]:
    """The distributions, by their names as package indexes have them, with all that these need on this platform."""
    found: dict[str, Distribution] = {}
    waiting, seen = [Requirement(name)], set()
    while waiting:
        requirement = waiting.pop()
        if (requirement.name, *sorted(requirement.extras)) in seen:
            continue
        seen.add((requirement.name, *sorted(requirement.extras)))
        canonical = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if canonical not in found:
            try:
                found[canonical] = distribution(requirement.name)
            except PackageNotFoundError:
                continue
        for text in found[canonical].requires or ():
            further = Requirement(text)
            extras = requirement.extras or {""}
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(further)
    return found


def component(name: str, package: Distribution) -> dict[str, Any]:
    url = f"pkg:pypi/{name}@{package.version}"
    made: dict[str, Any] = {"type": "library", "bom-ref": url, "name": name, "version": package.version, "purl": url}
    licence = package.metadata.get("License-Expression")
    if licence:
        made["licenses"] = [{"expression": licence}]
    return made


def bill(name: str = "kapi") -> dict[str, Any]:
    components = {found: component(found, package) for found, package in sorted(needed(name).items())}
    main = components.pop(name)
    main["type"] = "application"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": main},
        "components": list(components.values()),
    }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=2)
    print()
