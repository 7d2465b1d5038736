"""Admission flags (upstream: pkg/kubeapiserver ``options/admission.go``)."""

from __future__ import annotations

import re

from kapi.options.flags import FlagSet, integer, string, strings, value

_SERVICE_ADDRESS = re.compile(r"[a-z0-9.-]+/[a-z0-9.-]+(:[0-9]+)?=.+:[0-9]+")


class AdmissionOptions(FlagSet):
    title = "Admission"
    enable_admission_plugins = strings((), "Plugins to run besides the default ones.")
    admission_control = strings((), "Deprecated: all plugins to run; use --enable- and --disable-admission-plugins.")
    disable_admission_plugins = strings((), "Default plugins not to run.")
    admission_control_config_file = value(string, "", "AdmissionConfiguration file.")
    service_address = strings(
        (), "Where webhooks' Services are reached, namespace/name[:port]=host:port.", group="Kapi"
    )
    default_not_ready_toleration_seconds = value(integer, 300, "Of the toleration every pod gets for not-ready.")
    default_unreachable_toleration_seconds = value(integer, 300, "Of the one for unreachable.")

    def complete(self) -> None:
        self.conflict = bool(
            self.admission_control and (self.enable_admission_plugins or self.disable_admission_plugins)
        )
        if self.admission_control:
            from kapi.admission.catalogue import PLUGINS  # it imports many modules, so only with the flag

            self.enable_admission_plugins = list(self.admission_control)
            self.disable_admission_plugins = sorted(set(PLUGINS) - set(self.admission_control))

    def validate(self) -> list[str]:
        wrong = [pair for pair in self.service_address if not _SERVICE_ADDRESS.fullmatch(pair)]
        if self.conflict:
            return [
                "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"
            ]
        both = sorted(set(self.enable_admission_plugins) & set(self.disable_admission_plugins))
        return [f'--service-address: "{pair}" is not namespace/name[:port]=host:port' for pair in wrong] + [
            f"{name} in enable-admission-plugins and disable-admission-plugins overlapped" for name in both
        ]

    @property
    def service_addresses(self) -> dict[str, str]:
        """The addresses by namespace/name or namespace/name:port."""
        return dict(pair.split("=", 1) for pair in self.service_address)
