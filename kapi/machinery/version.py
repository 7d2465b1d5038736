"""The version of Kubernetes that kapi stands for, as ``/version`` answers it (upstream: component-base ``version``)."""

from __future__ import annotations

import platform

MAJOR, MINOR = "1", "36"
VERSION = {
    "major": MAJOR,
    "minor": MINOR,
    "emulationMajor": MAJOR,
    "emulationMinor": MINOR,
    "minCompatibilityMajor": MAJOR,
    "minCompatibilityMinor": "35",
    "gitVersion": f"v{MAJOR}.{MINOR}.2+kapi",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": f"python{platform.python_version()}",
    "compiler": platform.python_implementation().lower(),
    "platform": f"linux/{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }",
}
