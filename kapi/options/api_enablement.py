"""The choice of the served APIs (upstream: apiserver ``server/options/api_enablement.go``, ``server/resourceconfig``)."""

from __future__ import annotations

import functools

from kapi.machinery.golang import quote
from kapi.options.features import FeatureOptions
from kapi.options.flags import FlagSet, mapping, pairs
from kapi.schema.builtin import names_by_kind

#: settings of many versions at once; later ones override earlier ones
_STAGES = ("api/all", "api/ga", "api/beta", "api/alpha")
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True", ""))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))


@functools.cache
def _registered() -> frozenset[tuple[str, str]]:
    """Every (group, version) with kinds in Kubernetes, served or not."""
    return frozenset((kind.group, kind.version) for kind in names_by_kind())


def _settings(text: str) -> dict[str, str]:
    """Pairs, with upstream's other names of the core group version; ``api/legacy`` has no effect."""
    found: dict[str, str] = {}
    for key, value in pairs(text).items():
        if key.removeprefix("api/").partition("/")[0] == "v1":
            key = "/v1"  # also of a setting of one resource (upstream: ``Options.Complete``)
        if key != "api/legacy":
            found[key] = value
    return found


def _absent(key: str) -> str:
    """The reason why the group version or resource of a key cannot be enabled; "" when it can."""
    from kapi.resources.catalogue import BUILT_IN  # it imports many modules, which the start of the store does not need
    from kapi.resources.previews import PREVIEWS

    group, version, *plural = key.split("/")
    there = {row.plural for row in (*BUILT_IN, *PREVIEWS) if (row.group, row.version) == (group, version)}
    if not there:
        return f"cannot enable {key}: kapi has no kinds of {group}/{version}"
    if plural and plural[0] not in there:
        return f"cannot enable {key}: kapi has no {plural[0]} in {group}/{version}"
    return ""


class APIEnablementOptions(FlagSet):
    title = "API enablement"

    runtime_config = mapping(
        _settings,
        "group/version[/resource]=true|false pairs; v1, the core group; api/all, api/ga, api/beta, api/alpha.",
    )

    def __init__(self, features: FeatureOptions) -> None:
        super().__init__()
        self._features = features

    def validate(self) -> list[str]:
        errors = self._without_priority_and_fairness() if self._features.enable_priority_and_fairness else []
        if self.runtime_config == {"api/all": "false"}:
            return [*errors, "invalid runtime-config with only api/all=false"]
        unknown: list[str] = []
        for key, value in self.runtime_config.items():
            parts = key.split("/")
            if key in _STAGES:
                if value not in ("true", "false"):
                    errors.append(f"invalid value {key}={value}")
            elif len(parts) not in (2, 3):
                errors.append(f"runtime-config invalid key {key}")
            elif parts[0] not in {group for group, _ in _registered()}:
                unknown.append("/".join(parts[:2]))
            elif (parts[0], parts[1]) not in _registered():
                errors.append(f"group version {parts[0]}/{parts[1]} that has not been registered")
            elif value not in _TRUE | _FALSE:
                fault = f"strconv.ParseBool: parsing {quote(value)}: invalid syntax"
                errors.append(f"invalid value of {key}: {value}, err: {fault}")
            elif parts[-1] != parts[-1].lower():
                what = "group/version/resource and resource is always lowercase plural"
                errors.append(f"invalid key {key}: {what}, not {quote(parts[-1])}")
            elif value in _TRUE and (absent := _absent(key)):
                errors.append(absent)
        if unknown:
            errors.append(f"unknown api groups {','.join(sorted(set(unknown)))}")
        return errors

    def _without_priority_and_fairness(self) -> list[str]:
        """The error of a setting that switches off what priority and fairness reads."""
        for key in ("flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"):
            value = self.runtime_config.get(key)
            if value == "false":
                return [f"--runtime-config={key}=false conflicts with --enable-priority-and-fairness=true"]
            if value == "true":
                break
        return []

    def enabled(self, group: str, version: str, plural: str = "") -> bool:
        """Whether a group version, or a resource of it, is served.

        The most specific setting decides; without one, only stable versions are served.
        """
        stage = "alpha" if "alpha" in version else "beta" if "beta" in version else "ga"
        settings = (
            self.setting(group, version, plural),
            self.setting(group, version),
            self.setting("api", stage),
            self.setting("api", "all"),
        )
        return next((on for on in settings if on is not None), stage == "ga")

    def setting(self, group: str, version: str, plural: str = "") -> bool | None:
        """The setting of exactly this group version, or this resource of it; None without one."""
        key = f"{group}/{version}"  # "/v1" is the core group
        value = self.runtime_config.get(f"{key}/{plural}" if plural else key)
        return None if value is None else value in _TRUE
