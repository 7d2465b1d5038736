"""All flags together: parse, complete, validate (upstream: cmd/kube-apiserver ``options``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from kapi.options.admission import AdmissionOptions
from kapi.options.aggregator import AggregatorOptions
from kapi.options.api_enablement import APIEnablementOptions
from kapi.options.audit import AuditOptions
from kapi.options.authentication import AuthenticationOptions
from kapi.options.authorization import AuthorizationOptions
from kapi.options.control_plane import ControlPlaneOptions
from kapi.options.controllers import ControllerOptions
from kapi.options.egress import EgressOptions
from kapi.options.errors import ConfigError
from kapi.options.features import FeatureOptions
from kapi.options.flags import Flag, FlagSet, parse
from kapi.options.generic import GenericOptions
from kapi.options.global_flags import GlobalOptions, ProcessOptions
from kapi.options.help import usage, value_text
from kapi.options.kubelet import KubeletOptions
from kapi.options.logs import LogOptions
from kapi.options.metrics import MetricsOptions
from kapi.options.serving import ServingOptions
from kapi.options.storage import StorageOptions
from kapi.options.tracing import TracingOptions
from kapi.store.address import without_passwords


class Extension(Protocol):
    """An object with flags of its own."""

    def flags(self, processes: ProcessOptions) -> FlagSet: ...


class Options:
    """One attribute per group."""

    def __init__(self, extension: Extension | None = None) -> None:
        self.generic = GenericOptions()
        self.storage = StorageOptions()
        self.serving = ServingOptions()
        self.processes = ProcessOptions()
        self.audit = AuditOptions()
        self.features = FeatureOptions(self.processes)
        authorization = AuthorizationOptions()
        self.authentication = AuthenticationOptions(authorization)
        self.authorization = authorization
        self.api_enablement = APIEnablementOptions(self.features)
        self.egress = EgressOptions()
        self.admission = AdmissionOptions()
        self.metrics = MetricsOptions()
        self.aggregator = AggregatorOptions()
        self.controllers = ControllerOptions()
        self.kubelet = KubeletOptions()
        self.control_plane = ControlPlaneOptions()
        self.logs = LogOptions()
        self.tracing = TracingOptions()
        self.others = GlobalOptions()  # only for the help text
        if extension is not None:
            self.extension = extension.flags(self.processes)

    @property
    def groups(self) -> list[FlagSet]:
        return [group for group in vars(self).values() if isinstance(group, FlagSet)]

    @classmethod
    def from_command_line(cls, arguments: Sequence[str], extension: Extension | None = None) -> Options:
        """Parses, completes and validates the flags.  Raises ConfigError with all errors."""
        options = cls(extension)
        errors = parse(options.groups, arguments)
        for group in options.groups:
            group.complete()
        for group in options.groups:
            errors.extend(group.validate())
        if options.authentication.requestheader_uid_headers and not options.generic.features["RemoteRequestHeaderUID"]:
            errors.append('--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be enabled')
        if not options.generic.features["UnknownVersionInteroperabilityProxy"]:
            errors.extend(
                f"--{flag} requires UnknownVersionInteroperabilityProxy feature to be turned on"
                for flag in ("peer-ca-file", "peer-advertise-ip", "peer-advertise-port")
                if getattr(options.aggregator, flag.replace("-", "_"))
            )
        reads, writes = options.generic.max_requests_inflight, options.generic.max_mutating_requests_inflight
        if options.features.enable_priority_and_fairness and reads + writes <= 0:
            errors.append(
                f"invalid configuration: MaxRequestsInFlight={reads} and MaxMutatingRequestsInFlight={writes}; they must add "
                "up to something positive"
            )
        if errors:
            raise ConfigError(*errors)
        return options

    def settings(self) -> list[tuple[str, str]]:
        """(name, value) of every flag, sorted; passwords in URLs are masked."""
        return sorted(
            (flag.name, without_passwords(value_text(flag, getattr(group, flag.attribute))))
            for group in self.groups
            for flag in group.flags.values()
            if not flag.refused
        )

    def reloaded_files(self) -> list[str]:
        """The files that are read again while the server runs, without the port's files."""
        identity, kubelet, storage = self.authentication, self.kubelet, self.storage
        named = [
            identity.authentication_config,
            identity.client_ca_file,
            identity.requestheader_client_ca_file,
            self.authorization.authorization_config,
            self.aggregator.proxy_client_cert_file,
            self.aggregator.proxy_client_key_file,
            self.aggregator.peer_ca_file,
            kubelet.kubelet_certificate_authority,
            kubelet.kubelet_client_certificate,
            kubelet.kubelet_client_key,
        ]
        if storage.encryption_provider_config_automatic_reload:
            named.append(storage.encryption_provider_config)
        return [path for path in named if path]

    def inert(self) -> list[tuple[str, str]]:
        """(name, reason) of each flag on the command line that has no effect in kapi."""
        return [(flag.name, flag.inert) for flag in self._given() if flag.inert]

    def deprecated(self) -> list[tuple[str, str]]:
        """(name, reason) of each deprecated flag on the command line."""
        return [(flag.name, flag.deprecated) for flag in self._given() if flag.deprecated]

    def _given(self) -> Iterator[Flag]:
        return (group.flags[name] for group in self.groups for name in sorted(group.given))


def help_text(extension: Extension | None = None) -> str:
    return usage(Options(extension).groups)
