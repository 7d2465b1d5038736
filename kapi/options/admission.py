"""Admission flags (upstream: pkg/kubeapiserver ``options/admission.go``)."""

from __future__ import annotations

import re

from kapi.machinery.golang import quote
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
        errors = [f'--service-address: "{pair}" is not namespace/name[:port]=host:port' for pair in wrong]
        if self.conflict:
            errors.append(
                "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"
            )
        errors += self._unknown()
        both = sorted(set(self.enable_admission_plugins) & set(self.disable_admission_plugins))
        if both and not self.admission_control:
            errors.append(f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped")
        return errors

    def _unknown(self) -> list[str]:
        errors = []
        for flag in ("admission-control", "enable-admission-plugins", "disable-admission-plugins"):
            if flag in self.given:
                from kapi.admission.catalogue import INACTIVE, PLUGINS  # many modules, so only with the flag

                names = getattr(self, flag.replace("-", "_"))
                unknown = [name for name in names if name not in PLUGINS and name not in INACTIVE]
                errors += [f"{flag} plugin {quote(name)} is unknown" for name in unknown]
        return errors

    @property
    def service_addresses(self) -> dict[str, str]:
        """The addresses by namespace/name or namespace/name:port."""
        return dict(pair.split("=", 1) for pair in self.service_address)
