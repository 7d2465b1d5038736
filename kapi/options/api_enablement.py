"""Which APIs are served (upstream: apiserver ``server/options/api_enablement.go``)."""

from __future__ import annotations

import re

from kapi.options.flags import FlagSet, pairs

_KEY = re.compile(r"api/(all|legacy|ga|beta|alpha)|v1|[a-z0-9.-]+/v\d+((alpha|beta)\d+)?(/[a-z]+)?")


class APIEnablementOptions(FlagSet):
    title = "API enablement"

    def add(self) -> None:
        self.mapping(
            "runtime-config", pairs, "group/version[/resource]=true|false pairs; api/all, api/ga, api/beta, api/alpha."
        )

    def validate(self) -> list[str]:
        errors = []
        for key, value in self.runtime_config.items():
            if not _KEY.fullmatch(key):
                errors.append(f"--runtime-config: unknown api groups {key}")
            if value.lower() not in ("true", "false", "1", "0"):
                errors.append(f"--runtime-config: invalid value of {key}: {value}")
        return errors

    def enabled(self, group: str, version: str, plural: str = "") -> bool:
        """Whether a group version (and resource) is served, most specific setting first; without one, stable versions are."""
        group_version = f"{group}/{version}" if group else version
        stage = "alpha" if "alpha" in version else "beta" if "beta" in version else "ga"
        keys = (f"{group_version}/{plural}", group_version, f"api/{stage}", "api/all")
        for key in keys:
            value = self.runtime_config.get(key)
            if value is not None:
                return value.lower() in ("true", "1")
        return stage == "ga"
