"""Tracing flags, and the file they name (upstream: component-base ``tracing/api/v1``)."""

from __future__ import annotations

import msgspec

from kapi.machinery.urls import parse_url
from kapi.options.errors import ConfigError, read_yaml
from kapi.options.flags import FlagSet, string, value

_FLAG = "--tracing-config-file"
_VERSIONS = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_KNOWN = {"apiVersion", "kind", "endpoint", "samplingRatePerMillion"}
_SCHEMES = ("dns", "unix", "unix-abstract")
_MILLION = 1_000_000


class TracingConfiguration(msgspec.Struct, frozen=True):
    """``endpoint`` is gRPC's name of a collector.  ``rate`` (0 to 1) is the sampled share of requests without a client's
    decision.
    """

    endpoint: str
    rate: float


class TracingOptions(FlagSet):
    title = "Traces"

    tracing_config_file = value(string, "", "TracingConfiguration file: where to send traces; needs kapi[tracing].")

    def configuration(self) -> TracingConfiguration | None:
        """The content of the file; None without the flag.  Raises ConfigError."""
        if not self.tracing_config_file:
            return None
        tree = read_yaml(self.tracing_config_file, "tracing-config-file")
        if not isinstance(tree, dict) or tree.get("kind") != "TracingConfiguration":
            raise ConfigError(f'{_FLAG}: want kind TracingConfiguration of "{_VERSIONS[0]}"')
        if tree.get("apiVersion") not in _VERSIONS:
            raise ConfigError(f"{_FLAG}: apiVersion: one of {', '.join(_VERSIONS)}")
        errors = [f'strict decoding error: unknown field "{name}"' for name in sorted(map(str, tree.keys() - _KNOWN))]
        endpoint, rate = tree.get("endpoint"), tree.get("samplingRatePerMillion")
        if endpoint is None:
            endpoint = "localhost:4317"
        if not isinstance(endpoint, str) or not endpoint:
            errors.append("endpoint: Invalid value: must be a text")
        else:
            target = endpoint if "//" in endpoint else f"dns://{endpoint}"
            try:
                scheme = parse_url(target).scheme
            except ValueError as error:
                errors.append(f'endpoint: Invalid value: "{target}": {error}')
            else:
                if scheme not in _SCHEMES:
                    errors.append(
                        f'endpoint: Invalid value: "{target}": unsupported scheme: {scheme}.  Options are none, '
                        f"{', '.join(_SCHEMES)}"
                    )
        if rate is None:
            rate = 0
        if not isinstance(rate, int) or isinstance(rate, bool):
            errors.append("samplingRatePerMillion: Invalid value: must be an integer")
        elif rate < 0:
            errors.append(f"samplingRatePerMillion: Invalid value: {rate}: sampling rate must be positive")
        elif rate > _MILLION:
            errors.append(
                f"samplingRatePerMillion: Invalid value: {rate}: sampling rate per million must be less than or equal to "
                "one million"
            )
        if errors:
            raise ConfigError(*(f"{_FLAG}: {error}" for error in errors))
        return TracingConfiguration(endpoint, rate / _MILLION)
