"""The version of Kubernetes that kapi implements, as in the answer of ``/version`` (upstream: component-base ``version``)."""

from __future__ import annotations

import platform

from kapi.machinery.lifecycles import CURRENT, RELEASE, EffectiveVersion


def version_info(version: EffectiveVersion) -> dict[str, str]:
    """The versions of kapi, and the emulated version."""
    emulated, least = version
    return {
        "major": str(RELEASE.major),
        "minor": str(RELEASE.minor),
        "emulationMajor": str(emulated.major),
        "emulationMinor": str(emulated.minor),
        "minCompatibilityMajor": str(least.major),
        "minCompatibilityMinor": str(least.minor),
        "gitVersion": f"v{RELEASE}.2+kapi",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"linux/{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }",
    }


VERSION = version_info(CURRENT)
