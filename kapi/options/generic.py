"""Generic server flags, and the release that is emulated.

Upstream: apiserver ``server/options/server_run_options.go``, ``util/compatibility``; component-base ``compatibility``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kapi.machinery import feature_gates
from kapi.machinery.feature_gates import WITH_EFFECT
from kapi.machinery.golang import quote
from kapi.machinery.lifecycles import CURRENT, OLDEST, RELEASE, EffectiveVersion, Release
from kapi.machinery.regexps import pattern_error
from kapi.options.flags import (
    FlagError,
    FlagSet,
    boolean,
    duration,
    integer,
    ip_address,
    mapping,
    number,
    pairs,
    string,
    strings,
    switch,
    value,
)
from kapi.request.pending import MAX_PENDING_BYTES

_DIRECTIVE = re.compile(r"max-age=[^=]*|includeSubDomains|preload")
#: the errors' texts that upstream shares with its help
_DIRECTIVES = (
    "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. "
    "see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"
)
_ORIGINS = (
    "List of allowed origins for CORS, comma separated. An allowed origin can be a regular expression to support "
    "subdomain matching. If this list is empty CORS will not be enabled. Please ensure each expression matches the "
    "entire hostname by anchoring to the start with '^' or including the '//' prefix, and by anchoring to the end with "
    "'$' or including the ':' port separator suffix. Examples of valid expressions are '//example\\.com(:|$)' and "
    "'^https://example\\.com(:|$)'"
)


def gates(text: str) -> dict[str, bool]:
    """Feature gates: ``Name=true``, or with the component, ``kube:Name=true``.  Raises FlagError."""
    found: dict[str, bool] = {}
    for key, given in pairs(text).items():
        component, mark, name = key.rpartition(":")
        if mark and component != "kube":
            raise FlagError(f"component not registered: {component}")
        found[name] = boolean(given)
    return found


class GenericOptions(FlagSet):
    title = "Generic"

    advertise_address = value(ip_address, "", "IP address on which to tell members of the cluster of this server.")
    external_hostname = value(string, "", "Host name to use in generated URLs and certificates.")
    cors_allowed_origins = strings(
        (),
        "Regular expressions of origins allowed for CORS, comma separated; each must pin the start (^ or //) and the "
        "end ($ or :) of the host, as in //example.com(:|$).",
    )
    feature_gates = mapping(
        gates,
        f"key=value pairs that switch features; what changes something here: {', '.join(sorted(WITH_EFFECT))}.",
        type="colonSeparatedMultimapStringString",
    )
    emulated_version = strings(
        (),
        "Release whose APIs and feature gates to have, as in kube=1.35. "
        f"Options are: kube={OLDEST}..{RELEASE}(default:{RELEASE})",
    )
    min_compatibility_version = strings(
        (),
        "Oldest release of other servers on the same store, as in kube=1.35, at most the emulated one. "
        f"Options are: kube={OLDEST}..{RELEASE}(default:{RELEASE.before(1)})",
    )
    emulation_forward_compatible = switch(
        False, "Serve newer versions of what is served, too, although the emulated release does not have them."
    )
    runtime_config_emulation_forward_compatible = switch(
        False, "Serve what --runtime-config enables by name, although the emulated release does not have it."
    )
    livez_grace_period = value(duration, 0.0, "How long /livez does not count the hooks that run at the start.")
    goaway_chance = value(number, 0.0, "Probability (0 to 0.02) of closing an HTTP/2 connection after a request.")
    max_requests_inflight = value(integer, 400, "Most non-mutating requests in flight; 0 for no limit.")
    max_mutating_requests_inflight = value(integer, 200, "Most mutating requests in flight; 0 for no limit.")
    max_pending_bytes = value(
        integer,
        MAX_PENDING_BYTES,
        "Bytes of answers, events and bodies that may wait for all clients together; beyond it those who are slow are "
        "disconnected, and what would make it worse is answered 429; 0 for no limit.",
        group="Kapi",
    )
    min_request_timeout = value(integer, 1800, "Least seconds a watch stays open before the server ends it.")
    request_timeout = value(duration, 60.0, "How long a request may take before it times out.")
    shutdown_delay_duration = value(duration, 0.0, "How long to go on serving after the signal to stop.")
    shutdown_watch_termination_grace_period = value(
        duration, 0.0, "How long the ends of watches are spread over when the server stops; 0 ends all at once."
    )
    shutdown_send_retry_after = switch(False, "Answer 429 with Retry-After while shutting down.")
    storage_initialization_timeout = value(
        duration,
        60.0,
        "How long to wait at the start for a store that cannot be reached, or that cannot confirm writes.",
    )
    strict_transport_security_directives = strings((), "Directives of the Strict-Transport-Security header.")

    def add(self) -> None:
        self.declare(
            "send-retry-after-while-not-ready-once",
            switch(
                False,
                "Answer 429 until the server has been ready once.",
                inert="the port opens when everything is loaded",
            ),
        )

    def complete(self) -> None:
        self.version, self._version_errors = effective_version(self.emulated_version, self.min_compatibility_version)
        self.features: dict[str, bool] = feature_gates.resolve(self.feature_gates, self.version.emulated)
        self.gates = frozenset(name for name, on in self.features.items() if on)

    def validate(self) -> list[str]:
        errors = self._version_errors + feature_gates.problems(self.feature_gates, self.version)
        if self.version.emulated == RELEASE:
            what = "cannot be set to true if the emulation version is the same as the binary version"
            if self.emulation_forward_compatible:
                errors.append(f"ServerRunOptions.EmulationForwardCompatible {what}")
            if self.runtime_config_emulation_forward_compatible:
                errors.append(f"ServerRunOptions.RuntimeConfigEmulationForwardCompatible {what}")
        if not 0 <= self.goaway_chance <= 0.02:
            errors.append("--goaway-chance can not be less than 0 or greater than 0.02")
        for name in ("max-requests-inflight", "max-mutating-requests-inflight", "max-pending-bytes"):
            if getattr(self, name.replace("-", "_")) < 0:
                errors.append(f"--{name} can not be negative value")
        if self.request_timeout <= 0:
            errors.append("--request-timeout can not be negative value")
        if self.min_request_timeout < 0:
            errors.append("--min-request-timeout can not be negative value")
        if self.shutdown_delay_duration < 0:
            errors.append("--shutdown-delay-duration can not be negative value")
        if self.shutdown_watch_termination_grace_period < 0:
            errors.append("shutdown-watch-termination-grace-period, if provided, can not be a negative value")
        if self.storage_initialization_timeout < 0:
            errors.append("--storage-initialization-timeout can not be negative value")
        if self.livez_grace_period < 0:
            errors.append("--livez-grace-period can not be a negative value")
        for directive in self.strict_transport_security_directives:
            if not directive.strip():
                errors.append("empty value in strict-transport-security-directives")
            elif not _DIRECTIVE.fullmatch(directive):
                errors.append(_DIRECTIVES)
        problems = [problem for origin in self.cors_allowed_origins if (problem := _origin_problem(origin))]
        return errors + [f"{problem}, help: {_ORIGINS}" for problem in problems]


def _origin_problem(origin: str) -> str:
    """The reason why a regular expression of origins cannot be used; "" when it can.

    It must match the start and the end of the host; otherwise "example.com" would match example.com.evil.org (CVE-2022-1996).
    """
    if not origin:
        return "empty value in --cors-allowed-origins"
    problem = pattern_error(origin)
    if not problem and not (any(mark in origin for mark in ("^", "//")) and any(mark in origin for mark in ("$", ":"))):
        problem = "regular expression does not pin to start/end of host in the origin header"
    return problem and f"--cors-allowed-origins has an invalid regular expression: {problem}"


_COMPONENT = "kube"
_VERSION = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)")


def effective_version(emulated: Sequence[str], compatible: Sequence[str]) -> tuple[EffectiveVersion, list[str]]:
    """The version from the values of both flags, which may name a component, and upstream's errors."""
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
