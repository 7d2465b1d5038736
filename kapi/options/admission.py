"""Admission flags (upstream: pkg/kubeapiserver ``options/admission.go``)."""

from __future__ import annotations

from kapi.options.flags import FlagSet, integer, string


class AdmissionOptions(FlagSet):
    title = "Admission"

    def add(self) -> None:
        self.strings("enable-admission-plugins", (), "Plugins to run beside the default ones.")
        self.strings("disable-admission-plugins", (), "Default plugins not to run.")
        self.value("admission-control-config-file", string, "", "AdmissionConfiguration file.")
        self.value(
            "default-not-ready-toleration-seconds", integer, 300, "Of the toleration every pod gets for not-ready."
        )
        self.value("default-unreachable-toleration-seconds", integer, 300, "Of the one for unreachable.")

    def validate(self) -> list[str]:
        both = sorted(set(self.enable_admission_plugins) & set(self.disable_admission_plugins))
        return [f"{name} in enable-admission-plugins and disable-admission-plugins overlapped" for name in both]
